"""What an import does not load: heavy libraries wait until a learner is asked for."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

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


def imported_names(path):
    return {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(Path(path).read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_type_checkers_see_every_public_name():
    import tanager

    stub = Path(tanager.__file__).parent / "__init__.pyi"
    assert imported_names(stub) | {"__version__"} == set(tanager.__all__)


@pytest.mark.parametrize("package", ["classifiers", "parameters", "structure"])
def test_type_checkers_see_names_that_are_loaded_on_first_use(package):
    module = import_module(f"tanager.{package}")
    assert set(module.__all__) <= imported_names(module.__file__)


def test_commands_that_use_a_model_load_little(tmp_path):
    import tanager

    table = tmp_path / "rows.csv"
    table.write_text("a,b,y\n" + "x,1.5,no\nz,2.5,yes\n" * 20)
    model = tmp_path / "m.tanager"
    clf = tanager.BayesNetClassifier("tan", "m-estimate").fit(str(table), "y")
    tanager.save(clf, model)
    code = f"""if True:
        import sys
        from tanager.cli.app import run
        for words in (
            ["predict", {str(model)!r}, {str(table)!r}, "-o", {str(tmp_path / "out.csv")!r}],
            ["show", {str(model)!r}],
            ["score", {str(model)!r}, {str(table)!r}],
            ["explain", {str(model)!r}, {str(table)!r}],
        ):
            assert run(words) == 0, words
        heavy = ("sklearn", "scipy", "numba", "pandas")
        print("LOADED", *[m for m in heavy if m in sys.modules])
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1].split() == ["LOADED"]
