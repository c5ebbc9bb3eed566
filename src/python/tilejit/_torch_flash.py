"""flash_attn_func, flash_attn_varlen_func and flash_attn_with_kvcache of the package flash_attn: their arguments, and which of them are served here.

Decides how their names become those of fmha, and what is refused. Invariant: what is served has the values that flash_attn gives; nothing is left
to another library. Everything here can be traced by torch.compile.
"""
from __future__ import annotations

import torch

from . import _torch_lists as lists
from . import _torch_ops  # noqa: F401 -- the operators
from ._error import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple, Union

# Arguments of FlashAttention-3 and 4 that have one value here, with why: the others ask for another kernel.
_ONLY = {
    "qv": (None, "a second part of queries is not served"),
    "q_v": (None, "a second part of queries is not served"),
    "seqused_q": (None, "cu_seqlens_q has the lengths of queries"),
    "q_descale": (None, "8-bit types are not served"),
    "k_descale": (None, "8-bit types are not served"),
    "v_descale": (None, "8-bit types are not served"),
    "attention_chunk": (0, "chunks of keys are not served"),
    "sm_margin": (0, "tilejit.fmha(max_sms=) leaves multiprocessors to others"),
    "rotary_seqlens": (None, "rotations are not served"),
}


_WHOLE = (torch.int32, torch.int64)
_HINTS = ("scheduler_metadata", "fa_version")  # of how to compute: blocks find their tiles themselves, and there is one version


def _refuse(name: str, value, allowed: str, function: str = "flash_attn_func"):
    raise Error(f"{function}: {name} is {value}; allowed: {allowed}", code="unsupported")


def _served(function, dropout_p, num_splits, pack_gqa, others):
    """Refuses what asks for another kernel. How many parts keys are cut into and whether a group's heads share a tile is predicted here."""
    if dropout_p != 0:
        _refuse("dropout_p", dropout_p, "0", function)
    if not isinstance(num_splits, int) or num_splits < 0:
        _refuse("num_splits", num_splits, "a number from 0, a hint", function)
    if pack_gqa not in (None, True, False):
        _refuse("pack_gqa", pack_gqa, "None, True and False, a hint", function)
    for name, value in others.items():
        if name in _HINTS:
            continue
        if name not in _ONLY:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        only, why = _ONLY[name]
        if value is not only and (isinstance(value, torch.Tensor) or value != only):
            _refuse(name, type(value).__name__ if isinstance(value, torch.Tensor) else value, f"{only}, as {why}", function)


def _window(window_size, function="flash_attn_func"):
    """(left, right); None on a side is all keys, as FlashAttention-4 has it."""
    if not isinstance(window_size, (tuple, list)) or len(window_size) != 2:
        _refuse("window_size", window_size, "(left, right), each a number of keys, or -1 for all", function)
    return [-1 if side is None or side < 0 else int(side) for side in window_size]


