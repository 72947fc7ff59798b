"""Evaluation of a checkpoint or an endpoint on LiveCodeBench, into the paper's table.

    python -m trainer.evaluate CHECKPOINT|URL --problems test6.jsonl --n 4 --temperature 0.6 --max-tokens 4096,8192

The generations go to OUT/tokens_L.json in LiveCodeBench's format, `microcoder rescore` judges them. Choose checkpoints
on a validation split, never by this.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from trainer.benchmark_problems import BenchmarkProblem, read_problems
from trainer.paper_table import Graded, describe_set, write_comparison, write_table

PATIENCE = 3600.0
"""Seconds for one answer of an endpoint: it has a queue."""


def main(arguments: list[str] | None = None) -> int:
    """Generate, judge, print the table; 0, 2 for bad input, or what `microcoder rescore` ended with."""
    options = _parse(arguments)
    try:
        problems = read_problems(options.problems, start=options.start_date, end=options.end_date, limit=options.limit)
        options.out.mkdir(parents=True, exist_ok=True)
        texts = _generate(options, problems)
    except (ValueError, OSError, httpx.HTTPError) as error:
        print(error, file=sys.stderr)
        return 2
    columns = {}
    for limit, groups in texts.items():
        status = _rescore(options, problems, groups, limit)
        if status:
            return status
        columns[f"{limit} tokens"] = read_graded(_graded_file(options.out, limit), problems)
    _say(options, problems, columns)
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trainer.evaluate", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="a checkpoint's folder, a model's name, or the URL of an OpenAI-compatible API")
    parser.add_argument("--problems", type=Path, nargs="+", required=True, help="LiveCodeBench's JSON Lines files")
    parser.add_argument("--n", type=int, default=4, help="generations a problem: 4")
    parser.add_argument("--temperature", type=float, default=0.6, help="above 0: 0.6")
    parser.add_argument("--max-tokens", default="4096", help="of a generation, or two limits: 4096,8192")
    parser.add_argument("--out", type=Path, default=Path("evaluation"), help="folder: evaluation")
    parser.add_argument("--against", type=Path, help="the folder of another evaluation, to compare with in pairs")
    parser.add_argument("--start-date", default="", help="YYYY-MM-DD, included")
    parser.add_argument("--end-date", default="", help="YYYY-MM-DD, included")
    parser.add_argument("--limit", type=int, help="so many problems, spread over those selected")
    parser.add_argument("--seed", type=int, default=1, help="1")
    parser.add_argument("--batch", type=int, default=16, help="generations at a time, of a checkpoint: 16")
    parser.add_argument("--concurrency", type=int, default=16, help="problems at a time, of an endpoint: 16")
    parser.add_argument("--name", default="default", help="the model's name at the URL")
    parser.add_argument("--sandbox", default="auto", help="kind of box for the re-scoring: auto")
    options = parser.parse_args(arguments)
    try:
        options.limits = sorted({int(part) for part in options.max_tokens.split(",")})
    except ValueError:
        parser.error(f"--max-tokens takes numbers with commas between them, not {options.max_tokens!r}.")
    if options.temperature <= 0 or min(options.n, options.limits[0], options.batch, options.concurrency) < 1:
        parser.error("the temperature is above 0, all counts are 1 or more.")
    return options


def _generate(options: argparse.Namespace, problems: Sequence[BenchmarkProblem]) -> dict[int, list[list[str]]]:
    """The answers by limit, a list for each problem."""
    if options.model.startswith(("http://", "https://")):
        with ThreadPoolExecutor(options.concurrency) as pool:
            return {limit: list(pool.map(partial(_ask, options, limit=limit), problems)) for limit in options.limits}
    import torch

    from trainer.runs import load_model
    from trainer.sampling import sample, tell_progress

    device = "cuda" if torch.cuda.is_available() else "cpu"
    # Most processors take longer for the half precision that weights are saved in.
    model, tokenizer = load_model(options.model, options.seed, dtype="auto" if device == "cuda" else "float32")
    # Prompts of like lengths side by side: a batch is padded to its longest one.
    order = sorted(range(len(problems)), key=lambda place: len(str(problems[place].messages())))
    found = sample(
        model.to(device),
        tokenizer,
        [problems[place].messages() for place in order],
        count=options.n,
        temperature=options.temperature,
        limit=options.limits[-1],
        seed=options.seed,
        batch=options.batch,
        tell=tell_progress,
    )
    groups = [group for _, group in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]
    # What a shorter limit would have left: the beginning of the very same generation, so that limits pair up.
    return {
        limit: [
            [tokenizer.decode(completion.ids[:limit], skip_special_tokens=True) for completion in group]
            for group in groups
        ]
        for limit in options.limits
    }


def _ask(options: argparse.Namespace, problem: BenchmarkProblem, *, limit: int) -> list[str]:
    """The answers of an endpoint to one problem."""
    body = {
        "model": options.name,
        "messages": problem.messages(),
        "n": options.n,
        "temperature": options.temperature,
        "max_tokens": limit,
        "seed": options.seed,
    }
    url = f"{options.model.rstrip('/')}/chat/completions"
    answer = httpx.post(url, json=body, timeout=PATIENCE)
    answer.raise_for_status()
    found = [choice["message"]["content"] or "" for choice in answer.json()["choices"]]
    if len(found) != options.n:
        raise ValueError(
            f"The endpoint gave {len(found)} answers where {options.n} were asked for ({problem.question_id})."
        )
    return found


def _rescore(
    options: argparse.Namespace, problems: Sequence[BenchmarkProblem], groups: list[list[str]], limit: int
) -> int:
    """Write the generations and let `microcoder rescore` judge them; its exit status."""
    path = options.out / f"tokens_{limit}.json"
    records = [
        {"question_id": problem.question_id, "output_list": group}
        for problem, group in zip(problems, groups, strict=True)
    ]
    path.write_text(json.dumps(records, indent=1) + "\n", "utf-8")
    command = [sys.executable, "-m", "service.cli", "rescore", str(path), "--extraction", "microcoder"]
    command += [part for source in options.problems for part in ("--problems", str(source))]
    command += ["--sandbox", options.sandbox, "--out", str(options.out / f"tokens_{limit}_rescored")]
    return subprocess.run(command, check=False).returncode


def _graded_file(folder: Path, limit: int) -> Path:
    return folder / f"tokens_{limit}_rescored" / f"tokens_{limit}_eval_all.json"


def read_graded(path: Path, problems: Sequence[BenchmarkProblem]) -> list[Graded]:
    """The problems with their verdicts, out of the file `…_eval_all.json` that the re-scoring wrote."""
    known = {problem.question_id: problem for problem in problems}
    rows: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return [
        Graded(row["question_id"], one.platform, one.difficulty, tuple(row["graded_list"]))
        for row in rows
        if (one := known.get(row["question_id"])) is not None
    ]


def _say(options: argparse.Namespace, problems: Sequence[BenchmarkProblem], columns: dict[str, list[Graded]]) -> None:
    """The table, what kind of tests it rests on, and the comparison that was asked for."""
    graded = next(iter(columns.values()))
    lines = [
        f"{options.model}, {options.n} generations a problem, T = {options.temperature:g}",
        "",
        write_table(columns),
    ]
    lines += ["", describe_set(graded)]
    public = sum(not problem.has_private_tests for problem in problems)
    if public:
        lines.append(f"{public} of {len(problems)} problems have public tests alone: true accuracies are lower.")
    for limit in options.limits if options.against else ():
        other = _graded_file(options.against, limit)
        if other.exists():
            pair = write_comparison(read_graded(other, problems), columns[f"{limit} tokens"])
            lines.append(f"At {limit} tokens, against {options.against.name}. {pair}")
    text = "\n".join(lines)
    (options.out / "table.md").write_text(text + "\n", "utf-8")
    print(text)


if __name__ == "__main__":
    sys.exit(main())
