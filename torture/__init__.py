"""The reliability campaign: attacks on Tanager that can be run again by one command.

    make torture            # a few minutes
    make torture HOURS=3    # as long as wanted
    python -m torture --parts models,inputs --minutes 2 --seed 7

Every part is seeded, counts what it tried, and keeps what failed with the seed that
brings it back. `make test` runs a short piece of each part.
"""
