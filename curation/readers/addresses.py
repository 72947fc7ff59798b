"""Identities out of the addresses under which contest sites publish problems."""

import re

from curation.identities import slugify
from curation.problem import Identity

_PATTERNS = (
    (r"codeforces\.com/(?:contest|gym)/(\d+)/problem/(\w+)", "codeforces"),
    (r"codeforces\.com/problemset/problem/(\d+)/(\w+)", "codeforces"),
    (r"leetcode\.com/problems/([\w-]+)", "leetcode"),
    (r"atcoder\.jp/contests/[\w-]+/tasks/(\w+)", "atcoder"),
    (r"codechef\.com/(?:[\w-]+/)?problems/(\w+)", "codechef"),
    (r"hackerrank\.com/(?:contests/[\w-]+/)?challenges/([\w-]+)", "hackerrank"),
    (r"codewars\.com/kata/(\w+)", "codewars"),
    (r"geeksforgeeks\.org/problems/([\w-]+)", "geeksforgeeks"),
    (r"kattis\.com/problems/(\w+)", "kattis"),
    (r"hackerearth\.com/(?:[\w-]+/)*([\w-]+)/?$", "hackerearth"),
)
_SLUGS = frozenset({"leetcode", "hackerrank", "geeksforgeeks", "kattis", "hackerearth"})
"""Sites whose addresses end in a name; those of the others end in a number or code."""


def read_address(address: str, title: str = "") -> Identity:
    """Site, slug or number of the problem at this address; only the title where the address isn't known here."""
    for pattern, site in _PATTERNS:
        if match := re.search(pattern, address):
            name = "".join(match.groups())
            if site in _SLUGS:
                return Identity(site, slugify(name), "", title)
            return Identity(site, "", name.upper() if site == "codeforces" else name, title)
    return Identity(title=title)
