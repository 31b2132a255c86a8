"""Claims on the page of Zaidi et al. (2017) that follow from scores and traces."""

from __future__ import annotations

import numpy as np

from tanager.evaluation.reproduction import zaidi_2017, zaidi_convergence, zaidi_forms
from tanager.evaluation.results import Scores

TABLES = tuple("abcdefghijklmnopqrstuvwxy")


def test_over_all_tables_the_winner_depends_on_structure_and_loss():
    names = ("NB", "NBw", "TAN", "TANw")
    scores = {m: Scores(m, TABLES, names, np.tile([0.2, 0.1, 0.1, 0.2], (25, 1)))
              for m in zaidi_forms.LOSSES}  # fmt: skip
    claim = zaidi_2017.every_claim({"": scores})
    assert claim.verdict == "holds"
    assert "TAN over TANw, RMSE 25–0–0*" in claim.number
    scores["rmse_class_averaged"] = scores["rmse_class_averaged"]._replace(
        values=np.tile([0.1, 0.2, 0.1, 0.2], (25, 1))
    )
    claim = zaidi_2017.every_claim({"": scores})
    assert claim.why == "2 of 3 comparisons borne out; not: NBw over NB, RMSE."


def test_later_iterations_and_big_tables_are_judged_on_their_own():
    # The weighted form is ahead up to the tenth iteration, and behind at the fiftieth.
    ahead, behind = [9.0] * 11 + [5.0] * 40, [10.0] * 11 + [4.0] * 40
    traces = {
        f"{n}{f}": dict.fromkeys(TABLES, ahead if f == "w" else behind)
        for n in zaidi_forms.STRUCTURES
        for f in zaidi_forms.FORMS
    }
    starts = dict.fromkeys(zaidi_forms.STARTS, traces)
    later = zaidi_convergence.later_claim(starts)
    assert later.verdict == "holds in part"
    assert later.why.startswith("12 of 24 comparisons borne out")
    assert later.number == "ahead in 12 of 24 comparisons, significantly in 12"
    big = zaidi_convergence.big_claim(starts)
    assert big.why.startswith("24 of 36 comparisons borne out")
    none = {start: {} for start in zaidi_forms.STARTS}
    assert zaidi_convergence.big_claim(none).verdict == "cannot be tested here"


def test_nemenyi_s_test_is_to_spare_one_pair():
    apart = {("NBd", "training time"): (0.5, 0.4), ("KDB-1d", "training time"): (0.2, 0.4)}
    assert zaidi_convergence.apart_claim(apart).verdict == "holds"
    apart["KDB-1d", "training time"] = (0.6, 0.4)
    apart["NBe", "iterations"] = (0.1, 0.4)
    claim = zaidi_convergence.apart_claim(apart)
    assert claim.why == (
        "1 of 3 comparisons borne out; a lead only: NBe, iterations; not: KDB-1d, training time."
    )
    assert zaidi_convergence.apart_claim({}).verdict == "cannot be tested here"
