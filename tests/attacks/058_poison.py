"""Poisons the interpreter that it shares with the next test: builtins, modules, codecs, hooks, signals, threads."""

import atexit
import builtins
import codecs
import gc
import json
import signal
import sys
import threading
import time

threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
os.write(1, b"poisoned\n")
builtins.print = builtins.len = builtins.open = builtins.__import__ = lambda *_, **__: None
json.dumps = json.loads = lambda *_: "[]"
sys.meta_path.clear()
sys.path_hooks.clear()
sys.modules["math"] = sys.modules["heapq"] = json
codecs.register(lambda name: codecs.lookup("ascii"))
sys.settrace(lambda *_: None)
sys.setrecursionlimit(60)
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.alarm(1)
gc.disable()
atexit.register(time.sleep, 0)
for thing in gc.get_objects():
    if type(thing) is dict and "__builtins__" in thing and thing.get("__name__") != "__main__":
        thing["prepare"] = thing["serve"] = thing["clean"] = None