def flash_attn_func(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout_p: float = 0.0, softmax_scale: Optional[float] = None,
                    causal: bool = False, window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                    alibi_slopes: Optional[torch.Tensor] = None, deterministic: bool = False, return_attn_probs: bool = False, *,
                    learnable_sink: Optional[torch.Tensor] = None, num_splits: int = 1, pack_gqa: Optional[bool] = None,
                    **others: object) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor, None]]:
    """flash_attn.flash_attn_func by tilejit's kernels: its arguments, and forward passes only.

    q [B, Sq, H, D]; k [B, Sk, Hkv, D]; v [B, Sk, Hkv, Dv], f16 or bf16, D and Dv multiples of 8 up to 256, H a multiple of Hkv. causal and
    window_size align the last query with the last key. A row without a key gives 0. alibi_slopes f32 [H] or [B, H]; learnable_sink [H] joins each
    row's sum. Returns o [B, Sq, H, Dv]; with return_attn_probs (o, lse f32 [B, H, Sq], None). Results are the same bits each time, whatever
    deterministic says. num_splits and pack_gqa are hints that change nothing: the library predicts both. Any other argument of FlashAttention-3
    is refused by name, and so is dropout. Runs on the current stream. Raises tilejit.Error.
    >>> import torch, tilejit.torch
    >>> q = torch.ones(1, 64, 2, 64, dtype=torch.float16)
    >>> tilejit.torch.flash_attn_func(q, q, q, causal=True, window_size=(16, 0)).shape
    torch.Size([1, 64, 2, 64])
    >>> tilejit.torch.flash_attn_func(q, q, q, dropout_p=0.5)
    Traceback (most recent call last):
        ...
    tilejit._error.Error: argument: flash_attn_func: dropout_p is 0.5; allowed: 0
    """
    _served("flash_attn_func", dropout_p, num_splits, pack_gqa, others)
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise Error(f"flash_attn_func: {name}.rank is {x.dim()}; allowed: 4 ([B, S, H, D])")
    left, right = _window(window_size)
    sinks = None if learnable_sink is None else learnable_sink.to(torch.float32)
    options = dict(causal=causal, scale=softmax_scale, window_left=left, window_right=right, softcap=softcap, alibi_slopes=alibi_slopes, sinks=sinks)
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    if not return_attn_probs:
        return torch.ops.tilejit.fmha(*turned, **options).transpose(1, 2)
    o, lse = torch.ops.tilejit.fmha_lse(*turned, **options)
    return o.transpose(1, 2), lse, None


def flash_attn_varlen_func(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: Optional[torch.Tensor] = None,
                           max_seqlen_q: Optional[int] = None, max_seqlen_k: Optional[int] = None, dropout_p: float = 0.0,
                           softmax_scale: Optional[float] = None, causal: bool = False, window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                           alibi_slopes: Optional[torch.Tensor] = None, deterministic: bool = False, return_attn_probs: bool = False,
                           block_table: Optional[torch.Tensor] = None, *, seqused_k: Optional[torch.Tensor] = None,
                           learnable_sink: Optional[torch.Tensor] = None, s_aux: Optional[torch.Tensor] = None, out: Optional[torch.Tensor] = None,
                           return_softmax_lse: bool = False, num_splits: int = 0, pack_gqa: Optional[bool] = None,
                           **others: object) -> Union[torch.Tensor, Tuple[torch.Tensor, ...]]:
    """flash_attn.flash_attn_varlen_func by tilejit's kernels: its arguments, and forward passes only.

    q [T, H, D]; k [Tk, Hkv, D]; v [Tk, Hkv, Dv]: rows of sequences one behind the other, where cu_seqlens_q and cu_seqlens_k i32 [B + 1] say;
    seqused_k i32 [B]: the keys of each that count. block_table i32 [B, pages]: k and v are [pages, page size, Hkv, D], and lengths are seqused_k, or
    those of cu_seqlens_k. Lists are read on the device, so that a CUDA graph serves other lengths. The longest lengths are not needed: any number is
    taken. Masks, scores and refusals are flash_attn_func's; s_aux is another name of learnable_sink. Returns o [T, H, Dv], or out; with
    return_attn_probs (o, lse f32 [H, T], None), with return_softmax_lse (o, lse). Raises tilejit.Error.
    >>> import torch, tilejit.torch
    >>> q, ends = torch.ones(10, 2, 64, dtype=torch.float16), torch.tensor([0, 3, 10], dtype=torch.int32)
    >>> tilejit.torch.flash_attn_varlen_func(q, q, q, ends, ends, 7, 7, causal=True).shape
    torch.Size([10, 2, 64])
    """
    name = "flash_attn_varlen_func"
    _served(name, dropout_p, num_splits, pack_gqa, others)
    for given, x in (("q", q), ("k", k), ("v", v)):
        rank = 3 if given == "q" or block_table is None else 4
        if x.dim() != rank:
            form = "[T, H, D]" if given == "q" else "[pages, page size, Hkv, D]" if rank == 4 else "[Tk, Hkv, D]"
            raise Error(f"{name}: {given}.rank is {x.dim()}; allowed: {rank} ({form})")
    sinks = learnable_sink if s_aux is None else s_aux
    left, right = _window(window_size, name)
    options = dict(causal=causal, scale=softmax_scale, window_left=left, window_right=right, softcap=softcap, alibi_slopes=alibi_slopes,
                   sinks=None if sinks is None else sinks.to(torch.float32), cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, seqused_k=seqused_k,
                   block_table=block_table)
    wants_lse = return_attn_probs or return_softmax_lse
    o, lse = out, torch.empty((q.shape[1], q.shape[0]), dtype=torch.float32, device=q.device) if wants_lse else None
    if out is not None:
        torch.ops.tilejit.fmha_out(q, k, v, out, lse=lse, **options)
    elif wants_lse:
        o, lse = torch.ops.tilejit.fmha_lse(q, k, v, **options)
    else:
        o = torch.ops.tilejit.fmha(q, k, v, **options)
    return (o, lse, None) if return_attn_probs else (o, lse) if return_softmax_lse else o


