"""What long work says of itself."""

from __future__ import annotations

import logging
import time

from tanager.progress import LongWork, RichProgress, one_of_many


def wait_for(caplog, n_messages):
    until = time.monotonic() + 20
    while len(caplog.records) < n_messages and time.monotonic() < until:
        time.sleep(0.01)
    return [record.getMessage() for record in caplog.records]


def test_long_work_is_told_of_once_with_an_estimate(caplog):
    with caplog.at_level(logging.WARNING, "tanager"), LongWork(after=0.3) as progress:
        progress.start("pair counts", total=100)
        progress.advance(25)
        (message,) = wait_for(caplog, 1)
        progress.finish()
    assert "at the stage 'pair counts': 25 of 100 rows, about" in message
    assert "s left. verbose=1 shows progress." in message


def test_work_of_unknown_length_is_told_of_without_an_estimate(caplog):
    with caplog.at_level(logging.WARNING, "tanager"), LongWork(after=0.05) as progress:
        progress.start("optimise")
        (message,) = wait_for(caplog, 1)
    assert "at the stage 'optimise'. verbose=1" in message


def test_short_work_is_silent(caplog):
    with caplog.at_level(logging.WARNING, "tanager"), LongWork(after=600) as progress:
        progress.start("codes")
    assert caplog.records == []
    progress._timer.join(10)
    assert not progress._timer.is_alive()


def test_a_notebook_without_widgets_is_told_nothing_of_them(monkeypatch, capsys):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("tanager.progress.find_spec", lambda _: None)
    with RichProgress() as progress:
        progress.start("codes", 3)
        progress.advance(3)
        progress.finish()
    assert "codes" in capsys.readouterr().err


def test_one_of_many_says_nothing_by_itself(caplog):
    with caplog.at_level(logging.WARNING, "tanager"):
        with one_of_many(), LongWork(after=0.0):
            time.sleep(0.2)
        assert caplog.records == []
        with LongWork(after=0.0):
            wait_for(caplog, 1)
    assert len(caplog.records) == 1
