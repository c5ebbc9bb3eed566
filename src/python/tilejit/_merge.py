"""Merging partial outputs of attention: the call of Python, and how its arguments become a structure of C; see _ops.py."""
from __future__ import annotations

from . import _c
from ._calls import Call, runtime_of, shape_of
from ._error import Error
from ._library import number
from ._ready import short
from ._tensors import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple

    from ._runtime import Runtime
    from ._types import StreamLike, SupportsDLPack, Tensor


def _merge_states(states, lse_states, *, cu_seqlens=None, dtype=None, out=None, max_sms=0, stream=None, asks=False):
    args = _c.MergeStatesArgs(max_sms=number(max_sms, "max_sms", -2**31, 2**31 - 1))
    call = Call("merge_states", args, stream, asks)
    states, lse_states, cu_seqlens = call.tensor("states", states), call.tensor("lse_states", lse_states), call.tensor("cu_seqlens", cu_seqlens, True)
    if out is not None and (not isinstance(out, (tuple, list)) or len(out) != 2):
        raise Error(f"out is {type(out).__name__}; allowed: a pair of tensors, (o, lse)")
    shape, (o, lse) = shape_of(states, 3, 4, 5)[1:], out or (None, None)
    o = call.result("o", o, states, shape, states.dtype if dtype is None else Spec((), dtype).dtype)
    lse = call.result("lse", lse, states, shape[:-1], "f32")
    call.put(states=states, lse_states=lse_states, o=o, lse=lse, cu_seqlens=cu_seqlens)
    return call


def merge_states(states: Tensor, lse_states: Tensor, *, cu_seqlens: Optional[SupportsDLPack] = None, dtype: Optional[str] = None,
                 out: Optional[Tuple[Tensor, Tensor]] = None, max_sms: int = 0, stream: Optional[StreamLike] = None,
                 runtime: Optional[Runtime] = None) -> Tuple[Tensor, Tensor]:
    """Outputs of attention over parts of the keys become that over all of them.

    states [N, ..., D], f16, bf16 or f32; lse_states f32 [N, ...]; "..." is one to three dimensions. dtype: of o; without it that of states.
    cu_seqlens i32 [B + 1]: rows of the last of "..." outside of its first and last number stay as they are. A state of -inf has seen no key, and is
    not read. Returns (o [..., D], lse f32 [...]), made by the framework of states, or `out`, such a pair. max_sms: as fmha. Raises tilejit.Error.

    >>> import tilejit, torch
    >>> o, lse = tilejit.merge_states(torch.stack((torch.zeros(1, 64), torch.ones(1, 64))), torch.zeros(2, 1))
    >>> o[0, 0].item(), round(lse[0].item(), 3)
    (0.5, 0.693)
    """
    objects = (states, lse_states, cu_seqlens, *out) if isinstance(out, (tuple, list)) else (states, lse_states, cu_seqlens)
    key = "merge_states", *map(type, objects), dtype, max_sms
    done = short(runtime, key, stream, objects, out)
    if done is not None:
        return done
    call = _merge_states(states, lse_states, cu_seqlens=cu_seqlens, dtype=dtype, out=out, max_sms=max_sms, stream=stream)
    return call.run(runtime_of(runtime), key)
