"""The boundary of the compiled loops: every call is checked against the kernel's description."""

import inspect
from pathlib import Path

import numpy as np
import pytest

from tanager import native
from tests.native import stub

CODES = np.array([[0, 1, 1], [1, 0, 2]], np.uint8)
LABELS = np.array([0, 1, 1], np.uint16)


def count_values(**changed):
    given = {
        "codes": CODES,
        "labels": LABELS,
        "weights": np.zeros(0),
        "arities": np.array([2, 3]),
        "n_classes": 2,
        "start": np.array([0, 4, 10]),
        "out": np.zeros(10),
    } | changed
    native.count_values(**given)
    return given["out"]


def test_keywords_and_positions_are_the_same_call():
    out = np.zeros(10)
    native.count_values(CODES, LABELS, np.zeros(0), np.array([2, 3]), 2, np.array([0, 4, 10]), out)
    assert out.tolist() == count_values().tolist() == [1, 0, 0, 2, 0, 1, 1, 0, 0, 1]


UNALIGNED = np.frombuffer(bytearray(81), np.uint8)[1:].view(np.float64)
READ_ONLY = np.zeros(10)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"codes": [[0, 1, 1]]}, TypeError, "'codes' must be .* not a list"),
        (
            {"codes": CODES.astype(np.int8)},
            TypeError,
            "'codes' must be .* not 1 bytes of format 'b'",
        ),
        ({"codes": CODES[0]}, ValueError, "'codes' must be .* not of 1 dimension"),
        ({"codes": np.asfortranarray(CODES)}, ValueError, "'codes' .*must be C-contiguous"),
        ({"labels": LABELS[:2]}, ValueError, "'labels' must be .* 2 along axis 0, not 3"),
        ({"labels": LABELS + np.uint16(1)}, ValueError, "labels'.*element 1 is 2.*below 2"),
        ({"weights": np.ones(2)}, ValueError, "'weights' must be .* 2 along axis 0, not 3"),
        ({"weights": np.ones(3, ">f8")}, TypeError, "'weights' must be .* '>d'"),
        ({"arities": np.array([2, 4])}, ValueError, "arities.* <= n_out .* element 1: 12 > 10"),
        ({"n_classes": 2.5}, TypeError, "'n_classes' must be int from 1, not a float"),
        ({"n_classes": 0}, ValueError, "'n_classes' must be int from 1, not 0"),
        ({"n_classes": 1 << 70}, TypeError, "'n_classes' must be int from 1"),
        ({"start": np.array([0, 4])}, ValueError, "'start' must be .* 2 along axis 0, not 3"),
        ({"start": np.array([4, 0, 10])}, ValueError, "'start'.*element 1 is 0.*rising to 10"),
        ({"start": np.array([-1, 4, 10])}, ValueError, "'start'.*element 0 is -1"),
        ({"out": np.zeros(20)[::2]}, ValueError, "'out' .* must be C-contiguous"),
        ({"out": READ_ONLY}, ValueError, "'out' .* must be C-contiguous and writable"),
        ({"out": UNALIGNED}, TypeError, "'out' must be .* '=d'"),
        ({"unknown": 1}, TypeError, "no argument 'unknown'"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_names_of_kernel_and_argument(changed, error, words):
    with pytest.raises(error, match=f"native.count_values: .*{words}"):
        count_values(**changed)


def test_missing_and_repeated_arguments_are_refused():
    with pytest.raises(TypeError, match=r"native.normalize: 1 arguments given, 2 expected"):
        native.normalize(np.zeros((1, 2)))
    with pytest.raises(TypeError, match=r"native.normalize: 3 arguments given, 2 expected"):
        native.normalize(np.zeros((1, 2)), 0, 0)
    with pytest.raises(TypeError, match="argument 'in_logs' is given twice"):
        native.normalize(np.zeros((1, 2)), 0, in_logs=1)


def test_a_matrix_is_no_vector():
    with pytest.raises(ValueError, match=r"native.normalize: 'log_joint' must be .*1 dimension"):
        native.normalize(np.zeros(3), False)


def test_indices_that_lead_outside_of_an_array_are_refused():
    out = np.zeros(4)
    with pytest.raises(ValueError, match=r"'keys'.*element 2 is 9.*below 4"):
        native.count_keys(np.array([1, -1, 9]), np.zeros(0), out)
    native.count_keys(np.array([1, -1, 3]), np.zeros(0), out)
    assert out.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("kernel", ["share_families", "pull_shares"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("starts", -1), ("context_starts", -1), ("value_starts", -1), ("sizes", -1)),
        *(("arities", -1), ("arities", 0), ("link_starts", -1), ("links", -1)),
    ],
)
def test_families_lie_inside_of_their_arrays(kernel, name, value):
    families = {
        "starts": [0, 2],
        "context_starts": [0, 1],
        "value_starts": [0, 2],
        "sizes": [1, 2],
        "arities": [2, 2],
        "holders": [-1, 0],
        "link_starts": [0, 0],
        "links": [1, 2],
    }
    cells, values, classes = np.zeros((6, 2)), np.zeros((4, 2)), np.zeros(2)
    given = {
        "share_families": (cells, classes, np.zeros(1), cells.copy(), cells.copy(), values),
        "pull_shares": (cells, cells.copy(), classes, values, classes.copy(), cells.copy()),
    }[kernel]
    call = getattr(native, kernel)
    call(*map(np.array, families.values()), 3, *given)
    with pytest.raises(ValueError, match="n_contexts"):
        call(*map(np.array, families.values()), 1 << 62, *given)
    families[name][-1] = value
    with pytest.raises(ValueError, match=rf"{name}.* element 1"):
        call(*map(np.array, families.values()), 3, *given)


def test_sizes_beyond_64_bits_do_not_wrap_around():
    huge = 1 << 62
    with pytest.raises(ValueError, match="n_flat does not hold for element 0"):
        native.score_information(
            np.zeros(8), np.zeros(1, np.int64), *np.full((2, 1), huge), 2, np.zeros(1)
        )


def test_the_stub_is_what_the_descriptions_say():
    assert Path(stub.STUB).read_text(encoding="utf-8") == stub.stub(), (
        "write it again: python -m tests.native.stub"
    )
    listed = [name for names in stub.files().values() for name in names]
    functions = [name for name, _ in inspect.getmembers(native, inspect.isbuiltin)]
    assert sorted(listed) == sorted(set(functions) - {"fail_allocation"})


def test_every_kernel_stands_in_the_file_that_the_list_names():
    for file, names in stub.files().items():
        text = (stub.KERNELS.parent / file).read_text(encoding="utf-8")
        assert [name for name in names if f"KERNEL({name},\n" not in text] == []
