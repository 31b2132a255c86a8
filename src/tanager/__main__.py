"""``python -m tanager``: the command line."""

from tanager.cli import main

if __name__ == "__main__":
    main()
