"""Elementary functions of arrays, compiled and not."""
