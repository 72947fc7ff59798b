"""What is computed of results: intervals, the paper's table, the mechanism's, the demonstration's, a run's report."""

import json
import math
import multiprocessing
import statistics
import time
from functools import partial
from pathlib import Path

import pytest

from trainer import aspects, demo, evaluate, paired, report
from trainer.benchmark_problems import read_problems
from trainer.intervals import bootstrap_interval, mean_interval
from trainer.paper_table import PAPER, Graded, describe_set, write_comparison, write_table


def test_the_interval_of_a_mean_is_students():
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    middle, low, high = mean_interval(values)
    half = 2.571 * statistics.stdev(values) / math.sqrt(6)
    assert (middle, low, high) == pytest.approx((3.5, 3.5 - half, 3.5 + half))
    assert mean_interval([2.0])[0] == 2.0
    assert all(math.isnan(end) for end in mean_interval([2.0])[1:])
    assert mean_interval([*values, math.nan]) == pytest.approx((3.5, 3.5 - half, 3.5 + half))
    assert all(math.isnan(end) for end in mean_interval([math.nan, math.nan]))


def test_a_bootstrap_encloses_the_mean_and_shrinks_with_more_problems():
    few, many = [0.0, 100.0] * 10, [0.0, 100.0] * 250
    for values in (few, many):
        middle, low, high = bootstrap_interval(values)
        assert low < middle == 50.0 < high
        assert (high - low) / 2 == pytest.approx(1.96 * 50 / math.sqrt(len(values)), rel=0.15)
    assert bootstrap_interval(few) == bootstrap_interval(few)


def grade(platform: str, difficulty: str, name: str, *right: int) -> Graded:
    return Graded(name, platform, difficulty, tuple(map(bool, right)))


def test_the_papers_table_has_a_row_for_every_cell_that_has_problems():
    graded = [
        grade("atcoder", "easy", "a", 1, 1, 1, 1),
        grade("atcoder", "hard", "b", 0, 1, 0, 0),
        grade("leetcode", "easy", "c", 0, 0, 0, 0),
    ]
    lines = write_table({"4096 tokens": graded}).splitlines()
    cells = {tuple(line.split(" | ")[:3]): line.split(" | ")[3] for line in lines[2:]}
    assert cells["| AtCoder", "easy", "1"].startswith("100.0 [")
    assert cells["| AtCoder", "hard", "1"].startswith("25.0 [")
    assert cells["| AtCoder", "all", "2"].startswith("62.5 [25.0, 100.0]")
    assert cells["| all", "easy", "2"].startswith("50.0 [0.0, 100.0]")
    assert cells["| all", "all", "3"].startswith("41.7 [")
    assert len(cells) == 8, "no row without problems"


def test_whether_the_problems_are_the_papers_is_said():
    graded = [
        grade(platform, level, f"{platform}{level}{place}", 1)
        for platform, counts in PAPER.items()
        for level, count in zip(("easy", "medium", "hard"), counts, strict=True)
        for place in range(count)
    ]
    assert len(graded) == 175
    assert describe_set(graded).startswith("The problems are as many as in the paper's table")
    assert "but 174: AtCoder 25/26/60; LeetCode 17/26/20" in describe_set(graded[1:])


def test_a_comparison_is_paired_by_problem():
    first = [grade("atcoder", "easy", str(place), place % 2, 0) for place in range(20)]
    second = [grade("atcoder", "easy", str(place), place % 2, 1) for place in reversed(range(20))]
    told = write_comparison(first, second)
    assert told == "Difference over 20 problems, paired: +50.0 points [+50.0, +50.0]; a difference is shown."
    assert "no difference is shown" in write_comparison(first, first)
    with pytest.raises(ValueError, match="no problem in common"):
        write_comparison(first, [grade("atcoder", "easy", "other", 1)])


def row(name: str, date: str, **others: str) -> str:
    known = {"question_id": name, "question_content": f"Statement {name}.", "platform": "atcoder"}
    return json.dumps(known | {"difficulty": "easy", "contest_date": f"{date}T00:00:00", **others})


