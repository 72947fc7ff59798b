"""The system call filter, run by a small interpreter for both architectures, whatever this machine is."""

import errno
import os
import platform
import struct

import pytest

from evaluator.sandbox.runner.confine import ALLOW, ARCHITECTURES, DENIED, ERRNO, MMAP, SELF_ONLY, VALUES, build_filter

PERMITTED, ABSENT = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS
MACHINES = pytest.mark.parametrize("machine", sorted(ARCHITECTURES))
CLONE, IOCTL = {"x86_64": 56, "aarch64": 220}, {"x86_64": 16, "aarch64": 29}
# What every program needs, by the kernel's tables.
NEEDED = {
    "x86_64": {
        "read": 0, "write": 1, "close": 3, "fstat": 5, "mmap": 9, "brk": 12, "rt_sigaction": 13, "pipe": 22, "dup": 32,
        "nanosleep": 35, "getpid": 39, "socketpair": 53, "fork": 57, "execve": 59, "exit": 60, "wait4": 61, "kill": 62,
        "getrlimit": 97, "getuid": 102, "epoll_create": 213, "futex": 202, "openat": 257, "pipe2": 293,
        "exit_group": 231, "eventfd2": 290, "getrandom": 318, "statx": 332, "pidfd_open": 434, "sched_yield": 24,
        "setrlimit": 160, "sendmsg": 46, "recvmsg": 47, "sched_getaffinity": 204, "prctl": 157, "arch_prctl": 158,
    },
    "aarch64": {
        "read": 63, "write": 64, "close": 57, "fstat": 80, "mmap": 222, "brk": 214, "rt_sigaction": 134, "dup": 23,
        "nanosleep": 101, "getpid": 172, "socketpair": 199, "execve": 221, "exit": 93, "wait4": 260, "kill": 129,
        "getuid": 174, "epoll_create1": 20, "futex": 98, "openat": 56, "pipe2": 59, "exit_group": 94, "eventfd2": 19,
        "getrandom": 278, "statx": 291, "pidfd_open": 434, "sched_yield": 124, "setrlimit": 164, "sendmsg": 211,
        "recvmsg": 212, "sched_getaffinity": 123, "prctl": 167,
    },
}  # fmt: skip


