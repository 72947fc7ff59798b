"""The algorithm as pure functions: no trainer's framework, no clock, no state. `docs/trainer.md` has the formulas.

`losses` and `log_probabilities` need torch; the others need numpy at most.
"""
