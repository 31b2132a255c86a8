"""The page of the documentation that says what was tried, what failed and what is promised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tanager.atomic import replacing
from torture.campaign import ROOT

__all__ = ["RECORD", "keep", "read_record", "write_page"]

RECORD = ROOT / "docs" / "measurements" / "reliability.json"

_TITLES = {
    "same": "Same everywhere",
    "promises": "Weights and orders",
    "fine": "The default on many rows",
    "roads": "One answer by many roads",
    "postgres": "PostgreSQL",
    "numbers": "Numbers at the edge",
    "models": "Mutated model files",
    "inputs": "Mutated tables",
    "experiments": "Mutated experiment files",
    "checkpoints": "Damaged checkpoints",
    "fuzz": "Fuzzing by coverage",
    "kills": "Kills",
    "stores": "Object stores",
    "interrupts": "Ctrl-C",
    "writers": "Failing writes",
    "disks": "Disks and files",
    "concurrency": "Threads and processes",
    "memory": "Failing allocations",
    "sanitizers": "Memory of the compiled loops",
    "commands": "Commands at once",
    "security": "Names and paths",
}
_WHAT = {
    "same": "Every pair of learners: 2 and 4 threads; Parquet, Arrow, CSV (also packed), JSON "
    "lines, Excel, several files; chunks; "
    "dictionaries, large strings, pandas, categories, numbers of 32 bits; other processes with "
    "other hash seeds and BLAS threads. Equal bit for bit.",
    "promises": "Every pair: weights against repeated rows, other orders of rows, columns, "
    "classes. As near as the table below promises.",
    "fine": "The default above 5,000 rows, where numbers have 255 bins and tables two parts: all "
    "that the pairs above are tried with, a Dask cluster, rows in pieces around the blocks of the "
    "compiled loops, model files, pickles. Bit for bit. Log-joints of complete rows and with every "
    "one and two features unknown, also after edits by hand, against sums over all values one by "
    "one, to 1e-9. Signs (`monotonic=`) along every bin. 300 classes.",
    "roads": "The same rows to predict in other types, libraries, orders of columns and files, "
    "many or few at a time; model files, pickles and clones; SQL of the model and of an edited "
    "one; rows added in batches; a killed fit begun again with other rows; weights, orders and "
    "signs on a Dask cluster. The same probabilities, bit for bit (SQL: to 1e-9), or a refusal "
    "where it is promised.",
    "postgres": "Tables of numbers, whole numbers past 2^53, words, numbers and dates in texts, "
    "instants with and without a zone, days and gaps, under hostile names, as numbers and as "
    "categories: the exported SQL, run by a PostgreSQL server in sessions of three time zones, "
    "gives the probabilities of `predict_proba` to 1e-9.",
    "numbers": "One row, identical rows, 500 classes, 65,535 values, 5,000 columns, skew, extreme "
    "numbers and weights: probabilities finite and summing to 1 to 1e-12, or an error of the "
    "project that names the column or the weight. The same of models of ordinary rows that are "
    "asked about infinities, denormals, the largest integers and dates, and unknown words.",
    "models": "Bytes changed anywhere, contents changed under a valid checksum, and other models "
    "that pass every check (certainty, zeros, extreme scores and cuts, hostile names): refused, or "
    "loaded with probabilities that sum to one; what is loaded is then explained, edited, "
    "exported, reported or saved. No crash, no answer after 10 s, no process above 1 GB, nothing "
    "imported, executed or written.",
    "inputs": "CSV, JSON lines, both also gzipped, Excel, Parquet, Arrow files and streams: "
    "refused, or learned from and predicted, also by a model of the whole table. Small packed "
    "files that unpack to 700 MB. The same limits.",
    "experiments": "TOML with wrong types, deep nests, long keys, import paths: refused, or run. "
    "The same limits.",
    "checkpoints": "The files that a killed fit left, with bytes changed anywhere: refused, or the "
    "fit goes on to the same model as an undisturbed one.",
    "fuzz": "`make fuzz`: libFuzzer (atheris) on model headers under valid checksums, experiment "
    "files, texts of learners, run files with their pages, CSV, checkpoints, networks of other "
    "programs, what notebooks show of any names, columns and labels of any memory, saved and "
    "loaded, and cells coded one by one and as a table.",
    "kills": "kill -9 at random moments of saving, predicting, comparing, and of fits and "
    "trainings with a checkpoint: the old file or the new one, whole; a resumed run equal to an "
    "undisturbed one; what a killed writer left is gone after the next write.",
    "stores": "An S3 server that answers with 503, cuts connections and is slow; kill -9 at random "
    "moments of fits from it and of predictions into it. The model of an undisturbed fit, bit for "
    "bit; the object whole or not there; no temporary file left.",
    "interrupts": "Ctrl-C at random moments of the same, of fits in threads and of fits on a Dask "
    "cluster: the work stops, no temporary file is left at once, no thread goes on, and the same "
    "process then gives the same results as before.",
    "writers": "The C library's write, fsync, rename and creation of a file fail at the 1st, 2nd, "
    "3rd, 5th and 9th call, with no room left (ENOSPC) or a broken disk (EIO), or write half: for "
    "models, predictions, cells, every export, pictures, pages, run files, checkpoints and kept "
    "rows. The old file or the new one, whole; an error of one line; no temporary file; a "
    "repetition gives what an undisturbed run gives. And all of them while the clock of the day "
    "goes back by an hour at every look.",
    "disks": "Writes that fail in the middle, a full disk, a read-only folder, no home, no place "
    "for a cache, tables "
    "that grow, shrink, vanish or change between passes: one line of error and no file, or the "
    "right model.",
    "concurrency": "Predictions from 16 threads, fits from 8, a fork after a fit, joblib, two "
    "comparisons on one run file, three fits with "
    "one checkpoint.",
    "memory": "Fits of nine pairs, from Parquet files, in threads, with gaps, past the memory "
    "limit; predictions, intervals, samples, explanations; saving and loading; commands. One "
    "allocation of at least 100 kB (a column of the table has 200 kB) by NumPy, Arrow or Python "
    "fails: a MemoryError, or an error of the project that says so; the old file and the old "
    "model stay; no temporary file, no thread and no large block is left; the same work again "
    "gives the same result, bit for bit. Without CSV: Arrow's parser ends the process itself "
    "where it can't allocate (apache/arrow#34487).",
    "sanitizers": "The tests of every room that calls C, built with AddressSanitizer and "
    "UndefinedBehaviorSanitizer; every allocation of every kernel fails once: an error, nothing "
    "written, nothing leaked.",
    "commands": "Five commands at a time, drawn from fit (with and without a checkpoint), predict, "
    "score, export, show, explain, report, sample, drift, compare and audit, on the same tables, "
    "models, outputs, checkpoint and run file, with and without --force: each succeeds, or says "
    "that the file is there or in use; every file is whole and of one writer, every cell of the "
    "run file is there once, nothing is left over.",
    "security": "Columns, values, classes and notes of edits with hostile names, drawn anew for "
    "every table, through DOT, BIF, XMLBIF, JSON, JavaScript (run by Node), C (read by a "
    "compiler), SQL (run by SQLite and DuckDB), notebooks, model pages, pages of comparisons, SVG, "
    "CSV, commands with and without a terminal, bars of progress, errors and model files: text, "
    "and nothing else. Every writer on a link into another folder, on a pipe, and over a file that "
    "only its owner may read.",
}
# What a full campaign tries at least, of the parts that can also be short.
FULL = {
    "same": 1_800,
    "promises": 700,
    "fine": 180,
    "roads": 800,
    "postgres": 1_000,
    "numbers": 700,
    "models": 10_000,
    "inputs": 10_000,
    "experiments": 1_000,
    "checkpoints": 500,
    "fuzz": 1_000_000,
    "kills": 100,
    "stores": 100,
    "interrupts": 100,
    "memory": 1_000,
    "security": 1_000,
}
_WHY = """\
**exact**: bit for bit. **rounding**: one probability of one row moves by less than 1e-9, because
sums are added in another order. **tolerance**: by less than 2e-3, because an optimiser stops within
its tolerance. **another draw**: folds, held-out rows, samples or starting values are drawn by row
index or column index, so another order is another draw of the same procedure; the models are
equally good, not equal.

