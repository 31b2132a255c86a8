"""``tanager predict``: a table in, labels and probabilities out, a batch at a time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tanager.cli.console import print_json, watching
from tanager.cli.options import (
    Data,
    Decimal,
    Drop,
    Encoding,
    Json,
    Model,
    NaValues,
    Threads,
    open_data,
)
from tanager.cli.safety import Force, check_output, is_prediction
from tanager.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from tanager.network import Network
    from tanager.sources import Fragment, Source

__all__ = ["Scorer", "match_features", "register", "scored"]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(predict)


def predict(
    model: Model,
    data: Data,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help=".parquet, .arrow, .csv; a folder; else (or -) CSV to the terminal.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep", help="A column of the input to keep; may be repeated. 'all': every one."
        ),
    ] = None,
    ignore_extra: Annotated[
        bool, typer.Option("--ignore-extra", help="Do not mind columns that the model lacks.")
    ] = False,
    probabilities: Annotated[
        bool, typer.Option(help="One column p_CLASS for every class, or the label alone.")
    ] = True,
    na_values: NaValues = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    drop: Drop = None,
    jobs: Threads = 1,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Classify the rows of a table.

    Writes the column prediction and one column p_CLASS for every class. The
    table is streamed: it may be larger than memory. Columns are matched by name.
    An output without an ending is a folder: one Parquet file for each input file.
    """
    from tanager.cli.folders import check_folder
    from tanager.cli.output import check_ending
    from tanager.network import Network

    if output is not None and str(output) == "-":
        output = None
    to_folder = output is not None and not output.suffix
    if output is not None and to_folder:
        check_folder(output)
    else:
        check_ending(output)
        inputs: list[str | Path] = [model, *data]
        kind = "table of predictions with their probabilities"
        check_output(output, inputs, ours=is_prediction, kind=kind, force=force)
    if output is None and as_json:
        raise ConfigurationError("--json tells about the file that was written: give --output.")
    start = time.perf_counter()
    network = Network.load(model)
    table = open_data(data, na_values, encoding, decimal, drop)
    source = network.codebook.complete(table)
    kept = _kept(source, keep or ())
    features = match_features(network, source, kept, ignore_extra=ignore_extra)
    source = network.codebook.text_as_trained(source, features)
    scorer = Scorer(network, features, kept, probabilities=probabilities)
    rows = sum(_written(scorer, source, output, jobs))
    scorer.unseen.warn(table, features)
    if rows == 0:
        print("tanager: the table has no rows.", file=sys.stderr)
    seconds = time.perf_counter() - start
    if as_json:
        print_json({"output": str(output), "rows": rows, "seconds": seconds})
    elif output is not None:
        print(f"{output}: {rows:,} rows, {seconds:.1f} s")


class Scorer:
    """Turns a batch of the input into a batch of the output.

    Features are read as in training; what is kept stays as it is in the input, also where
    it is a feature.

    Attributes
    ----------
    unseen : UnseenColumns
        Told of all rows that were scored: see `scored`.
    """

    def __init__(
        self,
        network: Network,
        features: Sequence[str],
        kept: Sequence[str],
        *,
        probabilities: bool,
    ) -> None:
        from tanager.classifiers.prediction import UnseenColumns

        self.network = network
        self.unseen = UnseenColumns(network)
        self.features = list(features)
        self._readings = network.codebook.readings_of(features)
        self.kept = list(kept)
        self.columns = list(dict.fromkeys([*features, *kept]))
        self._labels = network.codebook.target.values
        self.names = ["prediction"]
        if probabilities:
            self.names += [f"p_{label}" for label in network.codebook.classes.tolist()]
        clash = sorted(set(self.names) & set(kept))
        if clash:
            raise ConfigurationError(
                f"The kept column(s) {', '.join(map(repr, clash))} would be written twice. "
                "Rename them in the input, or do not keep them."
            )

    def __call__(self, fragment: Fragment) -> list[tuple[pa.RecordBatch, NDArray[np.bool_]]]:
        """Return the output of a fragment's rows, see `score`."""
        return [self.score(batch) for batch in fragment.batches(self.columns)]

    def score(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[np.bool_]]:
        """Return the kept columns, the label and the probabilities of every class.

        Beside them: which features have a known value in any row, see `ScoredRows`.
        """
        import numpy as np
        import pyarrow as pa

        from tanager.classifiers.prediction import score_codes
        from tanager.parameters import posterior
        from tanager.sources.plain import plain_array

        inputs = [
            self._readings[name].read(batch.column(name), name)
            if name in self._readings
            else batch.column(name)
            for name in self.features
        ]
        codes = self.network.codebook.encode_chunk(inputs, None)
        log_joint, known = score_codes(self.network, codes)
        best = plain_array(log_joint.argmax(axis=1), pa.int32())
        arrays = [batch.column(name) for name in self.kept]
        if pa.types.is_string(self._labels.type):
            arrays.append(pa.DictionaryArray.from_arrays(best, self._labels))
        else:
            arrays.append(self._labels.take(best))
        if len(self.names) > 1:
            columns = np.ascontiguousarray(posterior(log_joint).T)
            arrays += [plain_array(column, pa.float64()) for column in columns]
        return pa.RecordBatch.from_arrays(arrays, [*self.kept, *self.names]), known


def _kept(source: Source, keep: Sequence[str]) -> list[str]:
    if list(keep) == ["all"]:
        return list(source.names)
    absent = [name for name in keep if name not in source.names]
    if absent:
        raise ConfigurationError(
            f"--keep names {', '.join(map(repr, absent))}, which the table does not have. "
            f"Its columns: {', '.join(source.names)}."
        )
    return list(keep)


def match_features(
    network: Network, source: Source, kept: Sequence[str], *, ignore_extra: bool
) -> list[str]:
    """Return the input's columns that are the model's features, in its order."""
    codebook = network.codebook
    return codebook.match(
        source.names,
        named=source.named,
        kept=[*kept, codebook.target.name],
        ignore_extra=ignore_extra,
        remedy="Name unseen columns with --keep, or pass --ignore-extra.",
    )


def _written(scorer: Scorer, source: Source, output: Path | None, jobs: int) -> Iterator[int]:
    """Write all predictions; yield the rows of each batch."""
    from tanager.cli.folders import write_parts
    from tanager.cli.output import open_output

    with watching() as progress:
        progress.start("predict", source.n_rows)
        if output is not None and not output.suffix:
            for n_rows in write_parts(source, output, lambda part: scored(scorer, part, jobs)):
                progress.advance(n_rows)
                yield n_rows
        else:
            with open_output(output) as write:
                for batch in scored(scorer, source, jobs):
                    write(batch)
                    progress.advance(batch.num_rows)
                    yield batch.num_rows
        progress.finish()


def scored(scorer: Scorer, source: Source, jobs: int) -> Iterator[pa.RecordBatch]:
    """Score the fragments in order, several at a time on the threads.

    `scorer.unseen` is told of every batch, and may warn when the last one is there.
    """
    from tanager.classifiers.prediction import map_fragments
    from tanager.engines import LocalEngine

    for pairs in map_fragments(scorer, source, scorer.columns, LocalEngine(jobs)):
        for batch, known in pairs:
            scorer.unseen.add(batch.num_rows, known)
            yield batch
