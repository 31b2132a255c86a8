"""List the benchmarks, or run some by name or by group.

    python -m benchmarks                    what there is
    python -m benchmarks quick              a group: a few minutes, no data needed
    python -m benchmarks foundation arena   by name, each with its usual arguments

Tables come from the folder that TANAGER_DATA names. Each benchmark says in its first lines which
arguments it takes; with `--write` it writes its page in docs/measurements.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
DATA = "{data}"

# The arguments that a benchmark is run with here.
GROUPS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "quick": {
        "foundation": (),
        "first_contact": (),
        "peers": (),
        "reads": (),
        "selective_kdb": (),
    },
    "speed": {
        "cliffs": (),
        "cluster": ("workers",),
        "exports": (),
        "growth": (),
        "large_default": (),
        "model_page": (),
        "questions": (),
        "rows_and_time": (),
        "scale": ("learners",),
        "serving": (),
    },
    "quality": {
        "ablation": ("--data", DATA),
        "adjusted_information": ("--data", DATA),
        "arena": ("--data", DATA),
        "class_weight": ("--data", DATA),
        "drift": (),
        "fine_generative": (),
        "intervals": (),
        "monotone": (),
        "noise": (),
        "smooth_scores": (),
        "tan_root": (),
        "unknown_inputs": (),
    },
    "papers": {
        "acll": ("time", "likelihood"),
        "differentiable": ("speed",),
        "differentiable_defaults": (),
        "discriminative_convergence": ("--data", DATA),
        "discriminative_study": ("--data", DATA, "--run", "discriminative.jsonl"),
        "hdp": (),
        "hdp_study": ("prior", "--data", DATA),
        "missing_features": (),
        "order_based": ("tables",),
        "splice": ("windows",),
        "splice_accuracy": ("windows",),
    },
}
ARGUMENTS = {name: given for group in GROUPS.values() for name, given in group.items()}


def title(name: str) -> str:
    """Return the first line of what a benchmark says of itself."""
    text = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")))
    return (text or "").partition("\n")[0]


def run(name: str) -> None:
    """Run one benchmark in a process of its own."""
    print(f"== {name}: {title(name)}", flush=True)
    folder = os.environ.get("TANAGER_DATA")
    if DATA in ARGUMENTS[name] and not folder:
        print("   skipped: set TANAGER_DATA to a folder of tables")
        return
    given = [str(folder) if part == DATA else part for part in ARGUMENTS[name]]
    command = [sys.executable, "-m", f"benchmarks.{name}", *given]
    subprocess.run(command, cwd=FOLDER.parent, check=True)


def main(wanted: list[str]) -> int:
    """List the benchmarks, or run those that are wanted."""
    unknown = [name for name in wanted if name not in GROUPS and name not in ARGUMENTS]
    if unknown:
        print(f"{unknown[0]!r} isn't valid. Groups: {', '.join(GROUPS)}.", file=sys.stderr)
        return 2
    if not wanted:
        for group, members in GROUPS.items():
            print(f"{group}:", *(f"  {name:27}{title(name)}" for name in members), sep="\n")
    for one in wanted:
        for name in GROUPS.get(one, [one]):
            run(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
