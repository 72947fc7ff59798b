"""LeetCodeDataset, versions 0.2.0 and 0.3.1: problems by slug, a `check(candidate)` of assertions, a solution.

Format: https://github.com/newfacade/LeetCodeDataset (MIT; the texts are LeetCode's). The assertions call with arguments
by name; they become functional tests with arguments in the order of the solution's signature. Lists that become nodes
(`tree_node([…])`, `is_same_list(…, list_node([…]))`) are given as lists, which the runner makes nodes of. A check that
isn't made of such assertions stays what it is: one assertion test with the row's own helpers.

LeetCode numbers its problems twice: 0.2.0 (like LiveCodeBench) has the site's inner numbers, 0.3.1 those that people
see. The same number means different problems in the two, so an inner number is an id here and the other isn't.
"""

import ast
import json
from typing import Any

from curation.problem import Identity, Problem, make_suite
from curation.readers.origins import Origin, Unreadable, clean_text, demand
from evaluator.errors import InvalidSuite
from evaluator.model import Suite, TestCase, TestKind

_NODES = ("tree_node", "list_node")
_SAME = ("is_same_tree", "is_same_list")


def read(row: Any, number: int, origin: Origin) -> Problem:
    """A row.

    Raises:
        Unreadable: it is none, or its tests can't be judged.
    """
    row = demand(row, "task_id", "entry_point", "test", "completion")
    meta = row.get("meta") if isinstance(row.get("meta"), dict) else {}
    assert isinstance(meta, dict)
    slug, completion = str(row["task_id"]), clean_text(row["completion"])
    method = str(row["entry_point"]).rpartition(".")[2]
    try:
        suite, entry_point = _read_suite(row, method)
    except InvalidSuite as error:
        raise Unreadable("no tests that can be judged", str(error)) from None
    statement = row.get("problem_description") or meta.get("question_title") or row.get("query")
    return Problem(
        id=f"{origin.name}/{slug}",
        statement=clean_text(statement),
        suite=suite,
        source=origin.name,
        identity=Identity("leetcode", slug, str(meta.get("question_id") or ""), slug.replace("-", " ")),
        entry_point=entry_point,
        starter=clean_text(row.get("starter_code") or meta.get("lang_code")),
        references=origin.pick([completion]),
        licence=origin.licence,
        attribution=origin.attribution,
        date=row.get("estimated_date"),
        difficulty=clean_text(row.get("difficulty") or meta.get("difficulty")),
        tags=tuple(str(tag).lower().replace(" ", "-") for tag in row.get("tags") or []),
    )


def _read_suite(row: dict[str, Any], method: str) -> tuple[Suite, str]:
    """The tests, and what they call."""
    names = _read_parameters(str(row["completion"]), method)
    checks = _read_checks(str(row["test"]), names)
    if checks is not None:
        return make_suite(checks), f"Solution.{method}"
    code = f"{row.get('prompt') or ''}\n{row['test']}\n\ncheck({row['entry_point']})\n"
    return make_suite([TestCase(TestKind.ASSERTION, clean_text(code))]), str(row["entry_point"])


def _read_parameters(source: str, method: str) -> list[str] | None:
    """The names of a method's parameters, without self."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == "Solution":
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == method:
                    return [argument.arg for argument in item.args.args][1:]
    return None


def _read_checks(test: str, names: list[str] | None) -> list[TestCase] | None:
    """Functional tests for the assertions of a check; None where one of them is something else."""
    try:
        [check] = ast.parse(test).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if names is None or not isinstance(check, ast.FunctionDef):
        return None
    cases = [_read_assertion(node, names) for node in check.body]
    return None if None in cases or not cases else [case for case in cases if case is not None]


def _read_assertion(node: ast.stmt, names: list[str]) -> TestCase | None:
    """`assert candidate(a = 1) == 2` as a functional test."""
    if not isinstance(node, ast.Assert):
        return None
    call, wanted = _split_comparison(node.test)
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "candidate"):
        return None
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    given |= dict(zip(names, call.args, strict=False))
    if set(given) != set(names) or wanted is None:
        return None
    try:
        lines = [json.dumps(_read_value(given[name])) for name in names]
        return TestCase(TestKind.FUNCTIONAL, "\n".join(lines), json.dumps(_read_value(wanted)))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _split_comparison(test: ast.expr) -> tuple[ast.expr | None, ast.expr | None]:
    """Call and expected value of `call == value` or `is_same_tree(call, value)`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Eq, ast.Is)):
        return test.left, test.comparators[0]
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id in _SAME and len(test.args) == 2:
        return test.args[0], test.args[1]
    return None, None


def _read_value(node: ast.expr) -> Any:
    """A literal, where nodes are the lists that they are made of."""
    if isinstance(node, ast.Constant):
        return node.value
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _NODES
        and len(node.args) == 1
    ):
        return _read_value(node.args[0])
    if isinstance(node, ast.List):
        return [_read_value(item) for item in node.elts]
    return ast.literal_eval(node)
