"""The rubric under verifiers' own scoring of rollouts and groups; prints the states as JSON."""

import asyncio
import importlib
import json

from microcoder_client.rewards.verifiers import rubric
from verifiers.types import State

TESTS = json.dumps({"inputs": ["4\n", "10\n"], "outputs": ["8\n", "20\n"]})
ANSWERS = ("```python\nprint(int(input()) * 2)\n```", "```python\nprint(8)\n```")


def state(answer: str) -> State:
    """What an environment hands to a rubric."""
    made = State(input={"prompt": "Double it.", "answer": "", "info": {"input_output": TESTS}, "example_id": 0})
    made.update(prompt="Double it.", completion=[{"role": "assistant", "content": answer}], trajectory=[], error=None)
    made.update(answer="", info={"input_output": TESTS}, task="code")
    return made


async def main() -> None:
    infra = importlib.import_module("verifiers").InfraError
    single, group = state(ANSWERS[0]), [state(answer) for answer in ANSWERS]
    judge = rubric(patience=0.1)
    await judge.score_rollout(single)
    await judge.score_group(group)
    shown = [
        {"reward": item["reward"], "verdict": item["verdict"], "infra": isinstance(item.get("error"), infra)}
        for item in (single, *group)
    ]
    print("RESULT " + json.dumps(shown))


if __name__ == "__main__":
    asyncio.run(main())
