"""The program `tanager`."""

from tanager.cli.app import app, main

__all__ = ["app", "main"]
