"""The layers of the design, held: imports point down, modules are small, no module hides another's errors."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "evaluator": ROOT / "evaluator",
    "service": ROOT / "service",
    "microcoder_client": ROOT / "client" / "microcoder_client",
    "trainer": ROOT / "trainer",
    "curation": ROOT / "curation",
}
MAY_IMPORT = {
    "evaluator": set(),
    "microcoder_client": set(),
    "service": {"evaluator", "microcoder_client"},
    "trainer": {"microcoder_client"},
    "curation": {"evaluator", "microcoder_client"},
}
# Lowest first: a module of the evaluator imports from the rows above its own.
EVALUATOR = (
    ("evaluator.errors", "evaluator.executions", "evaluator.suspicions", "evaluator.sandbox.obstacles"),
    ("evaluator.model",),
    ("evaluator.comparison", "evaluator.extraction", "evaluator.sandbox.runner"),
    ("evaluator.checkers",),
    ("evaluator.suites",),
    ("evaluator.sandbox.base",),
    ("evaluator.sandbox.probes",),
    (
        "evaluator.sandbox.memfds",
        "evaluator.sandbox.commands",
        "evaluator.sandbox.dialogue",
        "evaluator.sandbox.slots",
        "evaluator.sandbox.starvation",
        "evaluator.sandbox.sockets",
    ),
    ("evaluator.sandbox.channel",),
    ("evaluator.sandbox.bubblewrap",),
    ("evaluator.sandbox.leftovers", "evaluator.sandbox.confined"),
    ("evaluator.sandbox.docker", "evaluator.sandbox.dial_in"),
    ("evaluator.sandbox.pool",),
    ("evaluator.crew", "evaluator.session"),
    ("evaluator.checker_box",),
    ("evaluator.hard_coding",),
    ("evaluator.source_signs", "evaluator.run_signs", "evaluator.rules"),
    ("evaluator.judge",),
    ("evaluator.livecodebench",),
)
BROAD_EXCEPT = {
    # The job boundary and the closing of a box.
    "service.desk", "service.turns", "service.batch",
    # What a program raises is anything; a forked child must never go on as a second runner.
    "evaluator.sandbox.runner.assertion", "evaluator.sandbox.runner.launch", "evaluator.sandbox.runner.main",
    "evaluator.sandbox.runner.tools", "evaluator.sandbox.runner.servant", "evaluator.sandbox.runner.tester",
    "evaluator.sandbox.runner.series",
}  # fmt: skip
MAX_MODULE, MAX_FUNCTION = 400, 60


@cache
def find_modules() -> dict[str, Path]:
    """Every module of ours by its full name."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def parse(name: str) -> ast.Module:
    """A module's syntax tree."""
    return ast.parse(find_modules()[name].read_text("utf-8"))


@cache
def find_imports(name: str, *, delayed: bool = True) -> frozenset[str]:
    """What a module imports, by full name. `delayed`: inside functions too."""
    found: set[str] = set()
    tree = parse(name)
    package = name if find_modules()[name].name == "__init__.py" else name.rpartition(".")[0]
    nodes = ast.walk(tree) if delayed else _at_the_top(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = {f"{base}.{alias.name}" for alias in node.names}
            modules = {full for full in names if full in find_modules()}
            found.update(modules or {base})
    return frozenset(found)


def _at_the_top(tree: ast.Module):
    pending = list(tree.body)
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, (ast.If, ast.Try)) and "TYPE_CHECKING" not in ast.unparse(getattr(node, "test", node))[:40]:
            pending.extend(ast.iter_child_nodes(node))


def ours(imports: frozenset[str]) -> set[str]:
    """Only the imports of our own modules."""
    return {name for name in imports if name.partition(".")[0] in PACKAGES}


def row_of(name: str) -> int:
    """The layer of a module of the evaluator."""
    rows = [i for i, row in enumerate(EVALUATOR) if any(name == top or name.startswith(top + ".") for top in row)]
    assert rows, f"{name} has no place in EVALUATOR: put it into its layer"
    return rows[-1]


def test_packages_import_only_what_lies_below():
    for name in find_modules():
        package = name.partition(".")[0]
        foreign = {found.partition(".")[0] for found in ours(find_imports(name))} - {package}
        assert foreign <= MAY_IMPORT[package], f"{name} imports {sorted(foreign - MAY_IMPORT[package])}"


def test_the_evaluators_modules_import_only_lower_ones():
    names = [name for name in find_modules() if name.startswith("evaluator.")]
    names = [name for name in names if name not in ("evaluator.sandbox", "evaluator.sandbox.boot")]
    for name in names:
        for found in ours(find_imports(name)) - {name}:
            family = name.rpartition(".")[0]
            if family not in ("evaluator", "evaluator.sandbox") and found.startswith(family):
                continue  # modules of one folder: their order is held by the test on cycles
            assert row_of(found) < row_of(name), f"{name} imports {found}, which isn't below it"


