"""Claims on the page of Zaidi et al. (2017) that follow from scores and traces."""

from __future__ import annotations

import numpy as np

from tanager.evaluation.results import Scores
from tanager_papers import (
    zaidi_2017,
    zaidi_convergence,
    zaidi_curves,
    zaidi_forms,
)

TABLES = tuple("abcdefghijklmnopqrstuvwxy")


def test_over_all_tables_the_winner_depends_on_structure_and_loss():
    names = ("NB", "NBw", "TAN", "TANw")
    scores = {m: Scores(m, TABLES, names, np.tile([0.2, 0.1, 0.1, 0.2], (25, 1)))
              for m in zaidi_forms.LOSSES}  # fmt: skip
    claim = zaidi_2017.every_claim({"": scores})
    assert claim.verdict == "holds"
    assert "TAN over TANw, RMSE 25–0–0 (" in claim.number
    scores["rmse_class_averaged"] = scores["rmse_class_averaged"]._replace(
        values=np.tile([0.1, 0.2, 0.1, 0.2], (25, 1))
    )
    claim = zaidi_2017.every_claim({"": scores})
    assert claim.why == "2 of 3 comparisons hold; refuted: NBw over NB, RMSE."


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
    assert later.why.startswith("12 of 24 comparisons hold")
    assert later.number.startswith(
        "ahead in 12 of 24 comparisons, in 12 with p ≤ 0.05 each; power "
    )
    big = zaidi_convergence.big_claim(starts)
    assert big.why.startswith("24 of 36 comparisons hold")
    none = {start: {} for start in zaidi_forms.STARTS}
    assert zaidi_convergence.big_claim(none).verdict == "cannot be tested here"


def test_nemenyi_s_test_is_to_spare_one_pair():
    apart = {("NBd", "training time"): (0.5, 0.4), ("KDB-1d", "training time"): (0.2, 0.4)}
    assert zaidi_convergence.apart_claim(apart).verdict == "holds"
    apart["KDB-1d", "training time"] = (0.6, 0.4)
    apart["NBe", "iterations"] = (0.1, 0.4)
    claim = zaidi_convergence.apart_claim(apart)
    assert claim.why.startswith(
        "1 of 3 comparisons hold; direction only: NBe, iterations; refuted: KDB-1d, training time."
    )
    assert zaidi_convergence.apart_claim({}).verdict == "cannot be tested here"


def form_parts(rows):
    """Return scores by start and metric; one row a table: NB, NBw, NBd, NBe and so on."""
    names = tuple(f"{n}{f}" for n in zaidi_forms.STRUCTURES for f in ("", *zaidi_forms.FORMS))
    values = np.tile(np.asarray(rows, float), 3)
    tables = TABLES[: len(values)]
    return {
        start: {m: Scores(m, tables, names, values.copy()) for m in zaidi_forms.TITLES}
        for start in zaidi_forms.STARTS
    }


def test_a_table_without_loss_does_not_make_the_means():
    parts = form_parts([[0.2, 0.1, 0.1, 0.1]] * 9 + [[1e-4, 1e-12, 0.1, 0.1]])
    kept = zaidi_forms.comparable(parts)
    assert kept["zero"]["rmse_class_averaged"].datasets == TABLES[:9]
    assert kept["zero"]["fit_cpu_seconds"].datasets == TABLES[:10]
    claim = zaidi_forms.same_claim(kept, kept)
    assert claim.verdict == "holds"
    assert "RMSE, all 0.0 %" in claim.number
    assert zaidi_forms.same_claim(parts, parts).verdict != "holds"


def test_gains_are_to_be_large_where_the_paper_says_so():
    parts = form_parts([[0.20, 0.18, 0.18, 0.198]] * 9)
    claim = zaidi_forms.gain_claim(parts, parts)
    assert claim.verdict == "holds in part"  # 1 % is enough with KDB-1 only
    assert claim.why.startswith("56 of 72 comparisons hold")
    worse = form_parts([[0.20, 0.21, 0.21, 0.21]] * 9)
    assert zaidi_forms.gain_claim(worse, worse).verdict == "does not hold"


def test_means_that_are_near_are_the_same_only_if_their_intervals_are():
    noise = 1 + 0.3 * np.array([-1.0, 0.5, 0.7, -0.4, 0.2, 0.8, -0.6, -0.2, 0.0])
    rows = np.array([[0.2, 0.1, 0.1, 0.1]] * 9)
    rows[:, 2:] *= noise[:, None]
    parts = form_parts(rows)
    claim = zaidi_forms.same_claim(parts, parts)
    assert claim.verdict == "undecided"
    assert "0-1 loss, all 1.6 %" in claim.number
    rows[:, 1:] = 0.198 * noise[:, None]
    parts = form_parts(rows)
    assert zaidi_forms.gain_claim(parts, parts).verdict == "undecided"


def test_training_is_slower_by_orders_of_magnitude_or_by_less():
    slow = form_parts([[0.01, 2.0, 4.0, 20.0]] * 9)
    assert zaidi_forms.slower_claim(slow, slow).verdict == "holds"
    less = form_parts([[0.01, 0.5, 1.0, 5.0]] * 9)
    claim = zaidi_forms.slower_claim(less, less)
    assert claim.why.startswith("2 of 6 comparisons hold; direction only: NBw (I); TANw (I);")


def test_curves_are_judged_by_when_they_come_to_their_end():
    assert zaidi_curves.iterations_to_end([[9, 1, 0], [9, 5, 2, 0], [9, 8, 7]]) == [2, 3, 4]
    sooner = np.tile([3.0, 6.0, 9.0], (9, 1))
    claim = zaidi_curves.curve_claim({"zero": [sooner], "generative": [sooner, sooner]})
    assert claim.verdict == "holds"
    assert "e (I) 18–0–0, 3.0 times the iterations" in claim.number
    claim = zaidi_curves.curve_claim({"zero": [sooner[:, ::-1]]})
    assert claim.verdict == "does not hold"
    assert zaidi_curves.curve_claim({}).verdict == "cannot be tested here"
