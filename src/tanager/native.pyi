"""The compiled loops of src/native, as Python sees them.

Every array is C-contiguous; what a kernel does, and with which shapes, stands
above it in its C file. A kernel writes to its last arguments.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Labels = NDArray[np.uint16]
Shorts = NDArray[np.uint16]
Int32s = NDArray[np.int32]
Codes = NDArray[np.unsignedinteger[Any]]

# counts.c
def count_values(
    codes: Codes,
    labels: Labels,
    weights: Floats,
    arities: Ints,
    n_classes: int,
    start: Ints,
    out: Floats,
) -> int: ...
def count_pairs(
    codes: Codes,
    labels: Labels,
    weights: Floats,
    arities: Ints,
    n_classes: int,
    left: Ints,
    right: Ints,
    start: Ints,
    out: Floats,
) -> int: ...
def count_pairs_by_bits(
    codes: Codes,
    labels: Labels,
    arities: Ints,
    n_classes: int,
    left: Ints,
    right: Ints,
    start: Ints,
    out: Floats,
) -> int: ...
def score_information(
    flat: Floats, start: Ints, left_arity: Ints, right_arity: Ints, n_classes: int, out: Floats
) -> int: ...
def extend_keys(codes: Codes, members: Ints, arities: Ints, keys: Ints) -> int: ...
def count_keys(keys: Ints, weights: Floats, out: Floats) -> int: ...
def collapse_keys(keys: Ints, weights: Floats, out_keys: Ints, out_counts: Floats) -> int: ...
def merge_runs(
    keys_a: Ints,
    counts_a: Floats,
    keys_b: Ints,
    counts_b: Floats,
    out_keys: Ints,
    out_counts: Floats,
) -> int: ...
def gather_level(
    child: Ints,
    start: Ints,
    cell_value: Ints,
    cell_count: Floats,
    arity: int,
    up_start: Ints,
    up_value: Ints,
    up_count: Floats,
    cell_parent: Ints,
) -> int: ...

# tables.c
def add_dense_terms(
    codes: Codes,
    arities: Ints,
    members: Ints,
    member_start: Ints,
    flat: Floats,
    flat_start: Ints,
    out: Floats,
) -> int: ...
def add_tree_terms(
    codes: Codes,
    arities: Ints,
    members: Ints,
    dense: Floats,
    first: Int32s,
    child: Int32s,
    value: Shorts,
    entry_start: Int32s,
    entry_class: Shorts,
    entry_log_escape: Floats,
    cell_start: Int32s,
    cell_value: Shorts,
    cell_log_prob: Floats,
    n_dense: int,
    inherit: bool,
    backoff: bool,
    out: Floats,
) -> int: ...
def normalize(log_joint: Floats, in_logs: bool) -> int: ...

# hdp.c
def solve_fixed_point(
    level_node: Ints,
    level_cell: Ints,
    node_start: Ints,
    node_group: Ints,
    cell_parent: Ints,
    cell_count: Floats,
    arity: int,
    root_mass: float,
    shape: float,
    rate: Floats,
    tolerance: float,
    max_sweeps: int,
    alpha: Floats,
    phi: Floats,
    escape: Floats,
    trace: Floats,
) -> int: ...
def expect_tables(
    rows: Floats,
    log_count: Floats,
    dense: int,
    count: Floats,
    phi: Floats,
    rest: Floats,
    alpha: Floats,
    discount: float,
    mean: Floats,
) -> int: ...

# codes.c
def mark_present(
    x: NDArray[Any], columns: Ints, low: Ints, start: Ints, present: NDArray[np.uint8]
) -> int: ...
def count_cells(
    x: Ints, labels: Labels, weights: Floats, low: int, n_classes: int, cells: Floats
) -> int: ...
def encode_matrix(
    x: NDArray[Any],
    kind: Ints,
    low: Ints,
    start: Ints,
    size: Ints,
    lookup: Labels,
    table: Floats,
    missing: Ints,
    unknown: Ints,
    out: Codes,
) -> int: ...
def split_by_mdl(
    values: Floats, labels: Labels, weights: Floats, n_classes: int, cuts: Ints
) -> int: ...

# scores.c
def evaluate_scores(
    joint: Labels,
    slots: Int32s,
    labels: Labels,
    weights: Floats,
    folds: NDArray[np.uint8],
    starts: Ints,
    tables: Ints,
    flat: Floats,
    n_slots: int,
    kind: int,
    scale: float,
    loss: Ints,
    gradient: Ints,
) -> int: ...

# leave_one_out.c
def score_odds(
    codes: Codes,
    labels: Labels,
    level_start: Ints,
    member: Ints,
    cell_start: Ints,
    width: Ints,
    child: Int32s,
    value: Labels,
    odds: Floats,
    score: int,
    scale: float,
    state: Floats,
    totals: Ints,
) -> int: ...
def score_posteriors(
    codes: Codes,
    labels: Labels,
    level_start: Ints,
    member: Ints,
    cell_start: Ints,
    width: Ints,
    child: Int32s,
    value: Labels,
    arities: Ints,
    weights: Floats,
    shares: Floats,
    joint: Floats,
    context: Int32s,
    context_count: Floats,
    smoothing: float,
    strength: float,
    score: int,
    scale: float,
    state: Floats,
    totals: Ints,
) -> int: ...

# additive.c
def evaluate_sums(
    cells: Labels,
    starts: Ints,
    labels: Labels,
    weights: Floats,
    folds: NDArray[np.uint8],
    fold: int,
    inside: int,
    scores: Floats,
    scale: float,
    loss_scale: float,
    loss: Floats,
    slopes: Floats,
) -> int: ...
def add_sums(cells: Labels, starts: Ints, scores: Floats, out: Floats) -> int: ...
def locate_rows(
    codes: Codes,
    features: Ints,
    table_start: Ints,
    shares: NDArray[np.int32],
    share_start: Ints,
    places: Labels,
    place_start: Ints,
    out: Labels,
) -> int: ...
def weigh_joints(
    codes: Codes,
    features: Ints,
    table_start: Ints,
    shares: NDArray[np.int32],
    share_start: Ints,
    weights: Floats,
    place_start: Ints,
    mass: Floats,
) -> int: ...
def descend(
    steps: Floats,
    changes: Floats,
    products: Floats,
    n_known: int,
    newest: int,
    gradient: Floats,
    out: Floats,
) -> int: ...
def score_gains(
    codes: Codes,
    arities: Ints,
    residuals: Floats,
    spreads: Floats,
    weights: Floats,
    shrink: float,
    singles: Floats,
    gains: Floats,
) -> int: ...

# shares.c
def normalize_scores(table: Floats, total: Floats) -> int: ...
def spread_shares(table: Floats, outer: Floats, out: Floats) -> int: ...

# cuts.c
def find_cuts(
    codes: Labels,
    arities: Ints,
    n_ordered: Ints,
    residuals: Floats,
    spreads: Floats,
    weights: Floats,
    shrink: float,
    pairs: Ints,
    gains: Floats,
    cuts: Ints,
) -> int: ...