def _ends(count, step, device):
    """The list of count sequences of one length."""
    return torch.arange(count + 1, dtype=torch.int32, device=device) * step


def _new_places(new, used, cu_seqlens_k_new):
    """For each row of new keys: its sequence, its place there, and whether it is one of a sequence; for each sequence how many it gets.

    new [B, S, Hkv, D], or [T, Hkv, D] with a list. Numbers that are bad lead to no row: those of a list that falls are nobody's.
    """
    rows = new.shape[0] if cu_seqlens_k_new is not None else new.shape[0] * new.shape[1]
    row = torch.arange(rows, device=new.device)
    if cu_seqlens_k_new is None:
        each = new.shape[1]
        sequence, count = row // max(each, 1), torch.full_like(used, each)
        return sequence, used[sequence] + row % max(each, 1), used[sequence] >= 0, count
    ends = cu_seqlens_k_new.long()
    sequence = torch.searchsorted(ends, row, right=True).sub(1).clamp(0, used.shape[0] - 1)
    known = (used[sequence] >= 0) & (row >= ends[sequence]) & (row < ends[sequence + 1])
    return sequence, used[sequence] + row - ends[sequence], known, ends.diff().clamp(0)


def _checked_new(name, k, v, k_cache, v_cache, cache_seqlens, batch, cu_seqlens_k_new, pages):
    """Refuses new keys and values that do not belong to the cache, before anything is written."""
    if k is None or v is None or cache_seqlens is None:
        missing = "k" if k is None else "v" if v is None else "cache_seqlens"
        raise Error(f"{name}: {missing} is None; allowed with new keys: k, v and cache_seqlens together")
    if cu_seqlens_k_new is not None and (tuple(cu_seqlens_k_new.shape) != (batch + 1,) or cu_seqlens_k_new.dtype not in _WHOLE):
        given = f"{cu_seqlens_k_new.dtype} {list(cu_seqlens_k_new.shape)}"
        raise Error(f"{name}: cu_seqlens_k_new is {given}; allowed: torch.int32 [{batch + 1}], one more than sequences")
    for given, x, cache in (("k", k, k_cache), ("v", v, v_cache)):
        rows = (k.shape[0],) if cu_seqlens_k_new is not None else (batch, k.shape[1] if k.dim() == 4 else 0)
        wanted = (*rows, *cache.shape[2:])
        if tuple(x.shape) != wanted or x.dtype != cache.dtype:
            raise Error(f"{name}: {given} is {list(x.shape)} of {x.dtype}; allowed: {list(wanted)} of {cache.dtype}, as {given}_cache")
    most = k_cache.shape[1] * pages
    if isinstance(cache_seqlens, torch.Tensor):
        lists.check(name, "cache_seqlens", cache_seqlens, lambda n, given: (0, most, ", the cache's keys of a sequence"))
    if cu_seqlens_k_new is not None:
        lists.check_ends(name, "cu_seqlens_k_new", cu_seqlens_k_new, k.shape[0], f", rising to k's {k.shape[0]} rows")


