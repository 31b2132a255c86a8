"""Anything tabular, as a restartable stream of Arrow record batches."""

from tanager.sources.opening import open_source
from tanager.sources.source import ArraySource, DatasetSource, Source, TableSource

__all__ = ["ArraySource", "DatasetSource", "Source", "TableSource", "open_source"]
