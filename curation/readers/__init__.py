"""Readers: one module a format, each a function from files to problems."""
