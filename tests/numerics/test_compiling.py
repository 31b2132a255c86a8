"""Kernels where nothing can be kept on disk."""

from __future__ import annotations

import logging

from tanager.numerics import compiling


def test_without_a_folder_for_compiled_code_kernels_still_run(monkeypatch, caplog):
    def refuse(**options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(compiling, "njit", refuse)
    monkeypatch.setattr(compiling, "_told", [])
    with caplog.at_level(logging.WARNING):
        double = compiling.kernel(lambda x: 2 * x)
        triple = compiling.kernel(error_model="numpy")(lambda x: 3 * x)
    assert (double(2), triple(2)) == (4, 6)
    assert len(caplog.records) == 1
    assert "NUMBA_CACHE_DIR" in caplog.text
