"""The reward plugged into a task of verifiers' v1 by its import path; prints the traces as JSON."""

import asyncio
import json

import verifiers.v1 as vf
from verifiers.v1.errors import TaskError
from verifiers.v1.trace import AgentInfo, TraceTask

TESTS = json.dumps({"inputs": ["4\n", "10\n"], "outputs": ["8\n", "20\n"]})
ANSWERS = ("```python\nprint(int(input()) * 2)\n```", "```python\nprint(8)\n```")
PLUGGED = {"rewards": {"code": {"fn": "microcoder_client.rewards.verifiers:code_reward"}}}


class CodeData(vf.TaskData):
    """A row with its tests."""

    input_output: str


async def main() -> None:
    task = vf.Task[CodeData](
        CodeData(idx=0, prompt="Double it.", input_output=TESTS), vf.TaskConfig.model_validate(PLUGGED)
    )
    shown = []
    for answer in ANSWERS:
        trace = vf.Trace(task=TraceTask(type="code", data=task.data), agent=AgentInfo.model_construct())
        trace.root_reply = answer
        try:
            await task.score(trace)
            error = None
        except TaskError as failure:  # a rollout records it as the trace's error
            error = str(failure)
        shown.append({"reward": trace.reward, "info": trace.info, "error": error})
    print("RESULT " + json.dumps(shown))


if __name__ == "__main__":
    asyncio.run(main())
