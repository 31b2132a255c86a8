"""BLAS is held to one thread, and given back."""

from __future__ import annotations

import pytest

from tanager.numerics import one_blas_thread

threadpoolctl = pytest.importorskip("threadpoolctl")


def _threads() -> set[int]:
    import scipy.linalg  # noqa: F401  # loads its BLAS

    info = threadpoolctl.threadpool_info()
    return {one["num_threads"] for one in info if one["user_api"] == "blas"}


def test_one_thread_inside_and_restored_outside():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = _threads()
        assert before == {2}
        with one_blas_thread():
            assert _threads() == {1}
        assert _threads() == before


def test_last_to_leave_restores_whatever_the_order():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = _threads()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert _threads() == {1}
        second.__exit__(None, None, None)
        assert _threads() == before


def test_an_error_gives_the_threads_back():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = _threads()
        with pytest.raises(ZeroDivisionError), one_blas_thread():
            _ = 1 / 0
        assert _threads() == before
