"""The local engine: passes and maps on threads."""

from __future__ import annotations

import re
import threading

import pytest

from tanager.engines import FitContext, LocalEngine, passes, resolve_engine
from tanager.engines.passes import Passes
from tanager.errors import ConfigurationError
from tanager.progress import Progress


class Piece(int):
    n_rows = 1

    def chunks(self):
        yield int(self)


class Numbers:
    n_rows = 50

    def pieces(self):
        return [Piece(i) for i in range(50)]


class Sum:
    def zero(self):
        return 0

    def update(self, state, chunk):
        return state + chunk

    def merge(self, a, b):
        return a + b

    def finish(self, state):
        return state


class Recorder(Progress):
    def __init__(self):
        self.log = []

    def start(self, stage, total=None, unit="rows"):
        self.log.append((stage, total))

    def advance(self, n=1, **info):
        assert threading.current_thread() is threading.main_thread()
        self.log.append(n)

    def finish(self):
        self.log.append("end")


@pytest.mark.parametrize("jobs", [None, 1, 3, -1])
def test_a_pass_sees_every_row_once_and_reports_it(jobs):
    progress = Recorder()
    assert LocalEngine(jobs).run(Sum(), Numbers(), progress, "sum") == sum(range(50))
    assert progress.log == [("sum", 50), *[1] * 50, "end"]


@pytest.mark.parametrize("jobs", [1, 4])
def test_several_passes_give_all_results(jobs):
    three = Passes(Sum(), Sum(), Sum())
    assert LocalEngine(jobs).run(three, Numbers(), Progress(), "") == (1225, 1225, 1225)


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_in_a_chunk_comes_out(jobs):
    class Broken(Sum):
        def update(self, state, chunk):
            if chunk == 20:
                raise RuntimeError("row 20")
            return state

    with pytest.raises(RuntimeError, match="row 20"):
        LocalEngine(jobs).run(Broken(), Numbers(), Progress(), "")


@pytest.mark.parametrize("jobs", [1, 4])
def test_map_keeps_the_order(jobs):
    progress = Recorder()
    assert LocalEngine(jobs).map(lambda x: x * x, range(9), progress, "squares") == [
        x * x for x in range(9)
    ]
    assert progress.log[0] == ("squares", 9)


def test_jobs_and_engines_are_checked():
    with pytest.raises(ConfigurationError, match="n_jobs=0"):
        LocalEngine(0)
    with pytest.raises(ConfigurationError, match="'moon' isn't valid"):
        resolve_engine("moon", None)
    engine = LocalEngine(2)
    assert resolve_engine(engine, None) is engine


def test_random_streams_depend_on_their_key_alone():
    a, b = FitContext(), FitContext()
    b.generator(1).random(100)
    assert a.generator(2, 7).random() == b.generator(2, 7).random()
    assert a.generator(2, 7).random() != a.generator(7, 2).random()


@pytest.mark.parametrize(("peak", "words"), [(None, "s"), (12.4, "s, 12 MB at most")])
def test_a_stage_tells_its_memory_where_it_is_known(monkeypatch, caplog, peak, words):
    monkeypatch.setattr(passes, "peak_memory_mb", lambda: peak)
    with caplog.at_level("INFO", logger="tanager"), FitContext().stage("codes") as record:
        pass
    assert record["peak_memory_mb"] == peak
    (message,) = [one.getMessage() for one in caplog.records]
    assert re.fullmatch(rf"codes: \d+\.\d\d {words}", message)