def test_problems_are_selected_by_date_and_spread(tmp_path: Path):
    path = tmp_path / "test6.jsonl"
    lines = [row(str(day), f"2025-01-{day:02}") for day in range(1, 31)]
    path.write_text("\n".join(lines))
    assert [one.question_id for one in read_problems([path], start="2025-01-11", end="2025-01-20", limit=5)] == [
        "11", "13", "15", "17", "19",
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"No problem of test6.jsonl is within the dates"):
        read_problems([path], start="2026-01-01")
    path.write_text("\n".join([*lines, "{}"]))
    with pytest.raises(ValueError, match=r"test6.jsonl, line 31 is no problem"):
        read_problems([path])


def test_a_model_is_asked_for_a_method_where_there_is_one(tmp_path: Path):
    path = tmp_path / "problems.jsonl"
    starter = "class Solution:\n    def f(self, x): "
    path.write_text(
        row("a", "2025-01-01") + "\n" + row("b", "2025-01-01", starter_code=starter, private_test_cases="x")
    )
    plain, method = read_problems([path])
    assert "standard input" in plain.messages()[0]["content"]
    assert starter in method.messages()[0]["content"]
    assert (plain.has_private_tests, method.has_private_tests) == (False, True)


def test_an_endpoint_is_asked_judged_and_set_into_the_table(tmp_path: Path, monkeypatch, capsys):
    """The whole command, with the real re-scoring; the endpoint alone is of a few lines."""
    import http.server
    import threading

    tests = json.dumps([{"input": "3\n", "output": "6\n", "testtype": "stdin"}])
    (tmp_path / "test6.jsonl").write_text(
        "\n".join(row(name, "2025-02-01", public_test_cases=tests, private_test_cases="[]") for name in ("good", "bad"))
    )
    asked = []

    class Endpoint(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            factor = 2 if "good" in body["messages"][0]["content"] else 3
            text = f"Here:\n```python\nprint(int(input()) * {factor})\n```"
            choices = [{"message": {"content": text}}] * body["n"]
            data = json.dumps({"choices": choices}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        arguments = [url, "--problems", str(tmp_path / "test6.jsonl"), "--n", "2", "--max-tokens", "64"]
        status = evaluate.main([*arguments, "--out", str(tmp_path / "out"), "--sandbox", "bubblewrap"])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert status == 0
    assert [(body["n"], body["max_tokens"], body["temperature"]) for body in asked] == [(2, 64, 0.6)] * 2
    assert {"good" in body["messages"][0]["content"] for body in asked} == {True, False}
    table = (tmp_path / "out" / "table.md").read_text()
    assert "| AtCoder | easy | 2 | 50.0 [0.0, 100.0] |" in table
    assert "2 of 2 problems have public tests alone" in table
    assert table in capsys.readouterr().out


def make_result(seed: int, rate: float, solved: float) -> dict:
    curves = {"truncation/eligible": [10.0] * 8, "truncation/masked": [10 * rate] * 8}
    curves |= {"truncation/truncated": [9.0] * 3 + [20.0] * 5, "completions/mean_length": [30.0 + 10 * rate] * 8}
    curves |= {"diversity": [0.5] * 8, "entropy": [0.1] * 8, "accuracy": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]}
    limits = [{"limit": 44, "before": 0.4, "after": solved}, {"limit": 88, "before": 0.5, "after": solved + 0.1}]
    return {"seed": seed, "label": f"{rate:g}", "limits": limits, "curves": curves}


def test_variants_are_told_by_label_and_in_pairs():
    results = [make_result(seed, rate, 0.5 + 0.01 * seed + 0.1 * rate) for rate in (0.0, 1.0) for seed in range(6)]
    means = paired.summarise(results)
    assert list(means) == ["0", "1"]
    assert means["1"]["masked of eligible"] == pytest.approx((1.0, 1.0, 1.0))
    assert means["1"]["truncated of 256"][0] == 20, "the last generations count"
    assert [round(means["1"][f"accepted, {when}"][0], 3) for when in ("first", "last")] == [0.3, 0.6]
    assert means["1"]["solved at 88"][0] == pytest.approx(0.725)
    assert means["1"]["solved at 88"][2] - means["1"]["solved at 88"][1] > 0.02
    differences = paired.compare(results)
    assert list(differences) == ["1"]
    assert differences["1"]["solved at 44"] == pytest.approx((0.1, 0.1, 0.1)), "seeds differ, pairs don't"
    apart = [make_result(seed, 1.0, 0.5 + 0.01 * seed + 0.02 * (seed % 2)) for seed in range(6)]
    results = [*results[:6], *({**one, "label": "other"} for one in apart)]
    header, _, first, second = paired.write_table(paired.summarise(results), paired.compare(results), "ρ").splitlines()
    places = [name.strip() for name in header.split("|")]
    cells = {name: cell.strip() for name, cell in zip(places, second.split("|"), strict=True)}
    assert "| 0.525 ± 0.02 |" in first
    assert cells["ρ"] == "other"
    assert cells["masked of eligible"] == "1 (**+1 ± 0**)", "every pair differs by as much"
    assert cells["diversity, last"] == "0.5", "the very same"
    assert cells["solved at 44"] == "0.535 (+0.01 ± 0.011)", "an interval that holds 0"


def test_every_aspect_has_variants_that_differ_from_the_first():
    for aspect, variants in aspects.ASPECTS.items():
        first, *others = variants
        assert len({variant.label for variant in variants}) == len(variants) >= 3, aspect
        assert all((one.options, one.rest) != (first.options, first.rest) for one in others)


def test_an_exception_ends_the_trainings_that_run():
    def refuse(result: object) -> None:
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        demo.run_together([partial(abs, -1), partial(time.sleep, 600)], 2, refuse)
    assert time.monotonic() - start < 300, "it didn't wait for the other one"
    assert multiprocessing.active_children() == []


def test_the_demonstrations_results_are_arranged_by_seed():
    results = [
        {"seed": seed, "algorithm": name, "before": 0.4, "after": after, "shuffled": False}
        for seed in (1, 2)
        for name, after in (("grpo", 0.6), ("microcoder", 0.7))
    ]
    sabotage = {"seed": 1, "algorithm": "microcoder", "before": 0.4, "after": 0.38, "shuffled": True}
    found = demo._arrange([*results, sabotage], ["grpo", "microcoder"])
    assert [(one["seed"], one["before"], one["after"]) for one in found["seeds"]] == [(1, 0.4, 0.7), (2, 0.4, 0.7)]
    assert found["seeds"][1]["algorithms"]["grpo"]["after"] == 0.6
    assert found["sabotage"] == [sabotage]


def test_a_report_reads_the_newest_checkpoint_where_a_run_did_not_end(tmp_path: Path):
    with pytest.raises(report.NoRun, match="holds no trainer_state"):
        report.read_history(tmp_path)
    for step in (8, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
        entries = [{"step": at, "loss": 0.1, "accuracy": at / 10} for at in range(step)] + [
            {"step": step, "runtime": 3}
        ]
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(json.dumps({"log_history": entries}))
    entries = report.read_history(tmp_path)
    assert len(entries) == 10
    assert report.gather_panels(entries) == {
        "accuracy and reward": {"accuracy": [[(float(at), at / 10) for at in range(10)]]}
    }


def test_a_report_is_one_page_with_its_picture(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="matplotlib isn't installed here: pip install '.[trainer]'")
    entries = [
        {"step": at, "loss": 0.1, "accuracy": at / 10, "seconds/generation": 3.0, "seconds/evaluation": 1.0}
        for at in range(1, 11)
    ]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": entries}))
    (tmp_path / "run.json").write_text(json.dumps({"algorithm": "grpo", "temperature_origin": "By <hand>."}))
    assert report.main([str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "By &lt;hand&gt;." in page
    assert "<pre>30.0</pre></td><td><pre>75 %" in page
    assert "data:image/png;base64," in page
    assert (tmp_path / "report.png").stat().st_size > 5000
    assert report.main([str(tmp_path / "nowhere")]) == 2


def test_options_that_make_no_sense_end_with_a_sentence(capsys):
    with pytest.raises(SystemExit):
        evaluate.main(["model", "--problems", "p", "--max-tokens", "4k"])
    assert "numbers with commas" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        demo.main(["--seeds", "0"])
    assert "1 or more" in capsys.readouterr().err
    assert evaluate.main(["http://127.0.0.1:1", "--problems", "/nowhere.jsonl"]) == 2
