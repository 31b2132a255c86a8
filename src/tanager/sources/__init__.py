"""Open anything tabular as a source, whose rows are read where they are needed."""

from tanager.sources.opening import open_source, open_table
from tanager.sources.source import Fragment, Source

__all__ = ["Fragment", "Source", "open_source", "open_table"]
