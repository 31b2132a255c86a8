"""Parts of the reproductions of Pernkopf and Bilmes (2008) and of Roth and Pernkopf (2020)."""

from __future__ import annotations

import numpy as np
import pytest

from tanager import BayesNetClassifier
from tanager.evaluation import Contender, Dataset
from tanager.evaluation.results import Scores
from tanager.structure import Fixed
from tanager_papers import (
    Workbench,
    pernkopf_claims,
    pernkopf_examples,
    pernkopf_orders,
    roth_2020,
    roth_orders,
    roth_printed,
    roth_sweeps,
)
from tanager_papers.generators import corral
from tanager_papers.pernkopf_tables import friedman_tables


def test_rates_of_many_structures_are_those_of_a_classifier_each():
    table = corral(128)
    labels = np.array([int(value) for value in table["class"].to_pylist()])
    features = table.drop_columns(["class"])
    train, test = np.arange(80), np.arange(80, 128)
    model = BayesNetClassifier("order(order='random', n_orders=6)", "ml", random_state=1)
    model.fit(features.take(train), labels[train])
    structures = [order["parents"] for order in model.info_["structure"]["orders"]]
    rates = pernkopf_orders.order_rates(
        model.network_.codebook,
        (features.take(train), labels[train]),
        (features.take(test), labels[test]),
        structures,
    )
    assert len({tuple(map(tuple, structure)) for structure in structures}) > 1
    for structure, rate in zip(structures, rates, strict=True):
        given = Fixed(dict(zip(features.column_names, structure, strict=True)))
        one = BayesNetClassifier(given, "ml").fit(features.take(train), labels[train])
        assert one.score(features.take(test), labels[test]) == pytest.approx(rate)


def test_orders_are_kept_and_the_best_is_the_best_on_training_rows(tmp_path):
    bench = Workbench(None, tmp_path, quick=True)
    dataset = Dataset("corral", corral(128))
    found, note = pernkopf_orders.random_orders(bench, [dataset])
    assert found["tables"] == ("corral",)
    rates = {pick: found[f"TAN-RO-CR-ML, {pick}"][0] for pick in pernkopf_orders.PICKS}
    assert all(0.5 < rate <= 1 for rate in rates.values())
    assert "5 random orders" in note
    fits = bench.n_cells
    again = Workbench(None, tmp_path, quick=True, until=0.0)  # no time for anything new
    same, _ = pernkopf_orders.random_orders(again, [dataset])
    assert {k: list(v) for k, v in same.items()} == {k: list(v) for k, v in found.items()}
    assert again.n_cells == fits == 5 * 5 * 2


def test_configurations_cover_setting_two_from_the_first_few_on():
    drawn = roth_sweeps.configurations(8)
    assert roth_sweeps.configurations(3) == drawn[:3]
    lambdas, gammas = (np.log10([d[name] for d in drawn]) for name in ("lambda_", "gamma"))
    assert {d["eta"] for d in drawn} == {10.0}
    for values, low, high in ((lambdas, 1, 3), (gammas, -1, 2)):
        assert values.min() >= low
        assert values.max() <= high
        halves, _ = np.histogram(values, bins=2, range=(low, high))
        assert min(halves) >= 3


def test_setting_one_is_wider_and_moves_eta_too():
    drawn = roth_sweeps.configurations(16, wide=True)
    for name, low, high in (("lambda_", 1.0, 1000.0), ("gamma", 0.1, 100.0), ("eta", 1.0, 20.0)):
        values = [d[name] for d in drawn]
        assert low <= min(values)
        assert max(values) <= high
    assert min(d["lambda_"] for d in drawn) < 10.0  # below setting (II)
    assert len({d["eta"] for d in drawn}) == 16


def test_a_sweep_probes_one_classifier_for_all_and_tells_them_apart(tmp_path):
    bench = Workbench(None, tmp_path)
    first, second = (Contender(f"nb {m}", f"naive/m-estimate(m={m})") for m in (1.0, 2.0))
    stamps = {bench.stamp_of(c, like=first) for c in (first, second)}
    assert len(stamps) == 2
    assert [facts["use"] for facts in bench.made_with.values()] == [first.use]


