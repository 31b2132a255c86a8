"""Write splice-site-like DNA windows as a folder of Parquet files, streamed.

    python -m benchmarks.splice windows --rows 1000000

140 positions, one window in a hundred a true site, any number of rows: what
Petitjean et al. (2018), section 6.5, did with 50 million. Row i is the same in
a folder of any size. See `tanager_papers.generators.splice`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tanager_papers.generators import write_splice


def main() -> None:
    """Read the arguments and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--positives", type=float, default=0.01, help="share of true sites")
    parser.add_argument("--rows-per-file", type=int, default=1 << 20)
    options = parser.parse_args()
    start = time.perf_counter()
    paths = write_splice(
        options.folder, options.rows, options.seed, options.positives, options.rows_per_file
    )
    seconds = time.perf_counter() - start
    size = sum(path.stat().st_size for path in paths) / 1e6
    print(f"{options.rows:,} rows in {len(paths)} files, {size:,.0f} MB, {seconds:.1f} s")


if __name__ == "__main__":
    main()
