"""Elementary functions of arrays for compiled loops, vectorised."""