def test_figures_3a_and_3b_are_one_sweep_looked_at_in_two_ways():
    plan = next(p for p in roth_sweeps.PLANS if p.slug == "figure-3")
    points = {name: {"x": [1.0], "y": [float(i)]} for i, name in enumerate(plan.uses)}
    by_order, by_size = roth_sweeps._figures(plan, points)
    assert list(by_order[2]) == ["ordering A", "ordering B", "ordering C"]
    assert list(by_size[2]) == [f"K = {k}" for k in roth_sweeps.SIZES]
    for _, _, groups in (by_order, by_size):
        assert sorted(y for g in groups.values() for y in g["y"]) == list(range(12))
    # Two sizes of every ordering, and ordering A of every size: what is compared is alike.
    some = {name: point for name, point in points.items() if name[0] == "A" or name[-1] in "12"}
    by_order, by_size = roth_sweeps._figures(plan, some)
    assert {name: len(group["y"]) for name, group in by_order[2].items()} == {
        f"ordering {order}": 2 for order in "ABC"
    }
    assert {name: len(group["y"]) for name, group in by_size[2].items()} == {
        f"K = {k}": 1 for k in roth_sweeps.SIZES
    }


def test_a_picture_joins_draws_where_colours_would_not_do():
    points = {f"K = {k} #{i}": {"x": [1.0], "y": [float(i)]} for k in (2, 8) for i in range(5)}
    joined = roth_sweeps._few(points)
    assert {name: found["y"] for name, found in joined.items()} == {
        name: [0.0, 1.0, 2.0, 3.0, 4.0] for name in ("K = 2", "K = 8")
    }
    few = dict(list(points.items())[:4])
    assert roth_sweeps._few(few) == few


def test_a_configuration_that_only_some_were_trained_under_is_left_out():
    found = [{"a": (100.0, 3.0), "b": (10.0, 4.0)}, {"a": (10.0, 1.0)}, {}]
    points = roth_sweeps._points(found, 2)
    assert {name: found["y"] for name, found in points.items()} == {"a": [3.0], "b": [4.0]}
    assert points["a"]["x"] == [2.0]
    alone = roth_sweeps._points([{"a": (10.0, 1.0)}, {}, {}], 2)
    assert alone["a"]["y"] == [1.0]


def write_arrays(path, rng):
    """Rows whose classes only the pair of the first two features tells apart, in two folds."""
    x = rng.integers(1, 3, (300, 3))
    t = (x[:, 0] + x[:, 1]) % 2 + 1
    parts = {"x_tr_fold1": x[:200], "x_te_fold1": x[200:], "t_tr_fold1": t[:200]}
    np.savez(path, **parts, t_te_fold1=t[200:], n_folds=1)


def test_pseudo_tans_and_the_chow_liu_tree_are_run_and_kept(tmp_path):
    write_arrays(tmp_path / "satimage.npz", np.random.default_rng(0))
    bench = Workbench(tmp_path, tmp_path / "runs", quick=True)
    block, (claim, similar) = roth_orders.pseudo_block(bench)
    assert claim.verdict == "cannot be tested here"  # letter is not there
    assert similar.number == "not run more than once"  # a quick run has one fold and seed
    (row,) = block.rows
    assert row[0] == "satimage"
    assert all(0 <= float(error) <= 100 for error in row[2:])
    recovered, (claim,) = roth_orders.recovery_block(bench)
    assert recovered.rows[0][2].endswith("%")
    assert claim.verdict in ("holds", "holds in part")
    late = Workbench(tmp_path, tmp_path / "runs", quick=True, until=0.0)
    assert roth_orders.pseudo_block(late)[0].rows == block.rows


@pytest.mark.shared
def test_tables_that_are_made_of_others_have_the_paper_s_sizes(shared):
    bench = Workbench(shared / "data", shared / "runs", max_rows=6000)
    by_name = {d.name: d for d in friedman_tables(bench)}
    glass2, shuttle = by_name["glass2"].load(), by_name["shuttle-small"]
    assert glass2.features.shape == (163, 9)
    assert glass2.classes == ("float", "not")
    assert shuttle.load().features.shape == (5800, 9)
    assert shuttle.train_rows == 3866
    assert "letter" not in by_name


