"""What the truncation mask does, on the toy with a limit that truncates: `python -m trainer.mechanism`.

The same seeds are trained with every rate of masking, so that runs pair up, and tested at the limit of the training and
at twice that. It shows the mechanism, not which algorithm is better: "no difference" is an answer.
"""

import argparse
import sys

from trainer.ablate import add_options, run_comparisons
from trainer.aspects import SHORT, Variant


def main(arguments: list[str] | None = None) -> int:
    """Run it; 0, or 1 when there is no service."""
    parser = argparse.ArgumentParser(prog="python -m trainer.mechanism", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rates", type=float, nargs="+", default=[0.0, 0.2, 1.0], help="of masking: 0 0.2 1")
    parser.add_argument("--limit", type=int, default=SHORT["max_completion_length"], help="tokens of a completion: 44")
    parser.add_argument("--window", type=int, default=SHORT["truncation_window"], help="of the repeat test: 8 tokens")
    add_options(parser, seeds=6, generations=40)
    options = parser.parse_args(arguments)
    common = {"max_completion_length": options.limit, "truncation_window": options.window}
    variants = [Variant(f"ρ = {rate:g}", {**common, "truncation_rate": rate}) for rate in options.rates]
    return run_comparisons({"mechanism": variants}, options, limits=(options.limit, 2 * options.limit))


if __name__ == "__main__":
    sys.exit(main())
