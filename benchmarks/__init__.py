"""Programs that measure and print a table; run from a checkout, as `python -m benchmarks.NAME`."""
