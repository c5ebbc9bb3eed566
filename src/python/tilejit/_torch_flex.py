"""flex_attention of torch.nn.attention.flex_attention: its arguments, with device code in the place of functions of Python.

Decides how its names become those of fmha, and what is refused. Everything here can be traced by torch.compile.
"""
from __future__ import annotations

import torch

from . import _torch_ops  # noqa: F401 -- the operators
from ._error import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple, Union


def _text(name: str, given, example: str):
    if given is None or isinstance(given, str):
        return given
    kind = "a function of Python" if callable(given) else type(given).__name__
    raise Error(f"flex_attention: {name} is {kind}; allowed: None or device code as a text, such as {example!r}, with what it reads in params=",
                code="unsupported")


def flex_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, score_mod: Optional[str] = None, block_mask: None = None,
                   scale: Optional[float] = None, enable_gqa: bool = False, return_lse: bool = False, kernel_options: None = None, *,
                   mask_mod: Optional[str] = None, key_range: Optional[str] = None, params: Optional[torch.Tensor] = None,
                   bias: Optional[torch.Tensor] = None, causal: bool = False) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """torch's flex_attention by tilejit's kernels, whose modifications are a few lines of device code. Forward passes only.

    query [B, H, Sq, D]; key [B, Hkv, Sk, D]; value [B, Hkv, Sk, Dv], f16 or bf16; H is Hkv without enable_gqa, else a multiple of it.
    score_mod is the body of a function of (score, b, h, q, k, params) that returns the score, behind the scale; mask_mod one of (b, h, q, k,
    params) that returns whether the query sees the key. key_range bounds the keys that queries see, so that blocks of others are skipped; it
    stands in the place of torch's block_mask. q and k are torch's q_idx and kv_idx, the numbers of rows. params i32 or f32 [N] is what texts read,
    as params.i32(n) and params.f32(n). bias is added to scores; causal hides keys with k > q. Functions of Python, block_mask and kernel_options are
    refused by name. Returns o [B, H, Sq, Dv], with return_lse (o, lse f32 [B, H, Sq]). Raises tilejit.Error.
    >>> import torch, tilejit.torch
    >>> q = torch.ones(1, 2, 64, 64, dtype=torch.float16)
    >>> tilejit.torch.flex_attention(q, q, q, mask_mod="return q - k < 16;").shape
    torch.Size([1, 2, 64, 64])
    """
    options = dict(score_mod=_text("score_mod", score_mod, "return score * 2;"), mask_mod=_text("mask_mod", mask_mod, "return k <= q;"),
                   key_range=_text("key_range", key_range, "k1 = q1;"))
    for name, given, instead in (("block_mask", block_mask, "mask_mod= and key_range= say what it says"),
                                 ("kernel_options", kernel_options, "tiles are the library's to choose")):
        if given is not None:
            raise Error(f"flex_attention: {name} is {type(given).__name__}; allowed: None, as {instead}", code="unsupported")
    if not enable_gqa and query.dim() == 4 and key.dim() == 4 and query.shape[1] != key.shape[1]:
        raise Error(f"flex_attention: key.shape[1] (Hkv) is {key.shape[1]} and enable_gqa is False; allowed: {query.shape[1]}, as query.shape[1]")
    options.update(scale=scale, bias=bias, mod_params=params, causal=causal, top_left=True)
    if return_lse:
        return torch.ops.tilejit.fmha_lse(query, key, value, **options)
    return torch.ops.tilejit.fmha(query, key, value, **options)
