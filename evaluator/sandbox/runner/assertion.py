"""Assertion tests in two processes: the test code in one, the program in the other.

The tester executes the test code. Names that the program defines are found through a conversation (`exchange.py`): a
call goes over with plain arguments and comes back as plain data, so whatever the program returns is data before an
assertion looks at it; what isn't data stays in the program and is used through a handle. The program's process never
holds the test code, and has no descriptor of the tester's report; the tester's memory is closed to it (not dumpable,
and another uid where the box has root).
"""

import traceback
from typing import NoReturn

from . import collection, exchange, launch, names, servant, specials, streams, tester, values

MAX_REPORT = 20_000
TEST = "<test>"
HUNG_UP = 3
"""The tester's exit status where the program had ended, or said what it can't mean."""


def run_tester(conversation: int, test: int, report: int, entry_point: str | None) -> NoReturn:
    """Body of the tester. It writes `passed` only after the test code, and every test in it, has run to its end."""
    source = streams.read_all(test)
    line = exchange.Line(conversation)
    asking: tester.Tester | None = None
    try:
        code = compile(source, TEST, "exec", dont_inherit=True)
        if b"get_type_hints" in source:
            specials.guard_type_hints()
        asking = tester.Tester(line, entry_point)
        scope = names.Names(asking, source)
        tests = collection.Collection(scope, source)
        execute(code, scope, tests)
        line.check()
        outcome, text = "passed", ""
    except BaseException as error:
        outcome, text = classify(error), explain(error, source)
        finish(asking, error)
    if line.broken is not None:  # also where the test code has caught what says so
        outcome, text = "ended", text or line.broken
    streams.write_all(report, values.dump([outcome, text]))
    launch._exit(HUNG_UP if line.broken is not None else 0)


def execute(code: object, scope: names.Names, tests: collection.Collection) -> None:
    """The test code, then the tests that it defines and doesn't call."""
    try:
        exec(code, scope)  # type: ignore[arg-type]
    except SystemExit as error:  # `sys.exit(pytest.main())` is an end, `sys.exit()` before the tests isn't
        if not tests.ledger.has_main or error.code not in (None, 0) or getattr(error, "__from_program__", False):
            raise
    tests.finish()


def finish(asking: tester.Tester | None, error: BaseException) -> None:
    """After a failure. The program may have ended, or end now; that changes nothing about the report."""
    try:
        if asking is not None:
            asking.tell(error)
    except BaseException as second:
        second.__traceback__ = None


def classify(error: BaseException) -> str:
    """What an exception says about the program. An AssertionError of the program's own is an error as any other."""
    from_program = getattr(error, "__from_program__", False)
    if isinstance(error, exchange.ProgramEnded) or (isinstance(error, SystemExit) and from_program):
        return "ended"
    return "assertion" if isinstance(error, AssertionError) and not from_program else "error"


def explain(error: BaseException, source: bytes) -> str:
    """The failing line of the test and the error, without our frames."""
    trace = error.__traceback__
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == TEST:
            line = trace.tb_lineno
        trace = trace.tb_next
    lines = source.decode("utf-8", "replace").splitlines()
    where = f"line {line} of the test: {lines[line - 1].strip()[:500]}\n" if line and line <= len(lines) else ""
    try:
        text = "".join(traceback.format_exception_only(type(error), error))
    except BaseException:  # the program isn't there any more to say how its object looks
        text = f"{type(error).__name__}\n"
    return (where + text)[:MAX_REPORT]


def run_program(artifact: int, prelude: bool, conversation: int) -> NoReturn:
    """Body of the program's process: load it, then answer."""
    line = exchange.Line(conversation)
    line.wait()  # from here on the tester is closed to this process, even where both have one uid
    module, code, _, _ = launch.load_program(artifact, "program", prelude, every_name=True)
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        launch.finish(launch.report(error) or 1)
    servant.Servant(line, module).serve()
    launch.finish(0)
