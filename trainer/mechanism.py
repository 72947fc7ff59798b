"""What the truncation mask does, on the toy with a limit that truncates: `python -m trainer.mechanism`.

The same seeds are trained with every rate of masking, so that runs pair up, and tested at the limit of the training and
at twice that. It shows the mechanism, not which algorithm is better: "no difference" is an answer.
"""

import argparse
import sys

from trainer.ablate import Variant, add_options, run_variants


def main(arguments: list[str] | None = None) -> int:
    """Run it; 0, or 1 when there is no service."""
    parser = argparse.ArgumentParser(prog="python -m trainer.mechanism", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rates", type=float, nargs="+", default=[0.0, 0.2, 1.0], help="of masking: 0 0.2 1")
    parser.add_argument("--limit", type=int, default=44, help="tokens of a completion: 44")
    parser.add_argument("--window", type=int, default=8, help="of the repeat test, in tokens: 8")
    add_options(parser, seeds=6)
    options = parser.parse_args(arguments)
    common = {"max_completion_length": options.limit, "truncation_window": options.window}
    variants = [Variant(f"{rate:g}", {**common, "truncation_rate": rate}) for rate in options.rates]
    return run_variants(variants, options, limits=(options.limit, 2 * options.limit), x="rate ρ")


if __name__ == "__main__":
    sys.exit(main())