- *Weights and repeated rows.* Exact for whatever is a function of counts. Learners that hold rows
  out (an m or shares by cross-validation) draw folds by row index, and a repeated row has an index
  of its own: its copies fall into other folds, so what is held out has been seen. Give weights; do
  not repeat rows. A constant factor on all weights is not neutral: weights are numbers of rows, and
  more rows need less smoothing.
- *Rows in another order.* Counts add exactly in any order. Folds are a hash of the seed and the
  row's index: that needs no array and no look at the content, costs nothing on data of any size,
  and lets two equal rows fall into different folds, as independent rows should. So for learners
  with folds, the default among them, the order of the rows is part of the seed. Folds by content
  would take it out, but need to know all other rows.
- *Columns in another order.* Where features tie, the name decides and not the column: for the order
  of an adjusted kDB, in which all features that say no more than chance tie, and the k-tree of the
  default. A TAN is rooted at the first column, as published ([measured](tan-root.md)); the one in
  the table, like that of `structure="auto"`, at the most informative feature. The greedy, the
  random and the differentiable learner draw or prefer by column.
- *Classes renamed.* Classes stand in the order of their names; sums over them are added in it, and
  folds are dealt class by class in it.
"""

_FOUND = """\
Tests bring each of them back: `tests/reliability`, `tests/sources`, `tests/codes`,
`tests/structure`, `tests/engines`, `tests/classifiers`, `tests/network`,
`tests/evaluation/test_experiment.py`; the
versions, `make floors`.