def test_parameters_are_better_by_little_where_the_whole_interval_is_small():
    rng = np.random.default_rng(0)
    names = ("NB", "TAN-CMI", "TAN-OMI-CR", "TAN-OMISP-CR", "TAN-CR", "2-tree-OMI-CR")
    plain = 0.3 + 0.1 * rng.random(12)
    noise = rng.normal(size=12)
    noise -= noise.mean()
    losses = {f"{n}-ML": plain for n in names}
    losses |= {f"{n}-CL": plain - 0.002 + 0.002 * noise for n in names}
    assert pernkopf_claims.parameters_claim(losses).verdict == "holds"
    # That a gain isn't significant doesn't make it a small one.
    wide = {f"{n}-CL": plain - 0.002 + 0.02 * noise for n in names}
    assert pernkopf_claims.parameters_claim({**losses, **wide}).verdict == "undecided"
    changed = {"NB-CL": plain - 0.05 + 0.02 * noise, "TAN-CR-CL": plain + 0.002 + 0.002 * noise}
    changed["TAN-CMI-CL"] = plain - 0.006 + 0.004 * noise
    claim = pernkopf_claims.parameters_claim({**losses, **changed})
    assert claim.verdict == "holds in part"
    assert "NB +5.00 (+3.16 to +6.84), p 0.000" in claim.number
    assert "3 of 6 comparisons hold; direction only: TAN-CMI; undecided: TAN-CR; refuted: NB." in (
        claim.why
    )


def test_orders_by_information_are_compared_where_random_ones_were_run():
    trees = ("TAN-OMI-CR-ML", "TAN-OMISP-CR-ML")
    values = np.array([[0.1, 0.2]] * 4) + 0.01 * np.arange(4)[:, None]
    scores = Scores("zero_one_loss", tuple("abcd"), trees, values)
    noise = np.array([0.0, -0.025, -0.025])
    picks = {f"TAN-RO-CR-ML, {pick}": 0.8 + noise for pick in ("Mean", "Max")}
    claim = pernkopf_claims.order_claim(scores, {"tables": ("a", "c", "d"), **picks})
    assert claim.verdict == "holds in part"
    assert "OMI over Mean +10.00 (+7.4" in claim.number
    assert "undecided: OMISP over Mean; OMISP over Max. In the paper OMISP" in claim.why
    none = pernkopf_claims.order_claim(scores, {"tables": ()})
    assert none.verdict == "cannot be tested here"


def test_the_best_rate_is_that_of_a_two_tree_or_not():
    rates = {"NB-ML": np.array([0.8, 0.9]), "2-tree-OMI-CR-ML": np.array([0.9, 0.9])}
    mnist = {"TAN-CR-CL": 0.95, "2-tree-OMI-CR-CL": 0.94, pernkopf_claims.SMOOTHED: 0.99}
    plain, trained = pernkopf_claims.two_tree_claims(rates, mnist)
    assert plain.verdict == "undecided"  # two tables
    assert plain.number.startswith("UCI 2-tree-OMI-CR-ML 90.00 %, NB-ML 85.00 %, gain +5.00 (-")
    assert "It ranks first on both" in plain.why
    assert trained.verdict == "does not hold"
    assert trained.number == (
        "MNIST 2-tree-OMI-CR-CL 94.00 %, TAN-CR-CL 95.00 %, gain -1.00 (-1.63 to -0.37)"
    )
    for claim in pernkopf_claims.two_tree_claims({}, {}):
        assert claim.verdict == "cannot be tested here"


def test_a_gain_is_none_where_its_whole_interval_is_small():
    losses = {"TAN-CMI-ML": 0.2 + 0.01 * np.arange(8.0)}
    jitter = 1e-4 * (-1.0) ** np.arange(8)
    for name, gain in (("OMI", 0.02), ("OMISP", 0.02), ("", 0.021)):
        tree = f"TAN-{name}-CR-ML" if name else "TAN-CR-ML"
        losses[tree] = losses["TAN-CMI-ML"] - gain + (jitter if name else -jitter)
    better, greedy = pernkopf_claims._structure_claims(losses, 8)
    assert better.verdict == "holds"
    assert "OMI +2.00 (+1.9" in better.number
    assert greedy.verdict == "holds"  # a tenth of a point more
    losses["TAN-CR-ML"] = losses["TAN-CR-ML"] - 0.01
    assert pernkopf_claims._structure_claims(losses, 8)[1].verdict == "does not hold"


