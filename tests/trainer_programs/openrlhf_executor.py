"""The reward function as OpenRLHF's executor loads it, from its file, and calls it; prints what it stores as JSON.

usage: openrlhf_executor.py PATH
"""

import asyncio
import json
import sys
from types import SimpleNamespace

from openrlhf.utils.agent import SingleTurnAgentExecutor
from tiny_model import RIGHT, WRONG, make_tokenizer

PROMPT = "Double it: a number "
TESTS = json.dumps({"inputs": ["4\n", "10\n"], "outputs": ["8\n", "20\n"]})


class Engine:
    """In the place of vLLM: answers with one program."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = tokens

    async def generate(self, prompt, params, multi_modal_data=None):
        """What the executor reads of vLLM's output."""
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=self.tokens, finish_reason="stop", logprobs=None)])


async def main(path: str) -> None:
    tokenizer = make_tokenizer()
    executor = SingleTurnAgentExecutor(path)
    params = SimpleNamespace(max_tokens=8, logprobs=None)
    shown = []
    for program in (RIGHT, WRONG):
        engine = Engine([tokenizer.convert_tokens_to_ids(program), tokenizer.eos_token_id])
        output = await executor.execute(PROMPT, TESTS, params, 64, tokenizer, engine)
        reward = None if output["reward"] is None else output["reward"].tolist()
        shown.append({"reward": reward, "logs": output["extra_logs"]})
    print("RESULT " + json.dumps(shown))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
