"""Synthetic tables by their published definitions, for experiments whose rows nobody ships."""

from tanager_papers.generators.binding import BindingSites, binding_sites, site_pairs
from tanager_papers.generators.classic import (
    corral,
    led,
    logistic,
    mofn,
    three_bits,
    waveform,
)
from tanager_papers.generators.splice import splice_batches, splice_table, write_splice

__all__ = [
    "BindingSites",
    "binding_sites",
    "corral",
    "led",
    "logistic",
    "mofn",
    "site_pairs",
    "splice_batches",
    "splice_table",
    "three_bits",
    "waveform",
    "write_splice",
]
