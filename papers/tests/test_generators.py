"""Synthetic tables have the properties that their definitions say."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from tanager.errors import ConfigurationError
from tanager_papers.generators import (
    BindingSites,
    binding_sites,
    corral,
    led,
    logistic,
    mofn,
    site_pairs,
    splice_batches,
    splice_table,
    three_bits,
    waveform,
    write_splice,
)
from tanager_papers.generators.splice import CENTRE, LENGTH, TIED


def columns(table):
    """Return features (n_features, n_rows) and classes of a table of digits."""
    names = [name for name in table.column_names if name != "class"]
    read = [np.array(table[name].to_pylist()).astype(float) for name in names]
    return np.array(read), np.array(table["class"].to_pylist())


def test_corral_is_its_formula():
    x, y = columns(corral(4000))
    assert ((x[0] * x[1] + x[2] * x[3] > 0) == (y == "1")).all()
    assert abs((x[5] == y.astype(float)).mean() - 0.75) < 0.03
    assert abs((x[4] == y.astype(float)).mean() - 0.5) < 0.03


def test_m_of_n_ends_with_every_combination():
    x, y = columns(mofn())
    assert x.shape == (10, 300 + 1024)
    assert ((x[:7].sum(axis=0) >= 3) == (y == "1")).all()
    assert len({tuple(row) for row in x[:, 300:].T}) == 1024


def test_led_segments_are_noisy_digits():
    x, y = columns(led(20_000))
    ones = x[:, y == "1"].mean(axis=1)
    np.testing.assert_allclose(ones, [0.1, 0.1, 0.9, 0.1, 0.1, 0.9, 0.1], atol=0.03)
    best = np.mean([x[:, y == d].mean(axis=1).round() for d in map(str, range(10))], axis=0)
    assert best.shape == (7,)


def test_waveforms_have_their_means_and_unit_noise():
    x, y = columns(waveform(20_000, 2, seed=1))
    points = np.arange(1, 22)
    first, second = (np.maximum(6 - np.abs(points - peak), 0) for peak in (11, 15))
    np.testing.assert_allclose(x[:21, y == "0"].mean(axis=1), (first + second) / 2, atol=0.1)
    np.testing.assert_allclose(x[21:].std(axis=1), 1.0, atol=0.03)
    assert x[:, :10].shape[0] == 23


@pytest.mark.parametrize("signed", [False, True])
def test_logistic_rows_follow_their_weights(signed):
    x, y = columns(logistic(1.0, 40_000, signed=signed))
    for bits in ((0, 0, 0), (0, 1, 1), (1, 0, 1)):
        chosen = (x == np.array(bits)[:, None]).all(axis=0)
        score = np.array([10, 1, 0.1]) @ (2 * np.array(bits) - 1 if signed else np.array(bits))
        assert abs((y[chosen] == "1").mean() - 1 / (1 + np.exp(-score))) < 0.02


def test_three_bits_tell_the_classes_apart_by_one_pair_alone():
    x, y = columns(three_bits(40_000))
    assert abs((x[1] == x[0]).mean() - 0.75) < 0.01
    agree = {c: (x[2] == x[0])[y == c].mean() for c in "01"}
    assert agree["0"] - agree["1"] > 0.25
    assert abs((x[2] == x[1])[y == "0"].mean() - (x[2] == x[1])[y == "1"].mean()) < 0.2


def mutual_information(a, b):
    joint = np.zeros((4, 4))
    np.add.at(joint, (a, b), 1.0 / len(a))
    outer = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    return float(
        (joint * np.log(np.where(joint > 0, joint, 1) / np.where(joint > 0, outer, 1))).sum()
    )


def test_binding_sites_depend_where_they_should():
    plain = binding_sites(BindingSites(20_000, background=0.0, dependence=0.9), seed=3)
    code = {letter: i for i, letter in enumerate("ACGT")}
    rows = np.array([[code[v] for v in plain[f"p{i + 1}"].to_pylist()] for i in range(12)])
    site = np.array(plain["class"].to_pylist()) == "site"
    pairs = [(i, j) for i in range(12) for j in range(i)]
    inside = sorted(mutual_information(rows[i, site], rows[j, site]) for i, j in pairs)
    outside = max(mutual_information(rows[i, ~site], rows[j, ~site]) for i, j in pairs)
    assert inside[-4] > 0.3
    assert inside[-5] < 0.01
    assert outside < 0.01
    assert plain.equals(binding_sites(BindingSites(20_000, background=0.0, dependence=0.9), seed=3))
    told = {frozenset(pair) for pair in site_pairs(BindingSites(20_000, background=0.0), seed=3)}
    ranked = sorted(pairs, key=lambda ij: -mutual_information(rows[ij[0], site], rows[ij[1], site]))
    assert told == {frozenset((f"p{i + 1}", f"p{j + 1}")) for i, j in ranked[:4]}


def test_splice_windows_are_the_same_in_any_number(tmp_path):
    table = splice_table(70_000)
    assert table.num_columns == LENGTH + 1
    assert splice_table(1000).equals(table.slice(0, 1000).combine_chunks())
    share = np.mean(np.array(table["class"].to_pylist()) == "site")
    assert 0.007 < share < 0.013
    assert set(table["p+0"].to_pylist()) == {"A"}
    paths = write_splice(tmp_path / "windows", 70_000, rows_per_file=1 << 16)
    assert [path.name for path in paths] == ["part-00000.parquet", "part-00001.parquet"]
    assert pq.read_table(tmp_path / "windows").num_rows == 70_000
    with pytest.raises(ConfigurationError, match="not empty"):
        write_splice(tmp_path / "windows", 10)
    with pytest.raises(ConfigurationError, match="n_rows=0"):
        next(splice_batches(0))


def test_splice_sites_depend_across_the_pair_and_others_do_not():
    batch = next(splice_batches(65_536, positives=0.5))
    site = np.array(batch["class"].to_pylist()) == "site"
    for first, second in TIED:
        a, b = (batch[f"p{i - CENTRE:+d}"].indices.to_numpy() for i in (first, second))
        assert mutual_information(a[site], b[site]) > 10 * mutual_information(a[~site], b[~site])