- A damaged Arrow file, or one cut short while it was read, ended the process. Columns from files
  and from other libraries are now checked in full before use, and files are not mapped.
- A table that changed between two passes gave a model of mixed rows, without a word.
- A damaged gzip file, a target of nested type and names of thousands of characters gave errors of
  other libraries, or messages nobody can read.
- Experiment files: twelve keys with a wrong type, deep nests, long keys and a million folds gave
  errors of Python, or hung; an import path imported any module.
- Weights beyond 1e50 or below 1e-50 gave warnings, divisions by zero and infinities.
- Whole numbers beyond 2^53 were cast out of range while cut points were learned.
- The order-based learner counted rows where it should have added weights.
- TAN's predictions moved by up to 0.65 when columns changed places.
- Atomic writes followed a link into another folder, could replace a device such as /dev/null, made
  the file readable for others while it was written, and left a temporary file after a kill.
- Names from tables could steer a terminal, break a picture or a table on the screen, and become
  formulas in a spreadsheet.
- A model file or an experiment file could name the path that a later training writes to.
- The lowest versions in `pyproject.toml` could not be installed together; with the lowest typer
  no command ran.
- A fit with a checkpoint that was killed between two stages left files for ever. A full disk was
  told when kept rows were read, not when they were written, and errors of a disk named a temporary
  file or none.
- Run files with absent or wrong entries gave errors of Python; a run file followed a link into
  another folder.
- kDB and selective kDB moved by up to 0.9, and the default by up to 0.01, when columns changed
  places: features that say no more than chance tied, and ties went by column.
- Texts of other types than plain strings (dictionaries, bytes, views) could reach a CSV as
  formulas.
- A killed fit with a checkpoint went on with another table if every feature's counts agreed, or
  with the same rows in another order: a model of both, without a word.
- NaN was an unknown value, not a missing one, in ordered numbers whose order is not ascending.
- Integers past 2^53 that came back as text fell together with their neighbours.
- Dates and numbers written in another style than in training were taken as missing without a word.
  Dates with the year first are now read, for others there is a warning.
