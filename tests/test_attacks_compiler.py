"""Attacks at compile time: on the compiler of suites' checkers (C++), and by sources that Python has to compile.

Numbers are those of `attacks/catalogue.toml`. A compiler runs in the box as a program does: see `runner/tools.py`.
"""

import fcntl
import os
from pathlib import Path

import pytest

from evaluator.model import Limits, Program
from evaluator.sandbox.base import Call, CompileFailure
from evaluator.sandbox.memfds import SEALS
from tests.boxes_helper import Room
from tests.hosts_helper import eventually, find_runner, leave_to_make_attacks, list_children
from tests.requirements_helper import require

MEBIBYTE = 1 << 20
SMALL = Limits(cpu_seconds=4, wall_seconds=30, memory_bytes=512 * MEBIBYTE)


@pytest.fixture
def compiler(room: Room) -> Room:
    """A room whose boxes have a C++ compiler."""
    loaded = room.box.load(Program("int main() {}", language="cpp", name="check.cpp"), SMALL)
    missing = isinstance(loaded, CompileFailure) and "This box has no g++" in loaded.message
    require("compiler", "this kind of box has no g++" if missing else None)
    assert not isinstance(loaded, CompileFailure), loaded.message
    loaded.close()
    return room


def compile_cpp(room: Room, source: str, limits: Limits = SMALL, **files: str):
    """What the box says of a C++ program; `files` stand beside it, `__` for a dot."""
    beside = tuple((name.replace("__", "."), text) for name, text in files.items())
    return room.box.load(Program(source, language="cpp", name="check.cpp", files=beside), limits)


@pytest.mark.parametrize("way", [
    '#include "{path}"\nint main() {{}}',
    '#include <../../../../../..{path}>\nint main() {{}}',
    'asm(".incbin \\"{path}\\"");\nint main() {{}}',
    '#if __has_include("{path}")\n#error secret is there\n#endif\n#include "nothing.h"\nint main() {{}}',
])  # fmt: skip
def test_no_file_of_the_host_can_be_included(compiler: Room, tmp_path: Path, way: str):
    """87: neither by the preprocessor nor by the assembler; the compiler's text shows nothing of it."""
    leave_to_make_attacks(compiler)
    secret = tmp_path / "secret"
    secret.write_text("int the_secret_of_the_host = 42;\n")
    tmp_path.chmod(0o755)
    for path in (secret, "/etc/shadow", "/root/.ssh/id_rsa", "/proc/1/environ"):
        loaded = compile_cpp(compiler, way.format(path=path))
        assert isinstance(loaded, CompileFailure)
        assert "the_secret_of_the_host" not in loaded.message and "secret is there" not in loaded.message
        assert "root:" not in loaded.message


def test_a_name_is_no_option(compiler: Room):
    """87: a file whose name begins like an option of the compiler."""
    leave_to_make_attacks(compiler)
    for name in ("-fplugin=evil.cpp", "-Wl,-rpath.cpp", "-DX.cpp", "@list.cpp"):
        loaded = compile_cpp(
            compiler, "int other(); int main() { return other(); }", **{name: "int other() { return 0; }"}
        )
        assert not isinstance(loaded, CompileFailure), (name, loaded.message)
        assert compiler.box.run(loaded, Call(b"", arguments=()), SMALL).exit_code == 0
        loaded.close()


BOMBS = {
    "templates": "template <int n> struct F { static const int v = F<n - 1>::v + F<n - 2>::v; };\n"
        "template <int n> struct G { typename G<n + 1>::t t; };\nint main() { G<0> g; }",
    "an include of itself": '#include __FILE__\nint main() {}',
    "a huge array": "long long a[] = {[0 ... 99999999999] = 1};\nint main() { return a[1]; }",
    "macros that double": "\n".join(f"#define A{n + 1} A{n} A{n} A{n} A{n} A{n} A{n} A{n} A{n}" for n in range(40))
        + "\n#define A0 int x();\nA40\nint main() {}",
    "constant evaluation": "constexpr int f(int n) { int s = 0; for (;;) s ^= n++; return s; }\n"
        "constexpr int x = f(0);\nint main() {}",
}  # fmt: skip


