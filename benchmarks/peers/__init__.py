"""Other ways to judge programs, each in a process of its own, for `benchmarks.compare`."""
