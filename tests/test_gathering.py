"""Executions that come together go together: few evaluations, each answer its own, nobody waits for another's run."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import redis

from evaluator.executions import Execution
from evaluator.model import Program, Submission
from service.compat.gathering import AT_ONCE, TOGETHER, Gathering
from service.encoding import load_outputs
from service.evaluations import Evaluations, QueueFull
from service.settings import Settings


def execution(source: str = "print(1)") -> Submission:
    return Submission(Program(source), "", execution=Execution())


@pytest.fixture
async def evaluations(settings: Settings) -> AsyncIterator[Evaluations]:
    evaluations = Evaluations(settings)
    async with evaluations.opened():
        yield evaluations


def sizes(redis_url: str) -> list[int]:
    """How many submissions each evaluation in Redis has."""
    with redis.Redis.from_url(redis_url) as store:
        return sorted(int(store.hget(key, "total")) for key in store.keys("microcoder:e:*") if key.count(b":") == 2)


async def start(gathering: Gathering, count: int) -> list[asyncio.Task]:
    """So many executions at once, long enough ago that all have gone to the queue."""
    tasks = [asyncio.create_task(gathering.perform(execution())) for _ in range(count)]
    await asyncio.sleep(0.5)
    return tasks


async def leave(tasks: list[asyncio.Task]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_few_go_alone_and_many_together(evaluations: Evaluations, redis_url: str) -> None:
    tasks = await start(Gathering(evaluations), AT_ONCE + TOGETHER + 3)

    assert sizes(redis_url) == [1] * AT_ONCE + [3, TOGETHER]
    await leave(tasks)


async def test_a_group_stays_while_anyone_waits_and_goes_with_the_last(
    evaluations: Evaluations, redis_url: str
) -> None:
    tasks = await start(Gathering(evaluations), AT_ONCE + 5)

    await leave(tasks[AT_ONCE : AT_ONCE + 4])
    assert (await evaluations.depth()).submissions == AT_ONCE + 5
    await leave(tasks[AT_ONCE + 4 :])
    assert (await evaluations.depth()).submissions == AT_ONCE
    await leave(tasks[:AT_ONCE])
    assert (await evaluations.depth()).submissions == 0


async def test_who_leaves_before_the_group_goes_is_no_part_of_it(evaluations: Evaluations, redis_url: str) -> None:
    gathering = Gathering(evaluations)
    first = await start(gathering, AT_ONCE)
    tasks = [asyncio.create_task(gathering.perform(execution())) for _ in range(3)]
    await asyncio.sleep(0)
    await leave(tasks[:1])
    await asyncio.sleep(0.5)

    assert sizes(redis_url) == [1] * AT_ONCE + [2]
    await leave(first + tasks[1:])


async def test_a_full_queue_is_said_to_each_and_holds_up_nobody_later(settings: Settings, redis_url: str) -> None:
    evaluations = Evaluations(settings.model_copy(update={"queue_bound": AT_ONCE, "max_submissions": 1}))
    async with evaluations.opened():
        gathering = Gathering(evaluations)
        tasks = await start(gathering, AT_ONCE + 3)
        refused = [task for task in tasks if task.done()]
        assert len(refused) == 3 and all(isinstance(task.exception(), QueueFull) for task in refused)
        await leave([task for task in tasks if not task.done()])

        [again] = await start(gathering, 1)
        assert not again.done() and sizes(redis_url)[-1] == 1
        await leave([again])


async def test_each_run_has_its_own_answer_even_where_programs_are_alike(
    evaluations: Evaluations, start_worker
) -> None:
    start_worker()
    gathering = Gathering(evaluations)
    sources = [f"print({number})" for number in range(30)] + ["import time; print(time.monotonic_ns())"] * 10

    found = await asyncio.gather(*(gathering.perform(execution(source)) for source in sources))

    printed = [load_outputs(outputs).stdout for _, outputs in found]
    assert printed[:30] == [b"%d\n" % number for number in range(30)]
    assert len(set(printed[30:])) == 10


async def test_nobody_waits_for_a_slow_program_of_the_same_group(evaluations: Evaluations, start_worker) -> None:
    start_worker()
    start_worker()
    gathering = Gathering(evaluations)
    await gathering.perform(execution())  # the workers are there
    began = time.monotonic()

    async def take(source: str) -> float:
        await gathering.perform(execution(source))
        return time.monotonic() - began

    slow, *others = await asyncio.gather(take("import time; time.sleep(4)"), *(take("print(1)") for _ in range(40)))

    assert slow > 4 and max(others) < 3.5


async def test_nothing_of_an_execution_stays(evaluations: Evaluations, redis_url: str, start_worker) -> None:
    start_worker()
    gathering = Gathering(evaluations)
    await asyncio.gather(*(gathering.perform(execution(f"print({number})")) for number in range(30)))

    assert sizes(redis_url) == []
    with redis.Redis.from_url(redis_url) as store:
        assert not store.keys("microcoder:e:*") and not store.keys("microcoder:k:*")
