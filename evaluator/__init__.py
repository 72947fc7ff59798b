"""MicroCoder-Evaluator: judges programs that language models wrote."""

__version__ = "0.1.0"
