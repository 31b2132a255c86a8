"""The platforms that wheels are built for."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """A platform to compile for: zig's name, the wheel's, and the ending of the module."""

    triple: str
    tag: str
    ending: str = ".abi3.so"
    link: tuple[str, ...] = ("-lm",)


_MAC = ("-undefined", "dynamic_lookup")
TARGETS = {
    "linux-x86_64": Target("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
    "linux-aarch64": Target(
        "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64"
    ),
    "macos-x86_64": Target("x86_64-macos.11.0", "macosx_11_0_x86_64", link=_MAC),
    "macos-arm64": Target("aarch64-macos.11.0", "macosx_11_0_arm64", link=_MAC),
    "windows-x86_64": Target("x86_64-windows-gnu", "win_amd64", ".pyd", ()),
}
