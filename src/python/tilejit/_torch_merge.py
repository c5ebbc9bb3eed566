"""Partial outputs of attention, merged, by tilejit's kernel."""
from __future__ import annotations

import torch

from . import _torch_ops  # noqa: F401 -- the operators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Sequence, Tuple, Union


def merge_states(states: Union[torch.Tensor, Sequence[torch.Tensor]], lse: Union[torch.Tensor, Sequence[torch.Tensor]], *,
                 dtype: Optional[torch.dtype] = None) -> Tuple[torch.Tensor, torch.Tensor]:
    """Outputs of attention over parts of the keys, with their log-sum-exps, become that over all of them.

    states: tensors [..., D] of one shape, f16, bf16 or f32, or one [N, ..., D]. lse: as many f32 [...], or one [N, ...]; "..." is one to three
    dimensions, in one order: o [T, H, D] beside lse [H, T] is o.transpose(0, 1). dtype: of the result; without it that of states. Returns (o, lse).
    States of -inf count nothing. Raises tilejit.Error.
    >>> import torch, tilejit.torch
    >>> o, lse = tilejit.torch.merge_states((torch.zeros(1, 64), torch.ones(1, 64)), (torch.zeros(1), torch.zeros(1)))
    >>> o[0, 0].item()
    0.5
    """
    states, lse = (x if isinstance(x, torch.Tensor) else torch.stack(tuple(x)) for x in (states, lse))
    return torch.ops.tilejit.merge_states(states, lse, dtype=dtype)
