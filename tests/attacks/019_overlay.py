"""Changes system folders, so that the next program finds a module of its own there."""

import glob
import json as module

for place in ("/usr/lib", "/usr/local/lib", "/usr/bin", "/opt", "/etc"):
    attempt(place, lambda place=place: write(f"{place}/breach_module.py"))
library = os.path.dirname(module.__file__)
attempt("the library", lambda: write(f"{library}/breach_module.py"))
attempt("__pycache__", lambda: write(next(iter(glob.glob(f"{library}/__pycache__/*.pyc")), f"{library}/x.pyc")))
try:
    import breach_module

    print("imported:", breach_module)
except ImportError:
    print("imported: nothing")
