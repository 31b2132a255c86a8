"""What an import does not load: heavy libraries wait until a learner is asked for."""

import subprocess
import sys

import pytest

LOADED = "import sys, {module}; print(*[m for m in {heavy!r} if m in sys.modules])"


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("tanager", ["sklearn", "scipy", "numba", "pyarrow", "pandas", "matplotlib", "rich"]),
        ("tanager.structure", ["sklearn", "scipy", "numba", "pandas"]),
        ("tanager.parameters", ["sklearn", "scipy", "numba", "pandas"]),
    ],
)
def test_a_bare_import_loads_little(module, heavy):
    code = LOADED.format(module=module, heavy=heavy)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_type_checkers_see_every_public_name():
    import ast
    from pathlib import Path

    import tanager

    stub = ast.parse((Path(tanager.__file__).parent / "__init__.pyi").read_text())
    named = {
        alias.asname
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert named | {"__version__"} == set(tanager.__all__)
