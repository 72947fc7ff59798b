"""The thin client of the MicroCoder evaluator."""

__version__ = "0.1.0"
