"""Anything tabular, as addresses of rows that are read where they are needed."""

from tanager.sources.opening import open_source, open_table
from tanager.sources.source import ArraySource, Fragment, Source, TableSource

__all__ = ["ArraySource", "Fragment", "Source", "TableSource", "open_source", "open_table"]
