"""DAPO's dynamic sampling: groups that teach nothing are replaced by groups of other prompts that teach something.

Batches are what TRL makes of a generation: tensors whose first dimension counts completions, prompts padded on the
left and completions on the right.
"""

from collections.abc import Sequence

import torch

from trainer.algorithm.draws import draw

Batch = dict[str, torch.Tensor]
PADDED_LEFT = frozenset({"prompt_ids", "prompt_mask"})
IDS = frozenset({"prompt_ids", "completion_ids"})


def draw_rows(rows: int, groups: int, *, seed: int, generation: int, attempt: int, first: int) -> list[int]:
    """Which rows of the dataset to try in place of others: one a group, the same in a resumed run.

    Args:
        rows: of the dataset.
        groups: of this process, the first of which is number `first` of all processes.
    """
    name = f"attempt {attempt}"
    return [int(draw(seed, generation, name, first + group) * rows) for group in range(groups)]


def replace_groups(batch: Batch, fresh: Batch, pairs: Sequence[tuple[int, int]], size: int, pad: int) -> Batch:
    """The batch with some of its groups replaced, wide enough for both.

    Args:
        pairs: (a group of `batch`, the group of `fresh` that takes its place).
        size: completions of a group.
        pad: the id that pads prompts and completions; masks and numbers are padded with 0.
    """
    if not pairs:
        return batch
    old = [group * size + place for group, _ in pairs for place in range(size)]
    new = [group * size + place for _, group in pairs for place in range(size)]
    found = {}
    for name, values in batch.items():
        if not isinstance(values, torch.Tensor) or values.dim() == 0:
            found[name] = values
            continue
        others = fresh[name]
        if values.dim() == 2:
            width, fill = max(values.size(1), others.size(1)), pad if name in IDS else 0
            values, others = (_widen(one, width, fill, name in PADDED_LEFT) for one in (values, others))
        found[name] = values.index_copy(0, torch.tensor(old, device=values.device), others[new])
    return found


def _widen(values: torch.Tensor, width: int, fill: int, left: bool) -> torch.Tensor:
    missing = width - values.size(1)
    return torch.nn.functional.pad(values, (missing, 0) if left else (0, missing), value=fill)
