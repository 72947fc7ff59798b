"""Programs for which a warm, forked interpreter could easily behave otherwise than `python program.py`."""

PROGRAMS = {
    # --- the end of a program
    "del at exit": "class A:\n    def __del__(self): print('gone')\na = A()\nprint('end')",
    "del order": "class A:\n    def __init__(s, n): s.n = n\n    def __del__(s): print('gone', s.n)\na, b, _c = A(1), A(2), A(3)",
    "del in a cycle": "class A:\n    def __del__(s): print('gone')\na = A(); a.me = a; del a; print('end')",
    "del after exit": "import sys\nclass A:\n    def __del__(s): print('gone')\na = A(); sys.exit(3)",
    "del in a list": "class A:\n    def __del__(s): print('gone')\nl = [A(), A()]\ndef f(): return l",
    "finalize": "import weakref\nclass A: pass\na = A(); weakref.finalize(a, print, 'final')\nprint('end')",
    "generator left open": "def g():\n    try: yield 1\n    finally: print('closed')\nx = g(); next(x); print('end')",
    "context left open": "from contextlib import contextmanager\n@contextmanager\ndef c():\n    yield\n    print('never')\nx = c(); x.__enter__()",
    "atexit order": "import atexit\nfor i in range(3): atexit.register(print, i)\nprint('end')",
    "atexit error": "import atexit\natexit.register(lambda: 1 / 0)\nprint('end')",
    "atexit exit": "import atexit, sys\natexit.register(sys.exit, 5)\nprint('end')",
    "atexit after exit code": "import atexit, sys\natexit.register(print, 'late')\nsys.exit(4)",
    "exit none": "raise SystemExit",
    "exit true": "import sys; sys.exit(True)",
    "exit text": "import sys; sys.exit('text')",
    "exit tuple": "import sys; sys.exit((1, 2))",
    "exit float": "import sys; sys.exit(2.0)",
    "exit large": "import sys; sys.exit(257)",
    "exit negative": "import sys; sys.exit(-1)",
    "exit huge": "import sys; sys.exit(10 ** 30)",
    "exit in a thread": "import sys, threading\nt = threading.Thread(target=sys.exit, args=(3,)); t.start(); t.join(); print('end')",
    "exit subclass": "class E(SystemExit): pass\nraise E(7)",
    "exit in finally": "import sys\ntry: sys.exit(2)\nfinally: print('finally')",
    "quit()": "print('a')\nquit()",
    "exit(2)": "exit(2)",
    "keyboard interrupt": "print('a')\nraise KeyboardInterrupt",
    "interrupted": "import os, signal\nprint('a', flush=True)\nos.kill(os.getpid(), signal.SIGINT)",
    "generator exit": "raise GeneratorExit('x')",
    "stop iteration": "next(iter([]))",
    "abort": "import os; print('lost?'); os.abort()",
    "os._exit": "import os; print('lost'); os._exit(6)",
    "sigterm handler": "import os, signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\nos.kill(os.getpid(), 15)",
    "sigpipe": "import os\nr, w = os.pipe(); os.close(r)\nos.write(w, b'x')",
    "sigpipe default": "import os, signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nr, w = os.pipe(); os.close(r)\nos.write(w, b'x')",
    "stdout closed": "import sys\nprint('a'); sys.stdout.close()",
    "print to closed": "import sys\nsys.stdout.close(); print('a')",
    "descriptor closed": "import os\nprint('a'); os.close(1)",
    "stdout none": "import sys\nprint('a'); sys.stdout = None; print('b')",
    "stdout replaced": "import sys, io\nprint('a'); sys.stdout = io.StringIO(); print('b')",
    "stdout wrapped": "import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'utf-8', line_buffering=True); print('a')",
    "stdout detached": "import sys\nb = sys.stdout.detach(); b.write(b'x\\n'); b.flush()",
    "stdout by number": "import sys\nsys.stdout = open(1, 'w'); print('a')",
    "buffered writer": "import sys, os, io\nout = io.BytesIO(); sys.stdout = io.TextIOWrapper(out)\nprint('hi'); sys.stdout.flush()\n"
        "os.write(1, out.getvalue())",
    "atexit writes buffer": "import atexit, io, sys\nbuffer = io.BytesIO()\nsys.stdout.write = lambda s: buffer.write(s.encode())\n"
        "atexit.register(lambda: sys.__stdout__.buffer.write(buffer.getvalue()))\nprint('x')",
    "fastio": "import os, sys\nfrom io import BytesIO, IOBase\nBUFSIZE = 8192\nclass FastIO(IOBase):\n    newlines = 0\n"
        "    def __init__(self, file):\n        self._fd = file.fileno()\n        self.buffer = BytesIO()\n"
        "        self.writable = 'x' in file.mode or 'r' not in file.mode\n"
        "        self.write = self.buffer.write if self.writable else None\n"
        "    def read(self):\n        while True:\n            b = os.read(self._fd, max(os.fstat(self._fd).st_size, BUFSIZE))\n"
        "            if not b: break\n            ptr = self.buffer.tell(); self.buffer.seek(0, 2), self.buffer.write(b), self.buffer.seek(ptr)\n"
        "        self.newlines = 0\n        return self.buffer.read()\n"
        "    def readline(self):\n        while self.newlines == 0:\n            b = os.read(self._fd, max(os.fstat(self._fd).st_size, BUFSIZE))\n"
        "            self.newlines = b.count(b'\\n') + (not b)\n            ptr = self.buffer.tell()\n"
        "            self.buffer.seek(0, 2), self.buffer.write(b), self.buffer.seek(ptr)\n        self.newlines -= 1\n"
        "        return self.buffer.readline()\n"
        "    def flush(self):\n        if self.writable:\n            os.write(self._fd, self.buffer.getvalue())\n"
        "            self.buffer.truncate(0), self.buffer.seek(0)\nclass IOWrapper(IOBase):\n    def __init__(self, file):\n"
        "        self.buffer = FastIO(file)\n        self.flush = self.buffer.flush\n        self.writable = self.buffer.writable\n"
        "        self.write = lambda s: self.buffer.write(s.encode('ascii'))\n"
        "        self.read = lambda: self.buffer.read().decode('ascii')\n"
        "        self.readline = lambda: self.buffer.readline().decode('ascii')\n"
        "sys.stdin, sys.stdout = IOWrapper(sys.stdin), IOWrapper(sys.stdout)\n"
        "input = lambda: sys.stdin.readline().rstrip('\\r\\n')\nprint(input()[::-1])\nprint(sys.stdin.read())",
    # --- errors and what is said of them
    "traceback": "def f(n):\n    if n: return f(n - 1)\n    return {}['k']\nf(3)",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('x') from e",
    "context": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    [][1]",
    "group": "raise ExceptionGroup('g', [ValueError(1), TypeError('t')])",
    "notes": "e = ValueError('x'); e.add_note('a note'); raise e",
    "own exception": "class MyError(Exception):\n    def __str__(self): return 'mine'\nraise MyError(1)",
    "broken str": "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
    "syntax error at run time": "exec('x = = 1')",
    "eval error": "eval('1 +')",
    "name hint": "import math\nmath.squrt(2)",
    "name hint 2": "lenght = 3\nprint(length)",
    "recursion error": "def f(n): return f(n + 1)\nf(0)",
    "recursion depth": "import sys\nd = 0\ndef f():\n    global d\n    d += 1\n    f()\ntry: f()\nexcept RecursionError: print(d)",
    "recursion depth nested": "def f(n):\n    try: return f(n + 1)\n    except RecursionError: return n\nprint(f(0))",
    "repr recursion": "l = []\nfor _ in range(2000): l = [l]\nrepr(l)",
    "excepthook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__, a[1])\n1 / 0",
    "excepthook fails": "import sys\ndef hook(*a): raise ValueError('in hook')\nsys.excepthook = hook\n1 / 0",
    "threading excepthook": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T'); t.start(); t.join(); print('end')",
    "unraisable": "class A:\n    def __del__(self): raise ValueError('in del')\nA()\nprint('end')",
    "warnings": "import warnings\nwarnings.warn('careful')\nprint('end')",
    "deprecation": "import warnings\nwarnings.warn('old', DeprecationWarning)\nprint('end')",
    "syntax warning": "x = 1\nif x is 1: print('y')\n'\\d'",
    "warning as error": "import warnings\nwarnings.simplefilter('error')\nwarnings.warn('bad')",
    "traceback module": "import traceback\ntry: 1 / 0\nexcept ZeroDivisionError: traceback.print_exc()",
    "format stack": "import traceback\ndef f(): return len(traceback.extract_stack())\nprint(f())",
    "frames": "import sys\ndef f():\n    x, n = sys._getframe(), 0\n    while x: x, n = x.f_back, n + 1\n    return n\nprint(f())",
    "assertion": "assert 1 == 2, 'no'",
    "memory error": "raise MemoryError",
    "unicode error": "'\\udc80'.encode()",
    "print surrogate": "print('\\ud800')",
    "logging": "import logging\nlogging.warning('w'); logging.info('i'); print('end')",
    "stderr": "import sys\nprint('to stderr', file=sys.stderr); print('to stdout')",
    # --- what the module is
    "main": "import __main__, sys\nx = 1\nprint(__main__.x, sys.modules['__main__'] is __main__, __name__, __doc__, __package__)",
    "doc": "'The docstring.'\nprint(__doc__)",
    "globals": "print(sorted(k for k in globals() if k != '__cached__'))",
    "builtins": "print(type(__builtins__), __builtins__.len([1]), __spec__, type(__loader__).__name__)",
    "annotations": "x: int = 3\ny: 'str'\nprint(__annotations__)",
    "file": "import os\nprint(os.path.basename(__file__), os.path.isabs(__file__), os.path.exists(__file__))",
    "quine": "print(open(__file__).read() == open('program.py').read())",
    "argv": "import sys\nprint(sys.argv, len(sys.orig_argv) > 0)",
    "path": "import sys\nprint([p for p in sys.path if 'python' not in p and 'packages' not in p], '' in sys.path)",
    # Of the flags, one differs: the runner lifts the limit of digits after it has started, the command when it starts.
    "flags": "import sys\nkept = [n for n in dir(sys.flags) if n[0] != '_' and n not in ('count', 'index', 'int_max_str_digits')]\n"
    "print({n: getattr(sys.flags, n) for n in kept}, sys.getrecursionlimit(), sys.getswitchinterval(), sys.dont_write_bytecode)",
    "limit of digits": "import sys\nprint(sys.get_int_max_str_digits())",
    "pickle": "import pickle\nclass A:\n    x = 1\n    def __eq__(s, o): return s.__dict__ == o.__dict__\na = A(); a.y = 2\n"
        "print(pickle.loads(pickle.dumps(a)) == a, pickle.dumps(A)[:30])",
    "copy": "import copy\nclass A: pass\na = A(); a.b = [a]\nprint(copy.deepcopy(a).b[0].__class__.__qualname__, A.__module__)",
    "dataclass": "from dataclasses import dataclass, field\n@dataclass(order=True)\nclass P:\n    x: int\n    y: list = field(default_factory=list)\n"
        "print(P(1) < P(2), P(3), P.__module__)",
    "type hints": "import typing\nclass N: pass\ndef f(x: 'N', y: 'list[int]' = None) -> 'N': ...\nprint(typing.get_type_hints(f))",
    "namedtuple": "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    y: int = 2\nprint(P(1), P.__module__)",
    "enum": "from enum import Enum, auto\nclass C(Enum):\n    A = auto()\n    B = auto()\nprint(list(C), C['A'])",
    "future": "from __future__ import annotations\nx: undefined = 1\nprint(__annotations__)",
    "compile inherits": "from __future__ import annotations\nexec('y: undefined2 = 1')\nprint(__annotations__['y'])",
    "getsource": "import inspect\ndef f(): return 1\nprint(inspect.getsource(f))",
    "main guard": "def main(): print('main')\nif __name__ == '__main__': main()",
    "runpy": "import runpy, sys\nprint(sys.modules['__main__'].__name__)",
    "import this file": "import sys\ntry:\n    import program\nexcept ImportError as e: print(e)",
    "locals": "print(locals() is globals())",
    "modules": "import sys\nprint([m for m in sys.modules if m.startswith(('microcoder', 'evaluator'))])",
    "class repr": "class A: pass\nprint(A, repr(A())[:18], lambda: 0) if 0 else print(A)",
    "doctest": "'''\n>>> 1 + 1\n3\n'''\nimport doctest\nprint(doctest.testmod().failed)",
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(1, 1)\n"
        "unittest.main(argv=['x'], exit=False, verbosity=0)\nprint('end')",
    "custom displayhook": "import sys\nprint(sys.displayhook is sys.__displayhook__, sys.excepthook is sys.__excepthook__)",
    "interactive": "import sys\nprint(hasattr(sys, 'ps1'), sys.stdin.isatty(), sys.stdout.isatty())",
    # --- streams
    "stream facts": "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr):\n"
        "    print(s.name, s.mode, s.encoding, s.errors, s.newlines, s.line_buffering, s.write_through, s.fileno(), s.seekable())",
    "stream reprs": "import sys\nprint(sys.stdin, sys.stdout, sys.stderr)\nprint(repr(sys.stdin.buffer), repr(sys.stdin.buffer.raw)[:40])",
    "same streams": "import sys\nprint(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__)",
    "universal newlines": "import sys\nprint(sys.stdin.buffer.tell(), [input(), input()])",
    "carriage returns": "print('a\\rb\\r\\nc')",
    "tell": "import sys\nsys.stdin.readline(); print(sys.stdin.buffer.tell() > 0)",
    "input prompt": "x = input('prompt: ')\nprint(x)",
    "input eof": "input(); input(); input(); input(); input()",
    "read twice": "import sys\nprint(repr(sys.stdin.read()), repr(sys.stdin.read()))",
    "iterate and read": "import sys\nfor line in sys.stdin:\n    print(line.strip(), repr(sys.stdin.read())); break",
    "os.read after input": "import os\nprint(input(), os.read(0, 100))",
    "child reads the rest": "import subprocess, sys\nprint(sys.stdin.readline(), flush=True); subprocess.run(['cat'])",
    "print options": "print(1, 2, sep='-', end='!'); print(flush=True)",
    "write returns": "import sys\nprint(sys.stdout.write('ab\\n'), sys.stdout.buffer.write(b'') )",
    "reconfigure": "import sys\nsys.stdout.reconfigure(encoding='latin-1'); print('\\xe9')",
    "buffers mixed": "import sys\nprint('a'); sys.stdout.buffer.write(b'b\\n'); print('c')",
    "fork twice prints": "import os\nprint('a')\npid = os.fork()\nif pid: os.wait()\nprint('b')",
    "multiprocessing": "import multiprocessing as m\nm.set_start_method('fork')\ndef f(x): print('child', x)\n"
        "p = m.Process(target=f, args=(1,)); p.start(); p.join(); print(p.exitcode)",
    "spawn": "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import sys; print(sys.flags.safe_path, __name__)'],\n"
        "    capture_output=True, text=True).stdout)",
    # --- the rest
    "threads": "import threading, time\ndef f(n): time.sleep(n / 50); print(n)\nfor n in range(3): threading.Thread(target=f, args=(n,)).start()",
    "many threads": "import threading, time\nts = [threading.Thread(target=time.sleep, args=(.1,)) for _ in range(30)]\n"
        "for t in ts: t.start()\nfor t in ts: t.join()\nprint('end')",
    "fork in a thread": "import os, threading\ndef f():\n    pid = os.fork()\n    if pid: os.waitpid(pid, 0)\n"
        "    print(bool(pid), threading.active_count(), threading.main_thread() is threading.current_thread(), flush=True)\n"
        "    if not pid: os._exit(0)\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "t = threading.Thread(target=f); t.start(); t.join(); print(threading.active_count())",
    "recursion limit": "import sys\nprint(sys.getrecursionlimit()); sys.setrecursionlimit(5000); print(sys.getrecursionlimit())\n"
        "try: sys.setrecursionlimit(0)\nexcept ValueError as e: print(e)",
    "main thread": "import threading\nprint(threading.current_thread(), threading.main_thread() is threading.current_thread(), threading.active_count())"
        " if 0 else print(threading.current_thread().name, threading.active_count())",
    "stack size": "import sys, threading\nsys.setrecursionlimit(10**6); threading.stack_size(2**27)\n"
        "def f(n): return 1 + f(n - 1) if n else 0\nthreading.Thread(target=lambda: print(f(20000))).start()",
    "asyncio": "import asyncio\nasync def f():\n    await asyncio.sleep(0); print('in')\nasyncio.run(f())",
    "random seed": "import random\nrandom.seed(5); print(random.random(), random.randint(1, 9), random.sample(range(50), 3))",
    "set order": "print({'a', 'b', 'c', 'd'}, hash('abc'), hash((1, 'x')))",
    "gc": "import gc\nprint(gc.isenabled(), gc.get_threshold())",
    "gc collect": "import gc\nclass A: pass\na = A(); a.a = a; del a\nprint(gc.collect() >= 1)",
    "interning": "a = 'hello world'; b = 'hello world'; print(a is b, 256 is 256)",
    "float": "print(0.1 + 0.2, 1e16, float('nan'), -0.0, 1 / 3)",
    "decimal": "from decimal import *\ngetcontext().prec = 50; print(Decimal(1) / 7)",
    "decimal default": "from decimal import *\nprint(getcontext())",
    "big numbers": "print(2 ** 5000)",
    "too many digits": "print(len(str(10 ** 5000)))",
    "locale": "import locale\nprint(locale.getlocale(), locale.getpreferredencoding(False))",
    "time zone": "import time\nprint(time.strftime('%Z', time.localtime(0)), time.timezone)",
    "environment": "import os\nprint(sorted(k for k in os.environ if k not in ('LC_CTYPE', 'PWD')))",
    "cwd": "import os\nprint(os.getcwd(), os.listdir('.') in ([], ['program.py']))",
    "numpy": "import numpy as np\nprint(np.arange(5) ** 2, np.random.default_rng(1).integers(9))",
    "numpy error": "import numpy as np\nnp.zeros(2)[5]",
    "limits": "import resource\nprint(resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_NOFILE))",
    "signal handlers": "import signal\nprint(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGTERM))",
    "signal mask": "import signal\nprint(signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    "umask": "import os\nprint(oct(os.umask(0)))",
    "process": "import os\nprint(os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid(), os.getpriority(os.PRIO_PROCESS, 0))",
    "settrace": "import sys\nprint(sys.gettrace(), sys.getprofile())",
    "unicode": "print('日本語', 'é', '\\U0001f600')",
    "identifiers": "π = 3\nprint(π)",
    "walrus and match": "match [1, 2]:\n    case [a, b] if (c := a + b): print(c)",
    "encoding cookie": "# -*- coding: utf-8 -*-\nprint('ä')",
    "tabs": "if True:\n\tprint('tab')",
    "windows lines": "print(1)\r\nprint('''a\r\nb''')\r\n",
    "form feed": "\f\nprint(1)",
    "bom": "\ufeffprint('bom')",
    "no newline at end": "print(1)#",
    "empty": "",
}  # fmt: skip
