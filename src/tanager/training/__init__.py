"""Gradient training of tables: mini-batch Adam with any loss of the log-joint."""

from tanager.training.optimiser import Training

__all__ = ["Training"]
