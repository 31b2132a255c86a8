"""Runnable comparisons of time, memory and score."""
