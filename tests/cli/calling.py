"""The program, called as a function."""

from __future__ import annotations

from tanager.cli.app import run


def call(*arguments):
    return run([str(argument) for argument in arguments])