def test_what_runs_in_a_box_imports_the_standard_library_and_itself():
    for name in find_modules():
        if name.startswith("evaluator.sandbox.runner") or name == "evaluator.sandbox.boot":
            for found in find_imports(name):
                top = found.partition(".")[0]
                assert top in sys.stdlib_module_names or found.startswith("evaluator.sandbox.runner"), (
                    f"{name}: {found}"
                )


def test_the_client_imports_httpx_and_nothing_of_ours():
    for name in find_modules():
        if name.startswith("microcoder_client"):
            tops = {found.partition(".")[0] for found in find_imports(name)} - set(sys.stdlib_module_names)
            assert tops <= {"httpx", "microcoder_client"}, f"{name} imports {tops}"


def test_the_trainers_algorithm_knows_no_framework():
    names = [name for name in find_modules() if name.startswith("trainer.algorithm.")]
    assert names
    for name in names:
        tops = {found.partition(".")[0] for found in find_imports(name)} - set(sys.stdlib_module_names)
        allowed = {"numpy", "torch"} if name.rpartition(".")[2] in ("losses", "log_probabilities") else {"numpy"}
        assert tops - {"trainer"} <= allowed, f"{name} imports {tops}"
        assert all(found.startswith("trainer.algorithm") for found in ours(find_imports(name))), name


def test_no_imports_go_round_in_circles():
    graph = {name: ours(find_imports(name, delayed=False)) & find_modules().keys() - {name} for name in find_modules()}
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, f"a cycle: {' -> '.join([*way[way.index(name) :], name])}"
        if name not in done:
            for found in sorted(graph[name]):
                visit(found, (*way, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        (
            "service.app",
            ("evaluator.sandbox.docker", "evaluator.sandbox.bubblewrap", "evaluator.sandbox.pool", "docker"),
        ),
        ("microcoder_client", ("evaluator", "service", "numpy", "pydantic")),
        ("evaluator.model", ("service", "numpy", "evaluator.sandbox")),
        ("evaluator.judge", ("service", "docker", "evaluator.sandbox.docker", "redis", "fastapi")),
        ("evaluator.comparison.ladder", ("service", "evaluator.sandbox", "resource", "fcntl")),
        ("evaluator.sandbox.bubblewrap", ("docker", "numpy", "service", "pydantic")),
        ("service.cli", ("evaluator.sandbox.docker", "docker", "fastapi", "uvicorn")),
    ],
)
def test_importing_a_module_does_not_load(module: str, forbidden: tuple[str, ...]):
    source = f"import sys, {module}; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(answer.stdout.split())
    assert not loaded.intersection(forbidden)


def test_no_two_modules_share_a_name():
    seen: dict[str, str] = {}
    for name, path in find_modules().items():
        if path.name != "__init__.py":
            short = name.rpartition(".")[2]
            assert short not in seen, f"{name} and {seen[short]} have one name"
            seen[short] = name


def test_an_init_holds_a_docstring_and_a_version_at_most():
    for name, path in find_modules().items():
        if path.name == "__init__.py" and name != "microcoder_client":
            rest = [node for node in parse(name).body if not _is_text(node) and not _is_version(node)]
            assert not rest, f"{path}: {ast.unparse(rest[0])}"


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_version(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__"


def test_modules_and_functions_stay_small():
    paths = {*find_modules().values(), *(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "tests").glob("*.py")}
    large = []
    for path in sorted(paths):
        text = path.read_text("utf-8")
        lines = text.count("\n")
        if lines > MAX_MODULE and path.parent.name != "tests":
            large.append(f"{path.relative_to(ROOT)} has {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = node.end_lineno - node.body[0].lineno + 1  # without a command's list of options
                if length > MAX_FUNCTION:
                    large.append(f"{path.relative_to(ROOT)}: {node.name} has {length} lines")
    assert not large, "\n".join(large)


def test_broad_excepts_stand_at_named_places_only():
    broad = {name for name in find_modules() if any(map(_catches_all, ast.walk(parse(name))))}
    assert broad <= BROAD_EXCEPT, f"broad excepts in {sorted(broad - BROAD_EXCEPT)}"


def _catches_all(node: ast.AST) -> bool:
    kinds: list[ast.expr | None] = []
    if isinstance(node, ast.ExceptHandler):
        raised_again = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
        kinds = [] if raised_again else node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
        kinds = node.args
    return any(kind is None or ast.unparse(kind) in ("Exception", "BaseException") for kind in kinds)


def test_no_file_of_ours_is_served_to_boxes_but_the_runners_modules():
    from evaluator.sandbox.channel import MODULES

    folder = ROOT / "evaluator" / "sandbox" / "runner"
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(MODULES)
