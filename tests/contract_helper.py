"""The tests of the contract and of the attacks, for further kinds of box.

Those that take long are left to MICROCODER_WHOLE_CONTRACT=1; what they hold, the self-test tries in small.
"""

import os
from collections.abc import Callable, Set
from types import ModuleType

from tests import test_box_calls

SLOW = {
    "test_the_cpu_limit_holds", "test_a_thread_that_waits_for_a_processor_isnt_out_of_time",
    "test_the_memory_limit_is_reported_as_such", "test_fifty_megabytes_of_input_arrive",
    "test_strange_sources_do_no_harm", "test_a_source_that_is_too_hard_to_compile_ends_by_its_limit",
    "test_large_outputs_come_back_intact", "test_nothing_can_be_written_but_scratch", "test_scratch_is_limited",
    "test_exit_codes_arrive_as_they_are", "test_signals_arrive_as_they_are", "test_many_runs_come_back_in_order",
    *(name for name in vars(test_box_calls) if name.startswith("test_")),
}  # fmt: skip


def take_over(left_out: Set[str], *modules: ModuleType) -> dict[str, Callable]:
    """The tests of these modules by name, for a module that has a `room` of its own."""
    if not os.environ.get("MICROCODER_WHOLE_CONTRACT"):
        left_out = left_out | SLOW
    found = {name: test for module in modules for name, test in vars(module).items() if name.startswith("test_")}
    return {name: test for name, test in found.items() if name not in left_out and callable(test)}
