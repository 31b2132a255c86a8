"""Anything tabular, as a restartable stream of Arrow record batches."""

from tanager.tables.opening import open_source
from tanager.tables.source import ArraySource, DatasetSource, Source, TableSource

__all__ = ["ArraySource", "DatasetSource", "Source", "TableSource", "open_source"]