def test_what_is_beside_the_point_of_the_synthetic_example_is_judged():
    means = {"SVM": 64.9, "NB-ML": 50.5, "TAN-CMI-ML": 57.4, "TAN-CMI-CL": 57.4}
    means |= {"TAN-OMI-CR-ML": 64.3, "TAN-OMI-CR-CL": 64.8}
    shuffles = np.array([-1.0, 0.0, 1.0, 0.5, -0.5])
    rates = {name: mean + at * shuffles / 10 for at, (name, mean) in enumerate(means.items())}
    assert pernkopf_examples._others_claim(rates).verdict == "holds"
    better = {**rates, "SVM": rates["SVM"] + 5}
    assert pernkopf_examples._others_claim(better).verdict == "holds in part"
    assert "SVM over TAN-OMI-CR +0.6 (" in pernkopf_examples._others_claim(rates).number
    assert pernkopf_examples._pair_claim(rates).verdict == "holds"
    guessing = {**rates, "TAN-OMI-CR-ML": rates["TAN-CMI-ML"]}
    assert pernkopf_examples._pair_claim(guessing).verdict == "undecided"
    # A few noisy shuffles say nothing of equality.
    noisy = {name: mean + 10 * at * shuffles for at, (name, mean) in enumerate(means.items())}
    assert pernkopf_examples._others_claim(noisy).verdict == "undecided"


def test_claims_on_figures_two_and_three_follow_the_errors():
    jitter = np.array([0.0, 0.01, -0.01])
    errors = {1: 6.0, 2: 5.0, 5: 4.0, 8: 3.8}
    runs = {
        ("figure-3-mnist", f"{order}, K = {k}"): (error + 0.4 * place + k * jitter).tolist()
        for k, error in errors.items()
        for place, order in enumerate("CBA")
    }
    runs |= {("figure-2d", "TAN Subset"): [4.3, 4.4, 4.5], ("figure-2d", "TAN Random"): [5, 5, 5.1]}
    runs |= {("figure-2d", "Chow–Liu, hybrid"): [3.0, 3.1, 3.2]}
    runs |= {
        ("figure-3d", f"K = {k} #{i + 1}"): (9 + i / k - k / 9 + jitter).tolist()
        for k in (2, 8)
        for i in range(5)
    }
    runs |= {
        ("subset-mnist", f"K = {k} #{i}"): [9.0 + i / 10 - k / 3 - i * k / 99]
        for k in (5, 8)
        for i in (1, 2)
    }
    claims = {claim.text: claim for claim in roth_sweeps._claims(runs, {"mnist": 20_000})}
    verdicts = {text.split(" (")[0]: claim.verdict for text, claim in claims.items()}
    assert verdicts["On images two candidates beat one"] == "holds"
    assert verdicts["Ordering C is slightly better than B, and B than A"] == "holds"
    assert verdicts["On images going from K = 5 to 8 gains little"] == "holds"
    more = "For TAN Subset the gain from K = 5 to 8 is larger than for neighbours (section 4.4)"
    assert claims[more].verdict == "holds"
    assert claims[more].number.startswith("mnist +1.05 points against +0.20, ")
    any_order = claims["On mnist any ordering of the pixels beats random ones (section 4.4)"]
    assert any_order.why == "1 of 3 comparisons hold; undecided: A; B."
    wide = "TAN Subset is ahead over a wide range of settings, not only with the best"
    assert verdicts[wide] == "holds in part"
    assert "refuted: mnist, Chow–Liu" in claims[f"{wide} (figure 2)"].why
    subsets = "Some parent subsets clearly beat others; with K = 8 by less than with 2"
    assert verdicts[subsets] == "holds"
    untried = {claim.verdict for claim in roth_sweeps._claims({}, {})}
    assert untried == {"cannot be tested here"}


