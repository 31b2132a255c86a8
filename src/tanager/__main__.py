"""``python -m tanager`` is the command line."""

from tanager.cli import main

main()
