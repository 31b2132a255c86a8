"""Arguments for every kernel: random, small, and as their callers lay them out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from tanager import BayesNetClassifier, native
from tanager.parameters import HDP, Discriminative, MEstimate, TreeTable, lookups
from tanager.parameters.hdp import tie
from tanager.structure import KDB
from tanager.training.model import Model, Slots
from tanager_papers.hdp_sampler import stirling_ratios
from tests.native.stub import arguments
from tests.parameters.hdp.trees import random_tree

Arguments = list[Any]
CASES: dict[str, Callable[[np.random.Generator], Iterator[Arguments]]] = {}


def cases(name: str):
    """Register the cases of a kernel."""

    def register(function):
        CASES[name] = function
        return function

    return register


def log_table_of(rng, *shape):
    """Return log-probabilities that sum to one along the last axis but one."""
    logits = rng.normal(size=shape)
    return logits - np.log(np.exp(logits).sum(axis=-2, keepdims=True))


# The arguments that some kernels need are long to lay out: these are taken from fits.
RECORDED = (
    *("encode_matrix", "score_odds", "score_posteriors"),
    *("evaluate_sums", "add_sums", "share_rows", "locate_rows", "weigh_joints"),
    *("sum_cells", "share_slopes", "turn_tables"),
    *("score_gains", "share_families", "pull_shares"),
)


@cache
def recorded() -> dict[str, list[Arguments]]:
    """Return the arguments of some calls that small fits make, before they are written to."""
    calls: dict[str, list[Arguments]] = {name: [] for name in RECORDED}

    def record(name, kernel):
        def call(*given):
            kept, size = calls[name], sum(np.size(each) for each in given)
            if len(kept) < 4 * fit[0] and size < 60_000:  # some of every fit
                kept.append([np.copy(a) if isinstance(a, np.ndarray) else a for a in given])
            return kernel(*given)

        return call

    fit, rng = [0], np.random.default_rng(5)
    X = np.append(rng.normal(size=(160, 2)), rng.integers(0, 4, (160, 3)), axis=1)
    X[:, 4] = (X[:, 2] + rng.integers(0, 2, 160)) % 4
    y = (X[:, 0] + X[:, 3] * X[:, 4] > 2).astype(int)
    gaps = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    fits = (
        ({}, X, y),
        ({}, X, y + (X[:, 1] > 0.5)),
        ({"structure": "skdb", "parameters": HDP()}, X, y),
        ({"structure": "skdb", "parameters": "laplace", "missing": "marginalize"}, gaps, y),
        ({"structure": KDB(3), "parameters": MEstimate(m=1.0)}, X, y + (X[:, 1] > 0.5)),
        ({"structure": "tan", "parameters": "discriminative"}, X, y + (X[:, 1] > 0.5)),
        ({"structure": KDB(2), "parameters": Discriminative(objective="mse")}, X, y),
    )
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in RECORDED:
            if hasattr(native, name):
                patched.setattr(native, name, record(name, getattr(native, name)))
        for options, table, labels in fits:
            fit[0] += 1
            clf = BayesNetClassifier(n_jobs=1, categorical_features=[2, 3, 4], **options)
            clf.fit(table, labels).predict_proba(table[:40])
    return calls


for _name in RECORDED:
    CASES[_name] = lambda _rng, name=_name: iter(recorded()[name])


@cases("evaluate_sums")
def evaluate_sums(_rng):
    scale = [name for name, _ in arguments("evaluate_sums")].index("scale")
    for given in recorded()["evaluate_sums"]:
        given = list(given)
        given[scale] = 2.0**20  # a grid so coarse that both round to the same step
        yield given


def codes_of(rng, arities, n_rows, dtype=np.uint8):
    """Return codes of some features, of which some are unknown."""
    return np.stack([rng.integers(0, a + 1, n_rows) for a in arities]).astype(dtype)


@cases("choose_slants")
def choose_slants(rng):
    for n_classes, dtype, least in (
        (1, np.uint8, 0.5),
        (3, np.uint16, -np.inf),
        (2, np.uint8, 1e3),
    ):
        codes = codes_of(rng, (9, 4, 7), 300, dtype)
        slope = np.where(codes[2] > codes[0], 0.8, -0.8)[:, None]
        spreads, weights = rng.uniform(0.1, 0.25, (300, n_classes)), rng.integers(1, 4, 300)
        residuals = weights[:, None] * (slope + rng.normal(size=(300, n_classes)))
        said = np.hstack([residuals, spreads, spreads * weights[:, None], weights[:, None]])
        along = np.sort(rng.normal(size=(6, 9))), np.sort(rng.normal(size=(6, 7)))
        along[0][0], along[1][0] = np.arange(9.0), -np.arange(7.0)  # many sums are equal
        yield [codes, 0, 2, said, *along, n_classes, 5.0, least, np.zeros(6, np.int64)]


# gibbs.c


def _chain(rng, rows=80):
    tree = random_tree(int(rng.integers(100)), (2, 3, 4), rows=rows)
    flat = tie(tree, "level")
    alpha = rng.uniform(0.5, 5.0, flat.n_groups)
    n_cells, n_nodes = len(tree.cell_count), len(flat.node_group)
    state = [np.zeros(n, np.int64) for n in (n_cells, n_cells, n_nodes, n_nodes)]
    phi = rng.dirichlet(np.ones(4), n_cells)[:, 0]
    lay = [tree.level_node, tree.level_cell, tree.node_start, flat.node_group]
    return (
        tree,
        flat,
        alpha,
        state,
        [*lay, tree.cell_parent, tree.cell_count, phi, alpha, 64, *state],
    )


@cases("start_chain")
def start_chain(rng):
    yield _chain(rng)[-1]
    yield _chain(rng, 30_000)[-1]


@cases("run_chain")
def run_chain(rng):
    from tests.oracles.kernels.gibbs import start_chain as start

    for discount, window, rows in ((0.0, 8, 80), (0.3, 3, 80), (0.0, 8, 30_000), (0.2, 5, 30_000)):
        tree, flat, alpha, state, given = _chain(rng, rows)
        start(*given)
        random = rng.integers(0, 2**64, 4, np.uint64, endpoint=False)
        ratios = stirling_ratios(rows, discount)
        if rows > 80:  # leaves most to the tables that are not near
            ratios = ratios._replace(
                near=ratios.near[:9, :4].copy(), growth=ratios.growth[:9, :4].copy()
            )
        yield [
            *(tree.level_node, tree.level_cell, tree.node_start, flat.node_group),
            *(tree.node_parent, tree.cell_parent, *ratios),
            *(1.5, 1.0, 2.0, np.ones(flat.n_groups), tree.arity, 6, 2, 1, window),
            *(alpha, *state, random, np.zeros(1, np.int64)),
            *(np.zeros(len(tree.cell_count)), np.zeros(1)),
        ]


# hdp.c


@cases("solve_fixed_point")
def solve_fixed_point(rng):
    for rows, fraction, sweeps in ((80, False, 40), (300, True, 7)):
        tree = random_tree(int(rng.integers(100)), (2, 3, 4), rows=rows, fraction=fraction)
        flat = tie(tree, "parent")
        n_cells, n_nodes = len(tree.cell_count), len(flat.node_group)
        yield [
            *(tree.level_node, tree.level_cell, tree.node_start, flat.node_group),
            *(tree.cell_parent, tree.cell_count, tree.arity, 1.5, 2.0, np.ones(flat.n_groups)),
            *(1e-6, sweeps, np.full(flat.n_groups, 2.0), np.zeros(n_cells), np.zeros(n_nodes)),
            np.zeros(sweeps),
        ]


@cases("expect_tables")
def expect_tables(rng):
    for discount in (0.0, 0.4):
        ratios = stirling_ratios(3000, discount)
        count = np.array([0.0, 1.0, 2.0, 3.5, 40.0, 1024.0, 1024.5, 2999.0])
        phi, rest, alpha = rng.uniform(0.1, 1, 8), rng.uniform(0, 9, 8), rng.uniform(0.1, 5, 8)
        yield [*ratios[:3], count, phi, rest, alpha, discount, np.zeros(8)]


# dfe.c, network.c


@cases("add_misses")
def add_misses(rng):
    sizes = np.array([[1, 3, 2], [7, 2, 4]])
    n_cells = 1 + 6 + 8 + 1
    cells = np.stack([rng.integers(1, 7, 40), rng.integers(7, n_cells, 40)]).astype(np.int32)
    labels = rng.integers(0, 3, 40).astype(np.uint16)
    yield [
        *(cells, sizes, labels, rng.uniform(0.5, 2.0, 40), 1.0),
        *(np.zeros((n_cells, 3)), np.zeros((7, 3)), np.zeros(1)),
    ]


@cases("add_forest_sums")
def add_forest_sums(rng):
    arities, n_classes = np.array([2, 3, 2, 4]), 2
    features, parents = np.array([2, 0, 3, 1]), np.array([-1, 2, 0, -1])
    for dtype in (np.uint8, np.uint16):
        tables = [
            log_table_of(rng, 1 if p < 0 else arities[p], arities[i], n_classes).ravel()
            for i, p in zip(features, parents, strict=True)
        ]
        start = np.cumsum([0, *map(len, tables)])[:-1]
        codes = codes_of(rng, arities, 60, dtype)
        out = rng.normal(size=(60, n_classes))
        yield [codes, arities, features, parents, np.concatenate(tables), start, out]


@cases("draw_values")
def draw_values(rng):
    weights = rng.random((5, 7)) * (rng.random((5, 7)) > 0.3)
    weights[:, 3] = 0.5
    numbers = rng.random(400)
    yield [rng.integers(0, 5, 400), weights.cumsum(axis=1), numbers, np.zeros(400, np.uint16)]


# unknown.c


@cases("sum_unknown")
def sum_unknown(rng):
    scopes = [[[0], [0, 1], [2, 1]], [[0, 1], [1, 2], [2, 3], [0, 3], [1]], [[0]], [[1, 0, 2]]]
    sizes = [[2, 3, 2], [2, 2, 3, 2], [4], [2, 3, 2]]
    starts = [np.cumsum([0, *map(len, one)]) for one in (sizes, scopes)]
    shapes = [[sizes[r][v] for v in scope] for r, row in enumerate(scopes) for scope in row]
    flat = [scope for row in scopes for scope in row]
    cell_start = np.cumsum([0, *map(np.prod, shapes)])
    member_start = np.cumsum([0, *map(len, flat)])
    variables = np.concatenate(sizes), starts[0], np.concatenate(flat)
    n_draws = np.array([5, 0, 3, 40])
    for n_classes, draws, marginals, max_cells in [
        *((3, 0, 0, 99), (1, 1, 1, 99), (2, 0, 1, 20), (1, 1, 0, 20))
    ]:
        number_start = np.cumsum([0, *(n_draws * draws)])
        yield [
            *(*variables, member_start, starts[1], cell_start),
            *(rng.normal(size=(cell_start[-1], n_classes)), rng.random(number_start[-1])),
            *(number_start, max_cells, marginals, np.zeros((4, n_classes))),
            np.zeros(int(np.diff(starts[0]) @ np.diff(number_start)), np.uint16),
        ]


# structure.c


@cases("score_acll")
def score_acll(rng):
    joint = rng.integers(0, 4, (3, 4, 2)).astype(float)
    joint[1] = 0
    yield [joint, -0.2, 5.0, np.zeros(1)]
    yield [joint, -0.3, 0.5, np.zeros(1)]


@cases("sum_groups")
def sum_groups(rng):
    pattern = np.sort(rng.integers(0, 5, 50))
    start = np.searchsorted(pattern, np.arange(6))
    for dtype in (np.uint8, np.uint16):
        codes = rng.integers(0, 4, 50).astype(dtype)
        labels, weights = rng.integers(0, 3, 50).astype(np.uint16), rng.uniform(0.1, 3.0, 50)
        yield [start, codes, labels, weights, rng.permutation(50), 4, 3, np.zeros(2)]


@cases("score_class_information")
@cases("score_explaining_away")
def information(rng):
    yield [rng.integers(0, 4, (3, 4, 2)).astype(float), np.zeros(1)]
    yield [np.zeros((2, 2, 2)), np.ones(1)]


@cases("find_arborescence")
def find_arborescence(rng):
    for n in (1, 2, 5, 5, 5):
        weight = np.append(rng.normal(size=(n, n)), np.zeros((n, 1)), axis=1)
        weight[np.arange(n), np.arange(n)] = -np.inf
        yield [weight, np.zeros(n, np.int64)]


# joint.c


def _joint(rng, n_folds=2, dtype=np.uint8, n_classes=3):
    widths = np.array([3, 4, 3])
    codes = np.stack([rng.integers(0, w, 60) for w in widths]).astype(dtype)
    labels = rng.integers(0, n_classes, 60).astype(np.uint16)
    folds = rng.integers(0, n_folds, 60).astype(np.uint8)
    weights = rng.integers(1, 3, 60).astype(float)
    log_joint = 2 * rng.integers(-40, 0, (60, n_classes)) + (np.arange(n_classes) < labels[:, None])
    margin, rival = np.zeros(60, np.int32), np.zeros(60, np.uint16)
    return widths, codes, [log_joint.astype(np.int32), labels, weights, folds, margin, rival]


def _sorted(rng, **options):
    from tests.oracles.kernels.structure import find_margins as find

    widths, codes, rows = _joint(rng, **options)
    find(rows[0], rows[1], rows[4], rows[5])
    order = np.argsort(rows[4], kind="stable")
    rows = [column[order] for column in rows]
    return widths, np.ascontiguousarray(codes[:, order]), rows, int((rows[4] < 0).sum())


def _change(rng, shape):
    from tests.oracles.kernels.structure import replace_table as replace

    table, current = (2 * rng.integers(-20, 0, size) for size in (shape, (shape[0], 1, *shape[2:])))
    change, adverse = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    reach = np.zeros(2, np.int64)
    replace(table, current, np.ones(shape), change, adverse, reach)
    return change, adverse, reach.tolist()


@cases("count_family")
def count_family(rng):
    for dtype in (np.uint8, np.uint16):
        widths, codes, rows = _joint(rng, dtype=dtype)
        for context, n_contexts in ((codes[1], 4), (codes[1].astype(np.int64) * 3 + codes[0], 12)):
            counts = np.zeros((2, n_contexts, widths[2], 3))
            yield [context, codes[2], *rows[1:4], counts]


@cases("log_table")
def log_table(rng):
    for n_folds in (1, 3):
        counts = rng.integers(0, 3, (n_folds, 6, 4, 2)).astype(float)
        shorter = (2 * rng.integers(-99, 0, (n_folds, 2, 4, 2))).astype(np.int32)
        known = np.array([1, 1, 0, 1, 1, 0], bool)
        yield [counts, known, shorter, 3, 1e-5, 2.0**20, np.zeros(counts.shape, np.int32)]


@cases("replace_table")
def replace_table(rng):
    shape = (2, 3, 4, 3)
    table = rng.integers(-50, 0, shape).astype(np.int32)
    current = rng.integers(-50, 0, (2, 1, 4, 3)).astype(np.int32)
    counts = rng.integers(0, 2, shape).astype(float)
    yield [table, current, counts, *np.zeros((2, *shape), np.int32), np.zeros(2, np.int64)]


@cases("add_change")
def add_change(rng):
    for dtype in (np.uint8, np.uint16):
        widths, codes, rows = _joint(rng, dtype=dtype)
        for context, n_contexts in ((codes[1], 4), (codes[1].astype(np.int64) * 3 + codes[0], 12)):
            change = rng.integers(-9, 9, (2, n_contexts, widths[2], 3)).astype(np.int32)
            yield [context, codes[2], rows[3], change, rows[0]]


@cases("find_margins")
def find_margins(rng):
    for n_classes in (1, 2, 3):
        _, _, rows = _joint(rng, n_classes=n_classes)
        yield [*rows[:2], *rows[4:]]


@cases("rate_gain")
def rate_gain(rng):
    for dtype in (np.uint8, np.uint16):
        widths, codes, rows, n_wrong = _sorted(rng, dtype=dtype)
        for context, n_contexts in ((codes[1], 4), (codes[1].astype(np.int64) * 3 + codes[0], 12)):
            change, adverse, reach = _change(rng, (2, n_contexts, widths[2], 3))
            yield [
                *(*rows, n_wrong, *reach, context, codes[2], change, adverse, -np.inf),
                np.zeros(1),
            ]


@cases("rate_gains")
def rate_gains(rng):
    for dtype in (np.uint8, np.uint16):
        widths, codes, rows, n_wrong = _sorted(rng, dtype=dtype)
        found = [_change(rng, (2, w, widths[2], 3)) for w in widths]
        start = np.cumsum([0, *(change.size for change, _, _ in found)])
        change, adverse = (np.concatenate([f[k].ravel() for f in found]) for k in (0, 1))
        reach = np.array([f[2] for f in found]).T.copy()
        yield [
            *(*rows, n_wrong, codes, 2, np.array([1, 0]), widths, start, change, adverse),
            *(*reach, 2, -np.inf, False, np.zeros(2)),
        ]


@cases("likelihood_gain")
def likelihood_gain(rng):
    for dtype in (np.uint8, np.uint16):
        widths, codes, rows = _joint(rng, dtype=dtype)
        for context, n_contexts in ((codes[1], 4), (codes[1].astype(np.int64) * 3 + codes[0], 12)):
            change = (2 * rng.integers(-9, 9, (2, n_contexts, widths[2], 3))).astype(np.int32)
            yield [
                *(*rows[:4], 0.05, 2.0**-30, -123.0, context, codes[2], change, -np.inf),
                np.zeros(1),
            ]


@cases("likelihood")
def likelihood(rng):
    yield [*_joint(rng)[2][:3], 0.05, 2.0**-30, np.zeros(1)]


# training.c


def _slots(rng):
    arities, n_classes = np.array([3, 2, 4]), 2
    columns, sizes = [[-1], [-1, 0], [-1, 0, 1]], [[1], [1, 3], [1, 3, 2]]
    padded = [row + [-1] * (3 - len(row)) for row in columns]
    filled = [row + [1] * (3 - len(row)) for row in sizes]
    slots = Slots.build(padded, filled, arities, n_classes)
    slots = slots._replace(n_slots=np.array([1, 2, 3]))
    full = slots._replace(n_slots=np.full(3, 3))
    model = Model.start(full, rng)
    codes = codes_of(rng, arities, 30, np.int32)
    return slots, full, model, codes, n_classes


@cases("add_slot_terms")
def add_slot_terms(rng):
    slots, _, model, codes, n_classes = _slots(rng)
    for chosen in ([0, 1, 2], [0, 0, 1]):
        yield [
            *(slots.column, slots.n_contexts, slots.cell, slots.arity, codes, codes),
            *(np.array(chosen), model.theta, rng.normal(size=(30, n_classes))),
        ]


@cases("add_choice_gradient")
def add_choice_gradient(rng):
    slots, _, model, codes, n_classes = _slots(rng)
    yield [
        *(slots.column, slots.n_contexts, slots.cell, slots.arity, slots.n_slots),
        *(codes, codes, rng.normal(size=(30, n_classes)), model.theta, np.zeros((3, 3))),
    ]


@cases("step_tables")
def step_tables(rng):
    for share in (False, True):
        slots, full, model, codes, n_classes = _slots(rng)
        model.theta_first[:] = rng.normal(size=model.theta.shape)
        model.theta_second[:] = rng.uniform(size=model.theta.shape)
        model.theta_steps[:] = rng.integers(0, 9, model.theta_steps.shape)
        if share:
            model.share(full)
        gradient = rng.normal(size=(30, n_classes))
        space = slots.workspace()
        chosen = np.array([0, 1, 2])
        yield [*slots[:7], codes, codes, chosen, gradient, 0.03, 0, *model.tables, *space]
        if not share:
            model.theta_steps[:] = rng.integers(1, 9, model.theta_steps.shape)
            yield [*slots[:7], codes, codes, chosen, gradient, 0.03, 9, *model.tables, *space]


# counts.c


def _rows(rng, dtype=np.uint8, n_classes=3):
    arities = np.array([2, 3, 4])
    labels = rng.integers(0, n_classes, 200).astype(np.uint16)
    return codes_of(rng, arities, 200, dtype), labels, arities, n_classes


@cases("count_values")
def count_values(rng):
    for dtype, weights in ((np.uint8, np.zeros(0)), (np.uint16, rng.uniform(size=200))):
        codes, labels, arities, n_classes = _rows(rng, dtype)
        start = np.cumsum([0, *arities * n_classes])
        yield [codes, labels, weights, arities, n_classes, start, np.zeros(start[-1])]


def _pairs(rng, dtype):
    codes, labels, arities, n_classes = _rows(rng, dtype)
    left, right = np.array([0, 1, 2]), np.array([1, 2, 0])
    sizes = arities[left] * arities[right] * n_classes
    start = np.cumsum(sizes) - sizes
    return codes, labels, [arities, n_classes, left, right, start, np.zeros(sizes.sum())]


@cases("count_pairs")
def count_pairs(rng):
    for dtype, weights in ((np.uint8, np.zeros(0)), (np.uint16, rng.uniform(size=200))):
        codes, labels, given = _pairs(rng, dtype)
        yield [codes, labels, weights, *given]


@cases("count_pairs_by_bits")
def count_pairs_by_bits(rng):
    for dtype in (np.uint8, np.uint16):
        codes, labels, given = _pairs(rng, dtype)
        yield [codes, labels, *given]


@cases("score_information")
def score_information(rng):
    flat = rng.integers(0, 4, 2 * 3 * 2 + 3 * 3 * 2 + 4).astype(float)
    flat[-4:] = 0
    left, right = np.array([2, 3, 1]), np.array([3, 3, 2])
    yield [flat, np.array([0, 12, 30]), left, right, 2, np.zeros(3)]


@cases("extend_keys")
def extend_keys(rng):
    for dtype in (np.uint8, np.uint16):
        codes, labels, arities, _ = _rows(rng, dtype)
        yield [codes, np.array([2, 0]), arities[[2, 0]], labels.astype(np.int64)]


@cases("count_keys")
def count_keys(rng):
    for weights in (np.zeros(0), rng.uniform(size=60)):
        yield [rng.integers(-1, 9, 60), weights, np.zeros(9)]


@cases("collapse_keys")
def collapse_keys(rng):
    for weights in (np.zeros(0), rng.uniform(size=60)):
        yield [np.sort(rng.integers(-1, 30, 60)), weights, np.zeros(60, np.int64), np.zeros(60)]


@cases("merge_runs")
def merge_runs(rng):
    a, b = (np.unique(rng.integers(0, 50, n)) for n in (30, 20))
    n = len(a) + len(b)
    yield [a, rng.uniform(size=len(a)), b, rng.uniform(size=len(b)), np.zeros(n, int), np.zeros(n)]


@cases("gather_level")
def gather_level(rng):
    for arity in (4, 200):  # found by a scan, and by sorting
        values = [np.sort(rng.choice(arity, 3, replace=False)) for _ in range(5)]
        cells = np.concatenate(values)
        yield [
            *(np.array([0, 2, 2, 5]), np.arange(0, 16, 3), cells, rng.uniform(size=15), arity),
            *(np.zeros(4, np.int64), np.zeros(15, np.int64), np.zeros(15), np.zeros(15, np.int64)),
        ]


# codes.c


@cases("count_cells")
def count_cells(rng):
    x, labels = rng.integers(-5, 6, 90), rng.integers(0, 3, 90).astype(np.uint16)
    yield [x, labels, rng.uniform(size=90), -5, 3, np.zeros(33)]


@cases("split_by_mdl")
def split_by_mdl(rng):
    for n_classes in (2, 3):
        values = np.sort(rng.integers(0, 30, 80)).astype(float)
        labels = ((values // 10 + (rng.random(80) < 0.1)) % n_classes).astype(np.uint16)
        weights = rng.integers(1, 3, 80).astype(float)
        yield [values, labels, weights, n_classes, np.zeros(80, np.int64)]


# tables.c


@cases("add_dense_terms")
def add_dense_terms(rng):
    for dtype, n_classes in ((np.uint8, 2), (np.uint16, 3)):
        codes, _, arities, _ = _rows(rng, dtype)
        families = [[0], [0, 1], [2, 1, 0], [~1, 2]]
        sizes = [int(np.prod([arities[m] for m in f if m >= 0])) * n_classes for f in families]
        flat = np.append(rng.normal(size=sum(sizes)), np.zeros(n_classes))
        ends = np.cumsum([0, *map(len, families)])
        start = np.cumsum([0, *sizes])[:-1]
        out = rng.normal(size=(codes.shape[1], n_classes))
        yield [codes, arities, np.concatenate(families), ends, flat, start, out]


@cases("add_tree_terms")
def add_tree_terms(rng):
    arities = np.array([5, 3, 4])
    for inherit, backoff in ((True, True), (False, True), (False, False)):
        tree = random_tree(int(rng.integers(100)), (2, 3, 4, 5), rows=40)
        log_prob, log_escape = rng.normal(size=tree.n_cells), rng.normal(size=tree.n_nodes)
        table = TreeTable(tree.without_counts(), log_prob, log_escape, inherit, backoff)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(lookups, "SMALL_CELLS", 1)
            patched.setattr(lookups, "DENSE_FACTOR", 0)
            rows, n_dense = lookups.TreeRows.of(table)
        assert n_dense == 0
        for dtype in (np.uint8, np.uint16):
            codes, out = codes_of(rng, arities, 100, dtype), rng.normal(size=(100, 2))
            members = np.array([1, 2, 0])
            yield [codes, arities, members, *rows, n_dense, inherit, backoff, out]


@cases("normalize")
def normalize(rng):
    for in_logs in (False, True):
        yield [rng.normal(size=(40, 4)) * 50, in_logs]
        yield [np.array([[0.0, -np.inf], [-2000.0, -2001.0]]), in_logs]


# loglinear.c


@cases("descend")
def descend(rng):
    for n_known, newest in ((0, -1), (3, 2), (5, 1)):
        steps = rng.normal(size=(5, 7))
        changes = steps * rng.uniform(0.5, 2.0, (5, 7))
        products = (steps * changes).sum(axis=1)
        yield [steps, changes, products, n_known, newest, rng.normal(size=7), np.zeros(7)]


@cases("boost_groups")
def boost_groups(rng):
    for n_classes, n_rows, n_held in ((2, 60, 7), (3, 80, 0), (4, 5, 3)):
        sizes = np.array([4, 6, 3, 64], np.int64)
        codes = np.array([rng.integers(0, size, n_rows) for size in sizes], np.uint8)
        held = np.array([rng.integers(0, size, n_held) for size in sizes], np.uint8)
        labels = ((codes[0] > 1).astype(int) + (codes[1] == 2)) % n_classes
        for weights in (np.zeros(0), rng.integers(0, 3, n_rows).astype(float)):
            yield [
                *(codes, labels.astype(np.uint16), weights, held, sizes),
                np.array([1, 0, 1, 1], np.uint8),
                *(np.array([0, 2, 4, 4], np.int64), np.array([0, 1, 1, 2], np.int64)),
                *(3, 4, 0.3, 1.0, 2.0),
                *(np.zeros((n_rows, n_classes)), np.ones((n_held, n_classes))),
                *(np.zeros((3 * n_classes, 9), kind) for kind in (np.int32, np.uint64, np.int32)),
                np.zeros((3 * n_classes, 9)),
            ]
