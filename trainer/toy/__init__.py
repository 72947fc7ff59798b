"""A task that a small model learns on a CPU within minutes: chains of operations modulo 10, answered by a program."""
