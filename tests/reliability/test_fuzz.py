"""Files that a fuzzer found on its way through the readers, opened again."""

import warnings
from pathlib import Path

import pytest
from torture.fuzz import SHARES
from torture.targets import TARGETS, seeds_of

SEEDS = Path(__file__).with_name("seeds")
GOOD = ("refused", "read", "ran", "loaded", "loaded, rows refused")


@pytest.mark.parametrize("target", TARGETS)
def test_found_files_are_refused_or_read(target):
    files = sorted((SEEDS / target).iterdir())
    assert files
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = {path.name: TARGETS[target](path.read_bytes()) for path in files}
    assert {name: out for name, out in outcomes.items() if out not in GOOD} == {}


@pytest.mark.parametrize("target", TARGETS)
def test_whole_files_are_read(target):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = {TARGETS[target](data) for data in seeds_of(target)}
    # The tables that the experiments name are not beside them here.
    assert outcomes <= {"read", "ran", "loaded", *(["refused"] if target == "experiment" else [])}


def test_every_target_has_its_share_of_the_campaign():
    assert SHARES.keys() == TARGETS.keys()
    assert sum(SHARES.values()) == pytest.approx(1_000)
