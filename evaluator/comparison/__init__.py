"""Comparison of an output with what was expected. Start at `ladder`; rules in words: `docs/comparison.md`."""
