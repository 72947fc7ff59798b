"""Completions of a model outside of training: for tests on held-out problems and for sweeps. Needs torch."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Completion:
    """A completion's token ids, its end token among them, and its text without special tokens."""

    ids: list[int]
    text: str


def sample(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Any],
    *,
    count: int,
    temperature: float,
    limit: int,
    seed: int,
    batch: int = 256,
    tell: Callable[[int, int], object] = lambda done, whole: None,
) -> list[list[Completion]]:
    """`count` completions of each prompt, from the whole distribution (no top-p, no top-k).

    Args:
        prompts: texts, or lists of messages where the tokenizer has a chat template.
        temperature: above 0.
        limit: tokens of a completion at most.
        seed: the same seed and batch give the same completions; the random state outside isn't touched.
        batch: completions at a time.
        tell: called after each batch with the number of completions that are done, and of all.
    """
    texts = [_read(tokenizer, prompt) for prompt in prompts for _ in range(count)]
    ends = model.generation_config.eos_token_id
    ends = {ends} if isinstance(ends, int) else {*(ends or ()), tokenizer.eos_token_id}
    found: list[Completion] = []
    was_training = model.training
    model.eval()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        for start in range(0, len(texts), batch):
            chat = not isinstance(prompts[0], str)  # a template has written the special tokens already
            part = tokenizer(
                texts[start : start + batch],
                padding=True,
                padding_side="left",
                return_tensors="pt",
                add_special_tokens=not chat,
            ).to(model.device)
            rows = model.generate(
                input_ids=part["input_ids"],
                attention_mask=part["attention_mask"],
                do_sample=True,
                temperature=temperature,
                top_p=1.0,
                top_k=0,
                max_new_tokens=limit,
                pad_token_id=tokenizer.pad_token_id,
            )[:, part["input_ids"].size(1) :].tolist()
            cut = [_until_end(row, ends) for row in rows]
            words = tokenizer.batch_decode(cut, skip_special_tokens=True)
            found.extend(Completion(ids, text) for ids, text in zip(cut, words, strict=True))
            tell(len(found), len(texts))
    model.train(was_training)
    return [found[start : start + count] for start in range(0, len(found), count)]


def judge(
    groups: Sequence[Sequence[Completion]], rows: Sequence[dict[str, Any]], url: str, reward: dict[str, Any]
) -> list[list[bool]]:
    """Whether each completion of each row's group is accepted by the service at `url`.

    Raises:
        RewardUnavailable: a completion could not be judged.
    """
    from microcoder_client.rewards.scoring import CodeScorer

    scorer = CodeScorer(url, attempts=3, **reward)
    try:
        answers = [completion.text for group in groups for completion in group]
        scores = scorer.score(answers, [row for row, group in zip(rows, groups, strict=True) for _ in group])
    finally:
        scorer.close()
    for score in scores:
        score.require()
    right = iter(score.accepted for score in scores)
    return [[next(right) for _ in group] for group in groups]


def tell_progress(done: int, whole: int) -> None:
    """A line on stderr: sampling can take hours on a CPU."""
    print(f"{done} of {whole} completions sampled.", file=sys.stderr, flush=True)


def _read(tokenizer: Any, prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    text: str = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    return text


def _until_end(ids: list[int], ends: set[int]) -> list[int]:
    """Without what pads a completion that ended before others."""
    return next((ids[: place + 1] for place, token in enumerate(ids) if token in ends), ids)
