"""scaled_dot_product_attention of PyTorch: which calls are served here, and how.

Decides what falls back to torch's own function, and how masks of torch become the one of fmha. Invariant: what is served has the values that
torch gives. Everything here can be traced by torch.compile.
"""
from __future__ import annotations

import sys
import warnings

import torch
from torch.autograd import forward_ad

from . import _torch_ops  # noqa: F401 -- the operators
from ._device import Device
from ._error import Error
from ._runtime import instance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

_HALVES = (torch.float16, torch.bfloat16)
_CAST = (torch.float32, *_HALVES)  # by autocast
_LEFT = ("argument", "target")  # stages of errors; a damaged installation or a full device is no case for torch's
_ALIGNED = 8  # elements: rows of f16 and bf16 begin at multiples of 16 bytes
_torchs = torch.nn.functional.scaled_dot_product_attention  # a program may put sdpa in its place
_warned: set = set()
_targets: dict = {}


def _while_tracing(function):
    """Run by torch.compile when it traces, as a constant. torch.compiler.assume_constant_result does this and imports the compiler."""
    function._dynamo_marked_constant = True
    return function


@_while_tracing
def _no_target(device: torch.device):
    """Why a device has no kernels; None where it has them."""
    if device not in _targets:
        try:
            instance().target_of(Device("cuda" if torch.version.hip is None else "hip", device.index))
            _targets[device] = None
        except Error as error:
            if error.stage not in _LEFT:
                raise
            _targets[device] = error.message
    return _targets[device]


@_while_tracing
def _warn(kind: str, text: str) -> None:
    """One warning for each kind of reason."""
    if kind not in _warned:
        _warned.add(kind)
        warnings.warn(f"tilejit.torch.sdpa leaves this call, and later ones like it, to torch's own attention: {text}; fallback=False raises "
                      "instead", stacklevel=3)


def _plain(x) -> bool:
    """A tensor whose class does not take over torch's functions."""
    kind = type(x)
    return kind is torch.Tensor or getattr(kind, "__torch_function__", None) is torch._C._disabled_torch_function_impl


def _autocast_type(x):
    """The type that torch.autocast would give a tensor; None where it leaves it."""
    if not isinstance(x, torch.Tensor) or not _plain(x) or x.device.type not in ("cuda", "cpu") or not torch.is_autocast_enabled(x.device.type):
        return None
    return torch.get_autocast_dtype(x.device.type) if x.dtype in _CAST else None


def _transformed() -> bool:
    """Inside of torch.func's vmap, grad and the like."""
    peek = getattr(torch._C._functorch, "peek_interpreter_stack", None)
    return peek is not None and peek() is not None


def _causal_bias(mask):
    """True and False for masks of torch.nn.attention.bias: lower right, upper left. None for other masks."""
    bias = sys.modules.get("torch.nn.attention.bias")
    if bias is None or not isinstance(mask, bias.CausalBias):
        return None
    return mask.variant == bias.CausalVariant.LOWER_RIGHT


def _strided(x) -> bool:
    if x.is_contiguous():
        return True
    steps = x.stride()
    for axis in range(x.dim() - 1):
        if x.shape[axis] > 1 and (steps[axis] <= 0 or steps[axis] % _ALIGNED != 0):
            return False
    return steps[-1] == 1


def _kind_of_tensors(named, model):
    """(kind of reason, words) against the tensors one by one; None when there is none."""
    for name, x in named:
        if not isinstance(x, torch.Tensor) or not _plain(x):
            return "class", f"{name} is of the type {type(x).__name__}; served: torch.Tensor"
    device = named[0][1].device
    for name, x in named:
        if x.is_nested or x.layout is not torch.strided:
            return "layout", f"{name} is nested or has the layout {x.layout}; served: torch.strided"
        if x.device != device:
            return "devices", f"{name} is on {x.device}; served: one device for all tensors"
        if torch.is_grad_enabled() and x.requires_grad:
            return "grad", f"{name} requires grad; served: forward passes, as under torch.no_grad()"
        if x.dim() not in (3, 4) or x.dim() != named[0][1].dim():
            return "dimensions", f"{name} has {x.dim()} dimensions; served: 4, or 3, the same in query, key and value"
    if device.type == "cpu":
        return None if model else ("cpu", f"{named[0][0]} is on the CPU, where kernels run on a model, which is slow; served: CUDA and ROCm, and "
                                   "the CPU with model=True")
    if device.type != "cuda":
        return "device", f"{named[0][0]} is on {device}; served: CUDA and ROCm"
    missing = _no_target(device)
    return None if missing is None else ("target", missing)