- Predictions on a Dask cluster could fail: arrays arrived at addresses that compiled loops refuse.
- A network whose tables read parents in groups (the default's) could not be edited.
- pandas categories of mixed types gave an error of another library.
- Model files that pass every check, written by nobody's learner: a probability of zero gave NaN as
  the posterior, a fact about the fit of a wrong type or an extreme table broke the model's page.
- Texts in NumPy arrays that differ only after a NUL fell together, without a word.
- Excel: rows and columns beyond what a sheet says of its size were lost without a word; a damaged
  sheet gave an error of another library; one cell at the far end of a sheet took minutes.
- JSON lines that are not utf-8, and a Parquet file of more rows than its groups have, gave errors
  of other libraries. A run file or a checkpoint on a pipe waited for ever.
- CSV: a header with an open quote or a very long name, and encodings that are none of text, gave
  errors of other libraries.
- A date or a time as a classifier's option in an experiment file gave an error of Python.
- Characters that no XML may hold came into pictures; wide letters hid formulas in CSV.
- Small packed files took gigabytes: a CSV whose header does not end, JSON lines, parts of a sheet.
- Predictions of two files with one name and two endings fell together in a folder of predictions:
  those of one were lost without a word. A killed writer's folder stayed for ever.
- A temporary file could be taken for an abandoned one before it was locked, and was then made again
  with wider permissions. File names near the longest that a disk allows could not be written.
- Names of datasets and of an experiment could steer a terminal through a bar of progress.
- An experiment file that names the whole disk as a table gave an error of Python.
- A damaged structure in a checkpoint could give another model without a word, damaged arrays errors
  of other libraries, and of two fits with one checkpoint one could fail at its end.
- Whole numbers past 2^53 were compared with cut points exactly in few rows, and as rounded in many:
  the same row had two answers. In JavaScript such categories fell together.
- Instants with a zone that came back as text lost it. In SQLite times of day and durations were
  read as dates, in SQL dates as categories were unknown.
- With the lowest pyarrow, and no pandas beside it, no number could be read.
- A finished cell of a run file without its bins of confidence gave an error of Python.
- The C of a network with one edge compiled with a warning, by the newest gcc with another one.
- In SQL, instants as categories that differ by microseconds fell together before 1684 and after
  2255: they were compared as seconds.
- Intervals of discriminative scores divided by nothing under weights of 1e50. A damaged size of
  39 GB in a file of 5 kB was told as a lack of memory.
- Thousands of classes took gigabytes whatever the memory limit: selective kDB's counts, and the
  steps that the optimiser of the default remembers.
"""


def read_record(record: Path | None) -> dict[str, Any]:
    """Return what earlier runs found."""
    if record is None or not record.exists():
        return {}
    found: dict[str, Any] = json.loads(record.read_text())
    return found


def keep(record: Path, found: dict[str, Any]) -> None:
    """Put results into a record, beside those that others put there.

    Where a part tried more on another revision, that is kept in few words.
    """
    old = read_record(record)
    earlier = {**old.get("earlier", {}), **found.get("earlier", {})}
    for name in _TITLES:
        before, now = old.get(name), found.get(name)
        if before and now and before["revision"] != now["revision"]:
            most = max(now["tried"], earlier.get(name, {}).get("tried", 0))
            if before["tried"] > most:
                earlier[name] = _in_few_words(before)
    ran = [found[name]["revision"] for name in _TITLES if name in found]
    about = {"revision": ran[-1]} if ran else {}  # of the part that was put there last
    results = {**old, **found, **about, "earlier": earlier}
    with replacing(record) as part:
        part.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _in_few_words(result: dict[str, Any]) -> dict[str, Any]:
    told = {key: result[key] for key in ("tried", "outcomes", "seed", "revision")}
    return {**told, "failed": len(result["failures"])}


def write_page(results: dict[str, Any], path: Path) -> None:
    """Write the page from the record of a campaign.

    What the last campaign ran is told in full; parts of other revisions in few words.
    """
    results = _divided(results)
    parts = [
        "# Reliability",
        f"Made by `python -m torture --full --record FILE` and `--page FILE`; `make torture` runs "
        f"a shorter one. "
        f"{results.get('environment', '')}. {_whole(results)}",
        _summary(results),
        _earlier(results),
        _floors(results),
        "## What failed",
        _failures(results),
        "## What was found before, and mended",
        _FOUND,
        "## What is promised",
        _promises(results),
        _refused(results),
    ]
    path.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")


def _divided(results: dict[str, Any]) -> dict[str, Any]:
    """Return the record with parts of other revisions than the last one's among the earlier."""
    last = results.get("revision")
    others = {n for n in _TITLES if n in results and results[n]["revision"] != last}
    earlier = dict(results.get("earlier", {}))
    for name in others:
        if results[name]["tried"] >= earlier.get(name, {}).get("tried", 0):
            earlier[name] = _in_few_words(results[name])
    kept = {name: result for name, result in results.items() if name not in others}
    earlier = {
        name: before
        for name, before in earlier.items()
        if name not in kept or before["tried"] > kept[name]["tried"]
    }
    if "promises" in others:
        kept["promised"] = results["promises"]
    return {**kept, "earlier": earlier}


def _whole(results: dict[str, Any]) -> str:
    """Return whether all parts ran to their ends, on one revision."""
    before = results.get("earlier", {})
    lacking = [
        f"{title} ({'on another revision' if name in before else 'not run'})"
        for name, title in _TITLES.items()
        if name not in results
    ]
    for name, title in _TITLES.items():
        if name not in results:
            continue
        if results[name]["tried"] < FULL.get(name, 0):
            lacking.append(f"{title} ({results[name]['tried']:,} of at least {FULL[name]:,})")
        elif "stopped" in results[name]["facts"]:
            lacking.append(f"{title} (stopped before its end)")
    told = f"revision {results.get('revision')}"
    if lacking:
        return f"The parts in the first table ran on {told}. Not whole: {', '.join(lacking)}."
    return f"All parts ran to their ends, on {told}."


def _summary(results: dict[str, Any]) -> str:
    lines = [
        "| part | tried | failed | came out as | seed | revision | CPU s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, title in _TITLES.items():
        if name not in results:
            continue
        result = results[name]
        lines.append(
            f"| {title} | {result['tried']:,} | {len(result['failures'])} "
            f"| {_told(result['outcomes'])} "
            f"| {result['seed']} | {result['revision']} | {_cpu_seconds(result)} |"
        )
    told = [f"- **{_TITLES[name]}**: {_WHAT[name]}{_facts(results[name])}"
            for name in _TITLES if name in results]  # fmt: skip
    return "\n".join(lines) + "\n\n" + "\n".join(told)


def _earlier(results: dict[str, Any]) -> str:
    """Return what was tried more often on other revisions."""
    found = results.get("earlier", {})
    lines = [
        f"| {title} | {found[name]['tried']:,} | {found[name]['failed']} "
        f"| {_told(found[name]['outcomes'])} | {found[name]['seed']} | {found[name]['revision']} |"
        for name, title in _TITLES.items()
        if name in found
    ]
    head = "| part | tried | failed | came out as | seed | revision |\n|---|---|---|---|---|---|\n"
    title = (
        "## Tried on other revisions\n\nWhere a part tried more before, or did not run on the last "
        "revision. Attacks were fewer then.\n\n"
    )
    return title + head + "\n".join(lines) if lines else ""


def _told(outcomes: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {what}" for what, n in outcomes.items() if what != "failed")


def _cpu_seconds(result: dict[str, Any]) -> str:
    """Return the CPU time of a part; older records have none."""
    return f"{result['cpu_seconds']:,.0f}" if "cpu_seconds" in result else "not measured"


def _facts(result: dict[str, Any]) -> str:
    plain = {k: v for k, v in result["facts"].items() if not isinstance(v, dict)}
    return f" ({'; '.join(f'{k}: {v}' for k, v in plain.items())}.)" if plain else ""


def _floors(results: dict[str, Any]) -> str:
    """Return how the tests went with other versions of what is needed."""
    tried = results.get("floors", {}).get("pythons", {})
    if not tried:
        return ""
    lines = ["| versions | tests | revision |", "|---|---|---|"]
    lines += [
        f"| {what} | {one['told']} | {one.get('revision', '')} |"
        for what, one in sorted(tried.items())
    ]
    return (
        "## Versions\n\n`make floors` runs the tests with the lowest versions that "
        "`pyproject.toml` allows, and with the newest on every Python.\n\n" + "\n".join(lines)
    )


def _failures(results: dict[str, Any]) -> str:
    found = [
        f"- {_TITLES[name]}: {failure['what']}"
        for name in _TITLES
        for failure in results.get(name, {}).get("failures", [])[:20]
    ]
    found += [
        f"- {what}: {failure}"
        for what, one in results.get("floors", {}).get("pythons", {}).items()
        for failure in one["failures"][:20]
    ]
    return "\n".join(found) if found else "Nothing in this run."


def _promises(results: dict[str, Any]) -> str:
    found = results.get("promises", results.get("promised", {}))
    table = found.get("facts", {}).get("table", {})
    if not table:
        return "This run did not measure it."
    columns = list(next(iter(table.values())))
    lines = [f"| pair | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    lines += [
        f"| `{pair}` | {' | '.join(row[c] for c in columns)} |" for pair, row in table.items()
    ]
    measured = f"\nMeasured on revision {found['revision']}, the worse of two tables:\n\n"
    return _WHY + measured + "\n".join(lines)


def _refused(results: dict[str, Any]) -> str:
    refused = results.get("numbers", {}).get("facts", {}).get("refused", {})
    lines = [f"- {name}: {message}" for name, message in refused.items()]
    return "## Numbers that are refused\n\n" + "\n".join(lines) if lines else ""
