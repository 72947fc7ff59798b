"""Builds a corpus of programming problems that is hard, clean and verified: `python -m curation.build RECIPE.yaml`."""
