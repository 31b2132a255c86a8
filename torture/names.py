"""Names and labels that try to break out of where they are written."""

from __future__ import annotations

import random

__all__ = ["CONTROLS", "HOSTILE", "hostile_names"]

HOSTILE = (
    "=cmd|' /C calc'!A0",
    "</script><script>alert(1)</script>",
    "</text></svg><img src=x onerror=alert(1)>",
    "\x1b[31mred\x07\x1b]0;title\x07",
    "[/bold]",
    "[red]x[/red]",
    'quo"te \\ back\\',
    "$\\frac{1",
    "line\nbreak\r\n; x",
    "\u202egnp.exe\u200f",
    "'; drop table x; --",
    "{x} %s {{x}} {%x%}",
    "& &amp; <!-- ]]>",
    "\x00nul\x9b31m",
    "_hidden",
    "*/ int x; /*",
    "` ${alert(1)} `",
    "??/ ??' \\u0041 \\",
    "\t+1+2",
    "@SUM(1)",
    "-1+1",
    "\r=1",
    "\u2028\u2029",
    "\ufeff\u200b\u2066x\u2069",
    "<svg/onload=alert(1)>",
    'x" onmouseover="alert(1)',
    "javascript:alert(1)",
    "__proto__",
    "constructor",
    "NaN",
    "select",
    "]]></style><b>",
    "",
    " ",
)
# Characters that steer a terminal or turn the direction of writing.
CONTROLS = frozenset(
    chr(c)
    for c in (
        *range(9),
        *range(11, 32),
        *range(0x7F, 0xA0),
        0x200E,
        0x200F,
        0x061C,
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    )
)


def hostile_names(rng: random.Random, number: int) -> list[str]:
    """Return so many different names: hostile ones, joined, cut and mixed with any characters."""
    found: list[str] = []
    while len(found) < number:
        parts = rng.choices(HOSTILE, k=rng.choice([1, 1, 2, 3]))
        if rng.random() < 0.3:
            parts.append("".join(chr(rng.choice(_PLACES)) for _ in range(rng.randint(1, 6))))
        name = "".join(parts)
        name = name[rng.randrange(3) :] if rng.random() < 0.2 else name
        if name and name not in found:
            found.append(name)
    return found


_PLACES = (
    *range(0x20),
    *range(0x7F, 0xA1),
    0x301,
    0x2028,
    0x202E,
    0xFDD0,
    0xFFFE,
    0x1F600,
    0x10FFFF,
)
