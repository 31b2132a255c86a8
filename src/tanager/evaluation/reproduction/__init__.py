"""The papers' experiments, declared, with their printed numbers beside ours."""

from tanager.evaluation.reproduction.findings import Block, Findings
from tanager.evaluation.reproduction.papers import PAPERS, reproduce_paper
from tanager.evaluation.reproduction.workbench import Workbench

__all__ = ["PAPERS", "Block", "Findings", "Workbench", "reproduce_paper"]