def test_few_errors_on_test_rows_decide_nothing():
    errors = {("usps", "TAN Random"): 3.85, ("usps", "Chow–Liu, hybrid"): 3.91}
    errors |= {("letter", "TAN Random"): 10.65, ("letter", "NB, hybrid"): 15.5}
    columns = {"defaults": {}, "chosen": {}, "lowest": errors}
    claims = {c.text: c for c in roth_2020._claims(columns, {"usps": 3660, "letter": 6660})}
    behind = claims["On usps Chow–Liu is behind random trees (table 1)"]
    assert behind.verdict == "undecided"
    assert "-0.06 (-0.94 to +0.82)" in behind.number
    assert claims["Even random trees beat naive Bayes (table 1)"].verdict == "holds"


def test_the_printed_protocol_says_which_trainings_were_run():
    found = {
        (table, method): [1.0] * roth_printed._n_wanted(method)
        for table, printed in roth_2020.TABLE_1.items()
        for method in roth_printed.METHODS
        if method in printed
    }
    assert roth_printed._extent(found).startswith(
        "All trainings were run: 5 of every method, and 3"
    )
    found["usps", "TAN Heuristic"].pop()
    del found["mnist", "TAN Subset"]
    told = roth_printed._extent(found)
    assert "time: usps, TAN Heuristic 2 of 3; mnist, TAN Subset 0 of 5. The same" in told


def test_printed_trainings_are_compared_by_their_means():
    found = {("letter", "NB, hybrid"): [13.0, 13.1], ("letter", "TAN Random"): [10.0, 10.1, 10.2]}
    found |= {("letter", "TAN Subset"): [9.0, 9.2, 9.1], ("letter", "TAN All"): [9.1, 9.2, 9.2]}
    found |= {("usps", "TAN Random"): [3.0], ("usps", "NB, hybrid"): [4.0]}
    found |= {("letter", "NB, ML"): [25.9], ("letter", "Chow–Liu, hybrid"): [8.0, 8.1, 8.2]}
    found |= {("letter", "Chow–Liu, ML"): [8.1]}
    claims = {c.text.split(" protocol ")[1]: c for c in roth_printed._claims(found)}
    trees = claims["random trees beat naive Bayes (table 1)"]
    assert trees.why.startswith("1 of 2 comparisons hold; undecided: usps.")
    assert "usps -1.00 points;" in trees.number  # one training has no interval
    assert claims["all candidates are no better than eight (table 1)"].verdict == "holds"
    closed = "trained tables beat closed-form ones, "
    assert claims[f"{closed}naive Bayes (table 1)"].verdict == "holds"
    assert claims[f"{closed}Chow–Liu (table 1)"].verdict == "undecided"
    assert claims["neighbouring pixels bring nothing on usps (table 1)"].number == "not run"


def test_long_orders_are_given_as_estimators():
    loss, training = {"lambda_": 1.0, "gamma": 1.0, "eta": 10.0}, "training__epochs=1"
    few, many = ([f"a{i}" for i in range(n)] for n in (16, 256))
    for method in ("TAN Random", "TAN Subset"):
        assert isinstance(roth_printed._use(method, 1, few, loss, training), str)
        made = roth_printed._use(method, 1, many, loss, training)
        assert made.bins == "mdl"
        order = roth_printed.orderings(256)[1]
        if method == "TAN Subset":
            assert list(made.structure.order) == [many[i] for i in order]
        else:
            assert many[order[0]] not in made.structure.parents
            assert len(made.structure.parents) == 255


def test_cycles_are_similar_below_the_papers_own_improvement():
    order = np.array([9.0, 9.2, 8.8, 9.1, 8.9])

    def verdict(by, spread=0.1):
        cycles = order + by + spread * np.array([1, -1, 2, -2, 0])
        found = {"satimage": {"order": order, "cycles": cycles}}
        return roth_orders._similar_claim(found).verdict

    assert verdict(-0.2) == "holds"
    assert verdict(-1.5) == "does not hold"
    assert verdict(-0.2, spread=1.0) == "undecided"
    one = {"order": [9.0], "cycles": [8.1]}
    assert roth_orders._similar_claim({"usps": one}).verdict == "cannot be tested here"