def _kind_of_shapes(named, dtype, gqa):
    (_, q), (_, k), (_, v) = named
    for name, x in named:
        if not (dtype in _HALVES and x.dtype in _CAST if dtype is not None else x.dtype in _HALVES and x.dtype == q.dtype):
            return "dtype", f"{name} is {x.dtype}; served: float16 or bfloat16, the same in query, key and value, and what autocast makes so"
        if not _strided(x):
            return "strides", (f"{name} has the strides {tuple(x.stride())}; served: a contiguous last dimension, and multiples of {_ALIGNED} above 0 "
                               "in the others")
    width, heads, kv_heads = q.shape[-1], q.shape[-3], k.shape[-3]
    if width % 8 != 0 or v.shape[-1] % 8 != 0 or 0 in (width, v.shape[-1]) or width > 256 or v.shape[-1] > 256 or k.shape[-1] != width:
        return "width", (f"the last dimensions are {width}, {k.shape[-1]} and {v.shape[-1]}; served: multiples of 8 up to 256, the same in query "
                         "and key")
    if k.shape[:-1] != v.shape[:-1] or q.dim() == 4 and k.shape[0] != q.shape[0] or 0 in (heads, kv_heads):
        return "shapes", (f"query is {tuple(q.shape)}, key {tuple(k.shape)} and value {tuple(v.shape)}; served: one batch, key and value alike, and "
                          "heads")
    if heads != kv_heads and not (kv_heads == 1 or gqa and heads % kv_heads == 0):
        return "heads", f"query has {heads} heads and key {kv_heads}; served: as many, 1 in key, or with enable_gqa a divisor"
    return None


def _why_not(named, mask, bias, dropout_p, causal, dtype, gqa, model):
    if mask is not None and (bias is None or causal):
        return "attn_mask", "attn_mask is given; served: None, and causal masks of torch.nn.attention.bias without is_causal"
    if dropout_p != 0:
        return "dropout_p", f"dropout_p is {dropout_p}; served: 0"
    if not torch.compiler.is_compiling() and (_transformed() or forward_ad._current_level >= 0):
        return "transform", "it is called inside of a transform of torch.func or forward-mode differentiation"
    found = _kind_of_tensors(named, model) or _kind_of_shapes(named, dtype, gqa)
    if found is None and bias is not None:
        rows, keys = named[0][1].shape[-2], named[1][1].shape[-2]
        if (mask.seq_len_q, mask.seq_len_kv) != (rows, keys) or bias and rows > keys:
            return "attn_mask", (f"attn_mask is for {mask.seq_len_q} x {mask.seq_len_kv} scores, of which there are {rows} x {keys}; served: a mask of "
                                 "these sizes in which each row has a key")
    return found


def _serve(q, k, v, causal, bias, dtype, scale):
    if dtype is not None:
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    if q.dim() == 3:
        return _serve(q[None], k[None], v[None], causal, bias, None, scale)[0]
    upper_left = causal or bias is False  # query r sees keys j <= r, whatever the lengths
    return torch.ops.tilejit.fmha(q, k, v, causal=causal or bias is not None, scale=scale, top_left=upper_left)


def sdpa(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Optional[torch.Tensor] = None, dropout_p: float = 0.0,
         is_causal: bool = False, *, scale: Optional[float] = None, enable_gqa: bool = False, fallback: bool = True,
         model: bool = False) -> torch.Tensor:
    """torch.nn.functional.scaled_dot_product_attention by tilejit's kernels, with torch's arguments and torch's results. Forward only.

    Served: query, key, value f16 or bf16 on a GPU that has kernels, [B, H, S, E] or [H, S, E], E multiples of 8 up to 256; no dropout; no mask but
    is_causal, or one of torch.nn.attention.bias. Under torch.autocast, float32 as well. As in torch, query r of is_causal sees keys j <= r, also where
    there are more keys than queries; fmha's `causal` aligns the last query with the last key. Results have the order of query's dimensions in
    memory. Everything else, also what requires grad, is left to torch's own function, with one warning for each kind of reason.
    fallback=False: such a call raises tilejit.Error that says what is served. model=True: tensors on the CPU run on the model of a GPU, for
    tests; it is slow.

    >>> import torch, tilejit.torch
    >>> q = torch.ones(1, 2, 64, 64, dtype=torch.float16)
    >>> tilejit.torch.sdpa(q, q, q, is_causal=True, model=True)[0, 0, 0, :3]
    tensor([1., 1., 1.], dtype=torch.float16)
    >>> tilejit.torch.sdpa(q, q, q, dropout_p=0.5, fallback=False)
    Traceback (most recent call last):
        ...
    tilejit._error.Error: argument: sdpa: dropout_p is 0.5; served: 0
    """
    named, dtype = (("query", query), ("key", key), ("value", value)), _autocast_type(query)
    bias = None if attn_mask is None else _causal_bias(attn_mask)
    reason = _why_not(named, attn_mask, bias, dropout_p, is_causal, dtype, enable_gqa, model)
    if reason is None:
        if torch.compiler.is_compiling():
            return _serve(query, key, value, is_causal, bias, dtype, scale)
        try:
            return _serve(query, key, value, is_causal, bias, dtype, scale)
        except Error as error:
            if not fallback or error.stage not in _LEFT:
                raise
            reason = error.code, error.message
    if not fallback:
        raise Error(f"sdpa: {reason[1]}", code="unsupported")
    _warn(*reason)
    gqa = {"enable_gqa": True} if enable_gqa else {}  # which PyTorch 2.4 does not know
    return _torchs(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **gqa)
