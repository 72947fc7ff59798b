"""Reward functions for trainers: dataset columns as they are in, the number and the verdict out.

A module per trainer (`trl`, `verl`, `openrlhf`, `slime`, `verifiers`), which imports that trainer late or not at all;
`scoring` for everyone else. `columns` says which columns are understood.
"""
