"""The C header, compiled with all warnings as errors."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tanager import BayesNetClassifier
from tanager.errors import ConfigurationError, MemoryBoundError
from tanager.network.exports.c import _literal, _names
from tanager.network.exports.recipe import make_recipe
from tanager.structure import KDB, Fixed
from tests.network.exports.cases import COMBINATIONS, NASTY, all_cases, check, nasty_case

COMPILER = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed")

SCORE = """
static void run_@(void)
{{
    static const @_row rows[] = {{{rows}}};
    int r, c, i;
    for (r = 0; r < (int)(sizeof rows / sizeof rows[0]); r++) {{
        double p[@_N_CLASSES], terms[@_N_FEATURES][@_N_CLASSES];
        if (@_score(&rows[r], p) != 0 || @_terms(&rows[r], terms) != 0)
            printf("unscored");
        for (c = 0; c < @_N_CLASSES; c++)
            printf("%.17g ", p[c]);
        for (i = 0; i < @_N_FEATURES; i++)
            for (c = 0; c < @_N_CLASSES; c++)
                printf("%.17g ", terms[i][c]);
        printf("\\n");
    }}
}}
"""


def c_rows(case):
    """Return the rows as initialisers, in the order of the struct."""
    network = case.network
    used = [case.rows.column(i) for i in network.structure.selected]
    lines = []
    for cells in zip(*(column.to_pylist() for column in used), strict=True):
        shown = [_cell(cell, column.type) for cell, column in zip(cells, used, strict=True)]
        lines.append("{" + ", ".join(shown) + "}")
    return ",\n".join(lines)


def _cell(value, kind):
    if pa.types.is_string(kind):
        return "NULL" if value is None else _literal(value)
    if value is None or value != value:
        return "NAN"
    return repr(float(value))


def compile_and_run(folder, source):
    path = folder / "main.c"
    path.write_text(source, encoding="ascii")
    # Compilers find more to warn of where they optimise.
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-std=c99", "-pedantic"]
    flags.append("-Wno-overlength-strings")
    subprocess.run(
        [COMPILER, *flags, str(path), "-o", str(folder / "main"), "-lm"], check=True, timeout=300
    )
    done = subprocess.run([folder / "main"], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()


@needs_compiler
@pytest.mark.parametrize(("structure", "parameters"), COMBINATIONS)
def test_c_gives_the_same_posterior_and_terms(structure, parameters, tmp_path):
    cases = all_cases(structure, parameters)
    parts, calls = ["#include <stdio.h>"], []
    for at, case in enumerate(cases):
        header = tmp_path / f"m{at}.h"
        header.write_text(case.network.to_c(name=f"m{at}"), encoding="ascii")
        parts.append(f'#include "{header.name}"')
        parts.append(SCORE.replace("@", f"m{at}").format(rows=c_rows(case)))
        calls.append(f"run_m{at}();")
    source = "\n".join([*parts, "int main(void)", "{", *calls, "return 0;", "}", ""])
    lines = iter(compile_and_run(tmp_path, source))
    for case in cases:
        got = np.array([next(lines).split() for _ in range(case.rows.num_rows)], float)
        n_classes = case.expected.shape[1]
        check(case, got[:, :n_classes])
        network = case.network
        terms = network.log_terms(network.codebook.encode(case.rows))
        wanted = terms[:, list(network.structure.selected)].reshape(len(got), -1)
        assert np.allclose(got[:, n_classes:], wanted, rtol=0, atol=1e-9), case.name


@needs_compiler
def test_one_edge_compiles_without_a_warning(tmp_path):
    rows = [["a", "u"], ["b", "v"], ["a", "v"], ["b", "u"]] * 5
    clf = BayesNetClassifier(Fixed({"x1": ["x0"]}), "laplace").fit(rows, [0, 0, 1, 1] * 5)
    (tmp_path / "m.h").write_text(clf.network_.to_c(name="m"), encoding="ascii")
    run = SCORE.format(rows='{"a", "v"}, {NULL, "u"}').replace("@", "m")
    source = f'#include <stdio.h>\n#include "m.h"\n{run}\nint main(void) {{ run_m(); return 0; }}\n'
    got = [line.split()[:2] for line in compile_and_run(tmp_path, source)]
    wanted = clf.predict_proba([["a", "v"], [None, "u"]])
    assert np.allclose(np.array(got, float), wanted, rtol=0, atol=1e-9)


@needs_compiler
def test_rows_with_unknown_values_are_nan_on_request(tmp_path):
    case = all_cases("tan", "hdp")[0]
    (tmp_path / "m.h").write_text(case.network.to_c(name="m", unknowns=False), encoding="ascii")
    source = f"""
#include <stdio.h>
#include "m.h"
int main(void)
{{
    static const m_row rows[] = {{{c_rows(case)}}};
    int r;
    for (r = 0; r < (int)(sizeof rows / sizeof rows[0]); r++) {{
        double p[m_N_CLASSES];
        int failed = m_score(&rows[r], p);
        printf("%d %.17g %s\\n", failed, p[0], m_label(0));
    }}
    return 0;
}}
"""
    got = [line.split(None, 2) for line in compile_and_run(tmp_path, source)]
    failed = np.array([int(words[0]) for words in got])
    first = np.array([float(words[1]) for words in got])
    assert set(failed) == {0, -1}
    assert (np.isnan(first) == (failed == -1)).all()
    assert np.allclose(first[failed == 0], case.expected[failed == 0, 0], rtol=0, atol=1e-9)
    assert {words[2] for words in got} == {str(case.network.codebook.classes[0])}


def test_texts_cannot_break_out():
    header = nasty_case().network.to_c()
    assert header.isascii()
    assert "DROP TABLE" in header
    for line in header.splitlines():
        assert not line.rstrip().endswith("\\")
    for text in NASTY:
        shown = _literal(text)[1:-1]
        assert not set(shown.replace("\\", "")) & set("\"'?*/@\n")
    assert _literal("*/??/\\@") == '"\\052\\057\\077\\077\\057\\134\\100"'


def test_fields_are_names_in_c():
    recipe = make_recipe(nasty_case().network)
    fields = _names(recipe)
    assert len({field.lower() for field in fields}) == len(fields)
    assert all(field.isascii() and field.isidentifier() for field in fields)
    odd = replace(recipe.inputs[0], name="🦜")
    assert _names(replace(recipe, inputs=(odd,))) == ["x"]


def test_what_c_cannot_hold_is_refused():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 12, (400, 14))
    clf = BayesNetClassifier(KDB(k=3, adjusted=False), "laplace", categorical_features="all")
    network = clf.fit(x, rng.integers(0, 2, 400)).network_
    with pytest.raises(MemoryBoundError, match="unknowns=False"):
        network.to_c()
    assert "m_score" in network.to_c(name="m", unknowns=False)
    with pytest.raises(ConfigurationError, match=r"name=.*names in C"):
        network.to_c(name="a-b")
    table = pa.table({"id": pa.array([2**60, 2**60 + 1] * 20, pa.int64())})
    clf = BayesNetClassifier("naive", "laplace", categorical_features="all")
    with pytest.raises(ConfigurationError, match="'id' has whole numbers past"):
        clf.fit(table, [0, 1] * 20).network_.to_c()