@pytest.mark.parametrize("what", BOMBS)
def test_a_compiler_bomb_is_a_compile_error(compiler: Room, what: str):
    """88: within the limits of compiling; nothing of it lives on, and the same box goes on."""
    leave_to_make_attacks(compiler)
    box, runner = compiler.box, find_runner(compiler)
    loaded = compile_cpp(compiler, BOMBS[what], Limits(cpu_seconds=1.5, wall_seconds=30, memory_bytes=256 * MEBIBYTE))
    assert isinstance(loaded, CompileFailure) and loaded.message
    assert len(compiler.processes()) == 1 and list_children(runner) == []
    assert os.listdir(runner / "root/w") == []
    assert compiler.box is box and compiler.run("print(1)").stdout == b"1\n"


def test_a_device_is_no_endless_include(compiler: Room):
    """88: /dev/zero is an empty file in a box."""
    leave_to_make_attacks(compiler)
    loaded = compile_cpp(compiler, '#include "/dev/zero"\nint main() {}')
    assert not isinstance(loaded, CompileFailure), loaded.message
    loaded.close()
    loaded = compile_cpp(compiler, '#include "/dev/urandom"\nint main() {}', Limits(cpu_seconds=1, wall_seconds=20))
    assert isinstance(loaded, CompileFailure)


def test_a_flood_of_the_compiler_is_cut(compiler: Room):
    """89."""
    flood = "\n".join(f"#error {'x' * 200} {number}" for number in range(3_000)) + "\nint main() {}"
    loaded = compile_cpp(compiler, flood)
    assert isinstance(loaded, CompileFailure)
    assert 60_000 < len(loaded.message) <= 64 * 1024


def test_a_binary_is_sealed_before_it_is_kept(compiler: Room):
    """90: it can't change what is kept by opening itself, and its rights bring nothing."""
    source = """
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int, char** arguments) {
    int opened = open("/proc/self/exe", O_RDWR);
    printf("%d ", opened < 0);
    int again = open("/proc/self/exe", O_RDONLY);
    fchmod(again, 06777);
    printf("%d %d ", ftruncate(again, 0) != 0, write(again, "x", 1) != 1);
    printf("%d\\n", getuid() == geteuid() && geteuid() != 0);
}
"""
    loaded = compile_cpp(compiler, source)
    assert not isinstance(loaded, CompileFailure), loaded.message
    if compiler.kind != "bubblewrap-user" or os.geteuid() != 0:
        assert fcntl.fcntl(loaded.descriptor, fcntl.F_GET_SEALS) & SEALS == SEALS
        assert fcntl.fcntl(loaded.descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    for _ in range(2):
        assert compiler.box.run(loaded, Call(b"", arguments=()), SMALL).stdout == b"1 1 1 1\n"
    loaded.close()


PYTHON_BOMBS = {
    "a power that is folded": "x = " + "9 ** " * 9 + "9",
    "a tuple that is folded": "x = (1,) * 10 ** 9\n" * 3,
    "brackets": "(" * 100_000,
    "a sum of a million terms": "x = " + "+".join(["1"] * 1_000_000),
    "a formatted string": "x = f'" + '{f"' * 150 + "'",
}


@pytest.mark.parametrize("what", PYTHON_BOMBS)
def test_a_source_that_python_cant_compile_ends_by_its_limits(room: Room, what: str):
    """88, for Python."""
    leave_to_make_attacks(room)
    box, runner = room.box, find_runner(room)
    limits = Limits(cpu_seconds=1, wall_seconds=20, memory_bytes=256 * MEBIBYTE)
    loaded = box.load(Program(PYTHON_BOMBS[what]), limits)
    if isinstance(loaded, CompileFailure):
        assert 0 < len(loaded.message) <= 64 * 1024
    else:
        loaded.close()
    assert eventually(lambda: list_children(runner) == []) and room.box is box