def _append(k, v, k_cache, v_cache, used, block_table, cu_seqlens_k_new):
    """Writes new keys and values behind those that count. Returns how many count then. Nothing waits, so that a graph captures it.

    A row that has no place (padding, a page outside of the pool, the cache's end) writes once more what the first row with a place writes.
    """
    kept, size, pages = used.long(), k_cache.shape[1], 1 if block_table is None else block_table.shape[1]
    sequence, place, known, count = _new_places(k, kept, cu_seqlens_k_new) if len(kept) else (None, (), None, kept)
    if len(place) and size and pages and k_cache.shape[0]:
        page = sequence if block_table is None else block_table.long()[sequence, (place // size).clamp(0, pages - 1)]
        served = known & (place >= 0) & (place < size * pages) & (page >= 0) & (page < k_cache.shape[0])
        first = served.int().argmax().reshape(1)
        page = torch.where(served, page, page.index_select(0, first)).clamp(0, k_cache.shape[0] - 1)
        place = torch.where(served, place, place.index_select(0, first)) % size
        for x, cache in ((k, k_cache), (v, v_cache)):
            rows = x.reshape(len(place), *x.shape[-2:])
            rows = torch.where(served[:, None, None], rows, rows.index_select(0, first))
            cache.index_put_((page, place), torch.where(served.any(), rows, cache[page, place]))
    return lists.narrowed(torch.where(kept < 0, kept, kept + count))


def _table_of_pages(name, batch, block_table, page_table, cache_batch_idx):
    """The table that was given, under whichever name. A cache's sequences by number are its pages."""
    given = [(n, t) for n, t in (("block_table", block_table), ("page_table", page_table), ("cache_batch_idx", cache_batch_idx)) if t is not None]
    if not given:
        return None
    if len(given) > 1:
        _refuse(given[1][0], f"given beside {given[0][0]}", "one of block_table, page_table and cache_batch_idx", name)
    (which, table), form = given[0], f"[{batch}]" if cache_batch_idx is not None else f"[{batch}, pages]"
    if table.dim() != (1 if cache_batch_idx is not None else 2) or table.shape[0] != batch:
        raise Error(f"{name}: {which} is {list(table.shape)}; allowed: {form}, as q has sequences")
    if table.dtype != torch.int32 and (cache_batch_idx is None or table.dtype not in _WHOLE):
        raise Error(f"{name}: {which}.dtype is {table.dtype}; allowed: torch.int32")
    return table if cache_batch_idx is None else lists.narrowed(table)[:, None]


def flash_attn_with_kvcache(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, k: Optional[torch.Tensor] = None,
                            v: Optional[torch.Tensor] = None, rotary_cos: Optional[torch.Tensor] = None, rotary_sin: Optional[torch.Tensor] = None,
                            cache_seqlens: Optional[Union[int, torch.Tensor]] = None, cache_batch_idx: Optional[torch.Tensor] = None,
                            cache_leftpad: Optional[torch.Tensor] = None, block_table: Optional[torch.Tensor] = None,
                            softmax_scale: Optional[float] = None, causal: bool = False, window_size: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
                            rotary_interleaved: bool = True, alibi_slopes: Optional[torch.Tensor] = None, num_splits: int = 0,
                            return_softmax_lse: bool = False, *, learnable_sink: Optional[torch.Tensor] = None, s_aux: Optional[torch.Tensor] = None,
                            out: Optional[torch.Tensor] = None, pack_gqa: Optional[bool] = None, page_table: Optional[torch.Tensor] = None,
                            cu_seqlens_q: Optional[torch.Tensor] = None, cu_seqlens_k_new: Optional[torch.Tensor] = None,
                            max_seqlen_q: Optional[int] = None, **others: object) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """flash_attn.flash_attn_with_kvcache by tilejit's kernels, with k and v appended to the cache first.

    q [B, Sq, H, D], or [T, H, D] with cu_seqlens_q i32 [B + 1]; k_cache and v_cache [B, Sk, Hkv, D], or [pages, page size, Hkv, D] with block_table
    i32 [B, pages], which FlashAttention-3 calls page_table. cache_batch_idx i32 [B]: which sequence of a cache without pages each one reads.
    cache_seqlens: the keys of each sequence that count, i32 [B] or one number; all of them without it. k and v [B, S, Hkv, D], or [Tnew, Hkv, D] with
    cu_seqlens_k_new i32 [B + 1]: new keys and values. torch writes them into the cache behind those that count, and they count then. Rows behind the
    list's last number, behind the cache's end, of pages outside of the pool, or of sequences whose numbers are bad are not written; TJ_CHECK=1 names
    the first bad number before anything is written. max_seqlen_q is not needed. rotary_cos, rotary_sin and cache_leftpad are refused by name, before
    anything is written; the other arguments are flash_attn_func's. Returns o like q with Dv, and with
    return_softmax_lse (o, lse f32 [B, H, Sq] or [H, T]). Raises tilejit.Error.
    >>> import torch, tilejit.torch
    >>> q, cache = torch.ones(2, 1, 4, 64, dtype=torch.float16), torch.ones(2, 30, 2, 64, dtype=torch.float16)
    >>> tilejit.torch.flash_attn_with_kvcache(q, cache, cache, cache_seqlens=17, causal=True).shape
    torch.Size([2, 1, 4, 64])
    """
    name = "flash_attn_with_kvcache"
    for given, x, why in (("rotary_cos", rotary_cos, "rotations are not served"), ("rotary_sin", rotary_sin, "rotations are not served"),
                          ("cache_leftpad", cache_leftpad, "it is not served")):
        if x is not None:
            _refuse(given, type(x).__name__, f"None, as {why}", name)
    _served(name, 0.0, num_splits, pack_gqa, others)
    _window(window_size, name)
    for given, x, rank in (("q", q, 4 if cu_seqlens_q is None else 3), ("k_cache", k_cache, 4), ("v_cache", v_cache, 4)):
        if x.dim() != rank:
            raise Error(f"{name}: {given}.rank is {x.dim()}; allowed: {rank}")
    batch, keys, ends = q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1, k_cache.shape[1], None
    table = _table_of_pages(name, batch, block_table, page_table, cache_batch_idx)
    if table is None and k_cache.shape[0] != batch:
        raise Error(f"{name}: k_cache.shape[0] (B) is {k_cache.shape[0]}; allowed: {batch}, as q has sequences, or a block_table")
    used = cache_seqlens
    pages = 1 if table is None else table.shape[1]
    if used is None or isinstance(used, int):
        if used is not None and not 0 <= used <= keys * pages:
            raise Error(f"{name}: cache_seqlens is {used}; allowed: 0 to {keys * pages}, the cache's keys of a sequence")
        used = torch.full((batch,), keys * pages if used is None else used, dtype=torch.int32, device=q.device)
    if tuple(used.shape) != (batch,) or used.dtype != torch.int32:
        raise Error(f"{name}: cache_seqlens is {used.dtype} {list(used.shape)}; allowed: torch.int32 [{batch}], or a number")
    if k is not None or v is not None or cu_seqlens_k_new is not None:
        _checked_new(name, k, v, k_cache, v_cache, cache_seqlens, batch, cu_seqlens_k_new, pages)
        used = _append(k, v, k_cache, v_cache, used, table, cu_seqlens_k_new)
    if table is None:
        k_cache, v_cache, ends = k_cache.flatten(0, 1), v_cache.flatten(0, 1), _ends(batch, keys, q.device)
    options = dict(softmax_scale=softmax_scale, causal=causal, window_size=window_size, softcap=softcap, alibi_slopes=alibi_slopes, block_table=table,
                   seqused_k=used, learnable_sink=learnable_sink, s_aux=s_aux, return_softmax_lse=return_softmax_lse, num_splits=num_splits,
                   pack_gqa=pack_gqa, **others)
    if cu_seqlens_q is not None:
        return flash_attn_varlen_func(q, k_cache, v_cache, cu_seqlens_q, ends, out=out, **options)
    rows = q.shape[1]
    result = flash_attn_varlen_func(q.flatten(0, 1), k_cache, v_cache, _ends(batch, rows, q.device), ends,
                                    out=None if out is None else out.view(batch * rows, *out.shape[2:]), **options)
    o, lse = result if return_softmax_lse else (result, None)
    o = out if out is not None else o.unflatten(0, (batch, rows))
    return (o, lse.unflatten(1, (batch, rows)).transpose(0, 1)) if return_softmax_lse else o