def interpret(code: bytes, number: int, audit: int, arguments: tuple[int, ...] = ()) -> int:
    """Run a BPF program on one system call, as the kernel would."""
    data = struct.pack("<iIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    instructions = [struct.unpack("HBBI", code[i : i + 8]) for i in range(0, len(code), 8)]
    accumulator, position = 0, 0
    while True:
        operation, true, false, operand = instructions[position]
        position += 1
        match operation:
            case 0x20:
                accumulator = struct.unpack_from("<I", data, operand)[0]
            case 0x15:
                position += true if accumulator == operand else false
            case 0x45:
                position += true if accumulator & operand else false
            case 0x06:
                return operand
            case _:
                raise AssertionError(f"an operation that isn't used here: {operation:#x}")


def call(machine: str, number: int, *arguments: int) -> int:
    """What the filter says of a call on `machine`."""
    return interpret(build_filter(machine), number, ARCHITECTURES[machine][1], arguments)


@MACHINES
def test_every_denied_call_is_answered_with_eperm(machine: str):
    column = ARCHITECTURES[machine][0]
    for name, numbers in DENIED.items():
        if numbers[column] is not None:
            assert call(machine, numbers[column]) == PERMITTED, name


@MACHINES
def test_what_programs_need_passes(machine: str):
    for name, number in NEEDED[machine].items():
        assert call(machine, number) == ALLOW, name


@MACHINES
def test_all_else_passes(machine: str):
    column = ARCHITECTURES[machine][0]
    special = {numbers[column] for numbers in (*DENIED.values(), *SELF_ONLY.values())} | {435}
    for number in set(range(500)) - special:
        assert call(machine, number) == ALLOW, number


@MACHINES
def test_calls_on_a_process_reach_oneself_only(machine: str):
    column = ARCHITECTURES[machine][0]
    for name, numbers in SELF_ONLY.items():
        index = numbers[2]
        assert call(machine, numbers[column], *[1] * index, 0) == ALLOW, name
        for target in (1, 2, 4000, 2**32 - 1):
            assert call(machine, numbers[column], *[0] * index, target) == PERMITTED, name


@MACHINES
def test_some_values_of_an_argument_are_denied_and_the_others_pass(machine: str):
    column = ARCHITECTURES[machine][0]
    for name, (*numbers, index, values) in VALUES.items():
        for value in {*range(1, 64), 1025, 1027, *values}:  # 0 stands for oneself elsewhere, and is never denied here
            expected = PERMITTED if value in values else ALLOW
            assert call(machine, numbers[column], *[0] * index, value) == expected, (name, value)
        assert call(machine, numbers[column]) == (PERMITTED if 0 in values else ALLOW)


@MACHINES
def test_no_memory_is_had_that_nobody_is_charged_for(machine: str):
    mmap = MMAP[ARCHITECTURES[machine][0]]
    private, shared, anonymous = 0x02, 0x01, 0x20
    for flags, expected in (
        (private, ALLOW), (shared, ALLOW), (private | anonymous, ALLOW), (private | anonymous | 0x4000, ALLOW),
        (shared | anonymous, PERMITTED), (private | anonymous | 0x40000, PERMITTED), (shared | 0x40000, PERMITTED),
    ):  # fmt: skip
        assert call(machine, mmap, 0, 4096, 3, flags) == expected, hex(flags)


@MACHINES
def test_the_core_limit_is_read_and_never_set(machine: str):
    prlimit = SELF_ONLY["prlimit64"][ARCHITECTURES[machine][0]]
    core, files = 4, 7
    assert call(machine, prlimit, 0, core, 0, 0x7FFF00001000) == ALLOW
    for pointer in (0x1000, 1 << 32, 0x7FFF00001000):
        assert call(machine, prlimit, 0, core, pointer) == PERMITTED
        assert call(machine, prlimit, 0, files, pointer) == ALLOW
        assert call(machine, prlimit, 1, files, pointer) == PERMITTED


@MACHINES
def test_no_new_namespace_by_clone(machine: str):
    clone = CLONE[machine]
    assert call(machine, clone, 0x11) == ALLOW  # fork: SIGCHLD
    assert call(machine, clone, 0x3D0F00) == ALLOW  # a thread, as libc makes it
    for flag in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert call(machine, clone, 0x11 | flag) == PERMITTED, hex(flag)


@MACHINES
def test_clone3_is_absent_so_that_libc_falls_back(machine: str):
    assert call(machine, 435) == ABSENT


@MACHINES
def test_nobody_types_into_a_terminal(machine: str):
    ioctl = IOCTL[machine]
    assert call(machine, ioctl, 0, 0x5401) == ALLOW  # TCGETS: isatty
    assert call(machine, ioctl, 0, 0x5412) == PERMITTED  # TIOCSTI
    assert call(machine, ioctl, 0, 0x541C) == PERMITTED  # TIOCLINUX
    assert call(machine, ioctl, 0, 0x5412 | 1 << 32) == PERMITTED  # the kernel looks at 32 bits


def test_the_x32_range_is_denied():
    for number in (0, 41, 59, 101, 500):
        assert call("x86_64", 0x40000000 | number) == PERMITTED


@MACHINES
def test_another_architectures_calls_are_denied(machine: str):
    code = build_filter(machine)
    for audit in (0x40000003, 0x40000028, 0, *(other[1] for name, other in ARCHITECTURES.items() if name != machine)):
        assert interpret(code, 0, audit) == PERMITTED


@MACHINES
def test_the_filter_is_small_and_its_jumps_stay_inside(machine: str):
    code = build_filter(machine)
    assert len(code) // 8 < 4096
    for position in range(0, len(code), 8):
        operation, true, false, _ = struct.unpack("HBBI", code[position : position + 8])
        if operation in (0x15, 0x45):
            assert position // 8 + 1 + max(true, false) < len(code) // 8


@MACHINES
def test_no_number_stands_twice(machine: str):
    column = ARCHITECTURES[machine][0]
    numbers = [entry[column] for entry in (*DENIED.values(), *SELF_ONLY.values()) if entry[column] is not None]
    assert len(numbers) == len(set(numbers))


@pytest.mark.skipif(platform.machine() not in ARCHITECTURES, reason="the filter isn't made for this machine")
def test_the_kernel_takes_the_filter():
    child = os.fork()
    if child == 0:
        from evaluator.sandbox.runner.confine import install_filter

        try:
            install_filter()
            try:
                os.memfd_create("x")
            except PermissionError:
                os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
