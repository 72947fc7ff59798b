"""The reward and the filter as slime's rollout loads and calls them; prints rewards and its decision as JSON."""

import asyncio
import json
from argparse import Namespace

from slime.rollout.filter_hub.base_types import call_dynamic_filter, should_drop_dynamic_filter_output
from slime.rollout.rm_hub import async_rm
from slime.utils.misc import load_function
from slime.utils.types import Sample

TESTS = json.dumps({"inputs": ["4\n", "10\n"], "outputs": ["8\n", "20\n"]})
ANSWERS = ("```python\nprint(int(input()) * 2)\n```<|im_end|>", "```python\nprint(8)\n```<|im_end|>")
REWARD, FILTER = "microcoder_client.rewards.slime.reward", "microcoder_client.rewards.slime.keep_judged_and_varied"


async def main() -> None:
    args = Namespace(custom_rm_path=REWARD, reward_key="score", rm_type=None)
    group = [Sample(response=answer, label=TESTS) for answer in ANSWERS]
    rewards = await asyncio.gather(*(async_rm(args, sample) for sample in group))
    for sample, reward in zip(group, rewards, strict=True):
        sample.reward = reward
    output = call_dynamic_filter(load_function(FILTER), args, group)
    dropped = should_drop_dynamic_filter_output(output, remaining_batch_size=2, target_data_size=2)
    print("RESULT " + json.dumps({"rewards": rewards, "dropped": dropped, "reason": output.reason}))


if __name__ == "__main__":
    asyncio.run(main())
