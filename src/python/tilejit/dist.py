"""Attention over sequences that several GPUs hold together, and products beside their collectives: groups of ranks, one device each.

Decides how ranks of Python programs meet. What a call means is tilejit/dist.hpp's; NCCL moves the bytes.
"""
from __future__ import annotations

import ctypes
import os

from . import _c
from ._calls import Call, one_of, runtime_of, shape_of
from ._device import Device
from ._error import Error
from ._library import check, flag, library, number, numbers, real, shown
from ._ops import _FMHA_PAIR, _LAYOUTS, _fmha, _two
from ._products import _gemm
from ._runtime import Handle
from ._tensors import view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional, Sequence, Tuple, Union

    from ._runtime import Runtime
    from ._types import DeviceLike, StreamLike, SupportsDLPack, Tensor

__all__ = ["Group", "unique_id"]

_MOST_RANKS, _MOST_ROWS = 1024, 2**30
_MOST_REASONS = 4  # of ranks, in one message
_NVLS = "NCCL_NVLS_ENABLE"
_EXCHANGES = {"auto": 0, "keys": 1, "heads": 2}
_PREPARE = {"fmha": "tj_group_prepare", **{name: f"tj_group_prepare_{name}" for name in ("decode", "all_gather_gemm", "gemm_reduce_scatter")}}


def _put_lengths(args, counts) -> None:
    if counts is not None:
        args.lengths, args.lengths_count = (ctypes.c_int64 * len(counts))(*counts), len(counts)


def _gathered(process_group, size, get_ready):
    """What get_ready() gives on each rank, in their order. Where it fails on one, all raise, so that none waits for it."""
    from torch import distributed
    made = reason = None
    try:
        made = get_ready()
    except Exception as error:  # torch's own, too: a rank that does not come would keep the others waiting
        reason = str(error).partition("\n")[0] or type(error).__name__
    found = [(None, None)] * size
    distributed.all_gather_object(found, (made, reason), group=process_group)
    reasons = [f"rank {rank}: {told}" for rank, (_, told) in enumerate(found) if told is not None]
    if reasons:
        more = f"; and {len(reasons) - _MOST_REASONS} more" if len(reasons) > _MOST_REASONS else ""
        raise Error(f"the group cannot be joined; {'; '.join(reasons[:_MOST_REASONS])}{more}", "launch", "unsupported")
    return [each for each, _ in found]


def unique_id() -> bytes:
    """An id that one rank makes and brings to all others, for Group. Raises tilejit.Error without NCCL."""
    made = ctypes.create_string_buffer(_c.GROUP_ID_BYTES)
    check(library().tj_group_unique_id(made))
    return made.raw


class Group:
    """One rank's member of a group. Calls are collective: every rank makes the same ones in the same order.

    id: what unique_id() gave on one rank. device: this rank's, which is also the thread's current one. NCCL_NVLS_ENABLE=0 must be in the
    environment before the process's first communicator. Returns when all ranks have joined. Raises tilejit.Error. One call of a member at a time.

    A group ends with its last reference. Its rank has ended its work before, and meets the other ranks there: up to 25 s pass where one does not come.
    Ranks of one process by NCCL let go of their groups in threads of their own.
    """

    def __init__(self, id: bytes, rank: int, size: int, device: DeviceLike, *, runtime: Optional[Runtime] = None) -> None:
        if not isinstance(id, bytes) or len(id) != _c.GROUP_ID_BYTES:
            raise Error(f"id is {shown(id)}; allowed: the {_c.GROUP_ID_BYTES} bytes of unique_id()")
        rank, size = number(rank, "rank", -2**31, 2**31 - 1), number(size, "size", -2**31, 2**31 - 1)
        owner, handle = runtime_of(runtime).handle(), ctypes.c_void_p()
        check(library().tj_group_create(owner.value, id, rank, size, Device.of(device).c, ctypes.byref(handle)))
        self._take(handle, owner, rank, size)

    def _take(self, handle, owner, rank, size):
        self._handle = Handle(handle, library().tj_group_destroy, owner)
        self.rank, self.size = rank, size

    @classmethod
    def of_torch(cls, process_group: Any = None, device: Optional[DeviceLike] = None, *, runtime: Optional[Runtime] = None) -> Group:
        """A group of the ranks of a torch process group, by default of all. It has a communicator of its own; the process group only brings
        the id. device: by default torch's current GPU. Every rank calls it. Where one of them cannot join, such as one without NCCL_NVLS_ENABLE=0,
        all raise tilejit.Error, which names the rank."""
        import torch
        from torch import distributed
        rank, size = distributed.get_rank(process_group), distributed.get_world_size(process_group)
        if rank < 0:
            raise Error(f"process_group is {shown(process_group)}, which does not have this rank; allowed: one that does, or None for all ranks")
        places = []

        def get_ready():
            places.append(Device.of(f"cuda:{torch.cuda.current_device()}" if device is None else device))
            runtime_of(runtime).handle()
            found = os.environ.get(_NVLS)
            if found != "0":
                raise Error(f"{_NVLS} is {'not set' if found is None else shown(found)}; allowed: 0, set before the first communicator")
            return unique_id() if rank == 0 else None

        id = _gathered(process_group, size, get_ready)[0]
        return cls(id, rank, size, places[0], runtime=runtime)

    @classmethod
    def on_model(cls, size: int, *, runtime: Optional[Runtime] = None) -> List[Group]:
        """All ranks of a group of this process on the CPU model, each for a thread of its own. Needs no NCCL.

        >>> import numpy, threading, tilejit.dist
        >>> q = numpy.ones((1, 8, 2, 64), numpy.float16)  # [B, S, H, D], rows of each rank
        >>> o = {}
        >>> def run(member):
        ...     o[member.rank] = member.fmha(q, q, q, causal=True, layout="bshd")
        >>> threads = [threading.Thread(target=run, args=(member,)) for member in tilejit.dist.Group.on_model(2)]
        >>> for each in threads: each.start()
        >>> for each in threads: each.join()
        >>> o[1].shape
        (1, 8, 2, 64)
        """
        ranks = number(size, "size", 1, _MOST_RANKS)
        owner, handles = runtime_of(runtime).handle(), (ctypes.c_void_p * ranks)()
        check(library().tj_group_on_model(owner.value, ranks, handles))
        members = []
        for rank in range(ranks):
            members.append(cls.__new__(cls))
            members[-1]._take(ctypes.c_void_p(handles[rank]), owner, rank, ranks)
        return members

    def fmha(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, split: str = "zigzag", lengths: Optional[Sequence[int]] = None,
             scale: Optional[float] = None, window_left: Optional[int] = None, softcap: float = 0.0,
             window_right: Optional[int] = None, alibi_slopes: Optional[SupportsDLPack] = None, sinks: Optional[SupportsDLPack] = None,
             cu_seqlens: Optional[SupportsDLPack] = None, exchange: str = "auto", out: Any = None, return_lse: bool = False, layout: str = "bhsd",
             max_sms: int = 0, stream: Optional[StreamLike] = None) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        """Attention of this rank's rows over the keys of all ranks; every rank calls it with its own rows.

        q [B, H, S, D], k [B, Hkv, S, D], v [B, Hkv, S, Dv], o [B, H, S, Dv], or with layout="bshd" the second and third dimensions exchanged; rows
        of k and v lie one behind another. split, the rows that rank r of P holds: "contiguous", one run; "zigzag", of 2 P pieces those of number r
        and 2 P - 1 - r; "striped", rows r, r + P, ... lengths: S of each rank, where contiguous runs differ. window_left: keys that a query
        sees before its place, window_right: behind it. exchange: "keys" go to the ranks whose rows see them; "heads": each rank gets all rows of
        H / P heads, and sends their results back, which any mask goes with; "auto": keys, unless heads alone serve the call, or are predicted to be
        faster. cu_seqlens i32 [N + 1], with heads: the rows of all ranks are those of N sequences, and B is 1. Other arguments are tilejit.fmha's.
        Returns o, or (o, lse). Raises tilejit.Error.
        """
        call, args = self._fmha(q, k, v, causal=causal, split=split, lengths=lengths, scale=scale, window_left=window_left, window_right=window_right,
                                softcap=softcap, alibi_slopes=alibi_slopes, sinks=sinks, cu_seqlens=cu_seqlens, exchange=exchange, out=out,
                                return_lse=return_lse, layout=layout, max_sms=max_sms, stream=stream)
        check(library().tj_group_fmha(self._handle.value, ctypes.byref(args), call.stream() or None))
        made = call.made()
        return made if len(made) > 1 else made[0]

    def _counts(self, lengths):
        """Rows of each rank, or None: checked before results are allocated by them."""
        if lengths is None:
            return None
        counts = numbers(lengths, "lengths", 0, _MOST_ROWS)
        if len(counts) != self.size:
            raise Error(f"lengths has {len(counts)} numbers; allowed: one a rank, {self.size}, or None")
        return counts

    def _fmha(self, q, k, v, *, causal=False, split="zigzag", lengths=None, scale=None, window_left=None, window_right=None, softcap=0.0,
              alibi_slopes=None, sinks=None, cu_seqlens=None, exchange="auto", out=None, return_lse=False, layout="bhsd", max_sms=0, stream=None,
              asks=False):
        swapped = one_of("layout", layout, _LAYOUTS)
        args = _c.ContextFmhaArgs(causal=flag(causal, "causal"), heads_first=not swapped, split=one_of("split", split, _c.SPLITS),
                                  exchange=one_of("exchange", exchange, _EXCHANGES), softcap=real(softcap, "softcap"),
                                  max_sms=number(max_sms, "max_sms", -2**31, 2**31 - 1))
        if window_left is not None or window_right is not None:
            left, right = (-1 if side is None else number(side, name, -2**63, 2**63 - 1)
                           for side, name in ((window_left, "window_left"), (window_right, "window_right")))
            args.window_left, args.window_right, args.has_window = left, right, 1
        _put_lengths(args, self._counts(lengths))
        call, return_lse = Call("context fmha", args, stream, asks), flag(return_lse, "return_lse")
        q, k, v = call.tensor("q", q), call.tensor("k", k), call.tensor("v", v)
        slopes, sinks = call.tensor("alibi_slopes", alibi_slopes, True), call.tensor("sinks", sinks, True)
        cu_seqlens = call.tensor("cu_seqlens", cu_seqlens, True)
        out, lse_out = _two(out, _FMHA_PAIR) if return_lse else (out, None)
        o = call.result("out", out, q, (*shape_of(q, 4)[:3], shape_of(v, 4)[3]), q.dtype)
        if swapped:
            for each in (q, shape_of(k, 4) and k, v, shape_of(o, 4) and o):
                each.swap(1, 2)
        lse = call.result("lse", lse_out, q, q.shape[:3], "f32") if return_lse else None
        call.put(q=q, k=k, v=v, o=o, lse=lse, alibi_slopes=slopes, sinks=sinks, cu_seqlens=cu_seqlens)
        call.scale(scale)
        return call, args

    def decode(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: Optional[float] = None, softcap: float = 0.0,
               sinks: Optional[SupportsDLPack] = None, cu_seqlens_q: Optional[SupportsDLPack] = None, cu_seqlens_k: Optional[SupportsDLPack] = None,
               seqused_k: Optional[SupportsDLPack] = None, block_table: Optional[SupportsDLPack] = None, bias: Optional[SupportsDLPack] = None,
               score_mod: Optional[str] = None, mask_mod: Optional[str] = None, key_range: Optional[str] = None,
               mod_params: Optional[SupportsDLPack] = None, out: Any = None, return_lse: bool = False, layout: str = "bhsd", max_sms: int = 0,
               stream: Optional[StreamLike] = None) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        """Attention of a few queries over a cache that the ranks hold together; every rank calls it with all queries and its own keys.

        Arguments are tilejit.fmha's, over this rank's keys alone: k and v, cu_seqlens_k, seqused_k, block_table, bias, texts and mod_params are the
        rank's own, and count its keys from 0. A rank may have any number of a sequence's keys, also none. q, cu_seqlens_q and all else are equal on
        all ranks. Outputs over parts are merged in f32 in the ranks' order. All ranks get the output over the keys of all, in equal bits.
        causal: with one query a sequence alone, q [B, H, 1, D]. Returns o, or (o, lse). Raises tilejit.Error.

        >>> import numpy, threading, tilejit.dist
        >>> q, keys = numpy.ones((1, 2, 1, 64), numpy.float16), [numpy.full((1, 2, rows, 64), rows, numpy.float16) for rows in (1, 3)]
        >>> o = {}
        >>> def run(member):
        ...     o[member.rank] = member.decode(q, numpy.ones_like(keys[member.rank]), keys[member.rank])
        >>> threads = [threading.Thread(target=run, args=(member,)) for member in tilejit.dist.Group.on_model(2)]
        >>> for each in threads: each.start()
        >>> for each in threads: each.join()
        >>> float(o[0][0, 0, 0, 0]), float(o[1][0, 0, 0, 0])  # the mean of 1, 3, 3, 3
        (2.5, 2.5)
        """
        call, args = self._decode(q, k, v, causal=causal, scale=scale, softcap=softcap, sinks=sinks, cu_seqlens_q=cu_seqlens_q,
                                  cu_seqlens_k=cu_seqlens_k, seqused_k=seqused_k, block_table=block_table, bias=bias, score_mod=score_mod,
                                  mask_mod=mask_mod, key_range=key_range, mod_params=mod_params, out=out, return_lse=return_lse, layout=layout,
                                  max_sms=max_sms, stream=stream)
        check(library().tj_group_decode(self._handle.value, ctypes.byref(args), call.stream() or None))
        made = call.made()
        return made if len(made) > 1 else made[0]

    def _decode(self, q, k, v, **options):
        call = _fmha(q, k, v, **options)
        return call, _c.ContextDecodeArgs(attention=ctypes.pointer(call.args))

    def all_gather_gemm(self, a: Tensor, b: Tensor, *, lengths: Optional[Sequence[int]] = None, c: Optional[SupportsDLPack] = None,
                        bias: Optional[SupportsDLPack] = None, alpha: float = 1, beta: float = 0, activation: Optional[str] = None, out: Any = None,
                        dtype: Optional[str] = None, max_sms: int = 0, stream: Optional[StreamLike] = None) -> Tensor:
        """A product whose rows of a are split over the ranks: a [M of this rank, K], contiguous; b [N, K], this rank's own; returns d [M of all
        ranks, N], while rows of other ranks travel beside the products. c is as d. lengths: M of each rank, where they differ. Other arguments are
        tilejit.gemm's. Raises tilejit.Error.
        """
        return self._run_product("all_gather_gemm", a, b, lengths=lengths, c=c, bias=bias, alpha=alpha, beta=beta, activation=activation, out=out,
                                 dtype=dtype, max_sms=max_sms, stream=stream)

    def gemm_reduce_scatter(self, a: Tensor, b: Tensor, *, lengths: Optional[Sequence[int]] = None, c: Optional[SupportsDLPack] = None,
                            bias: Optional[SupportsDLPack] = None, alpha: float = 1, beta: float = 0, activation: Optional[str] = None, out: Any = None,
                            dtype: Optional[str] = None, max_sms: int = 0, stream: Optional[StreamLike] = None) -> Tensor:
        """A product whose K is split over the ranks: a [M of all ranks, K of this rank], b [N, K of this rank]; returns this rank's rows of the sum
        over all ranks, d [M of this rank, N], added in f32 in the ranks' order. c is as d. lengths: rows of d of each rank, where they differ.
        Other arguments are tilejit.gemm's. Raises tilejit.Error.
        """
        return self._run_product("gemm_reduce_scatter", a, b, lengths=lengths, c=c, bias=bias, alpha=alpha, beta=beta, activation=activation,
                                 out=out, dtype=dtype, max_sms=max_sms, stream=stream)

    def _run_product(self, name, a, b, **options):
        call, args = self._product(name, a, b, **options)
        check(getattr(library(), f"tj_group_{name}")(self._handle.value, ctypes.byref(args), call.stream() or None))
        return call.made()[0]

    def _product(self, name, a, b, *, lengths=None, c=None, bias=None, alpha=1, beta=0, activation=None, out=None, dtype=None, max_sms=0, stream=None,
                 asks=False):
        counts, gathers = self._counts(lengths), name == "all_gather_gemm"
        if counts is not None:
            rows = sum(counts) if gathers else counts[self.rank]
        else:
            own = shape_of(view("a", a), 2)[0]
            rows = own * self.size if gathers else own // self.size
        call = _gemm(a, b, c=c, bias=bias, alpha=alpha, beta=beta, activation=activation, out=out, dtype=dtype, max_sms=max_sms, stream=stream,
                     asks=asks, rows=rows)
        args = _c.SplitGemmArgs(product=ctypes.pointer(call.args))
        _put_lengths(args, counts)
        return call, args

    def prepare(self, call: str, *tensors: Tensor, **options: Any) -> None:
        """Gets this rank's kernels of a call ready, without sending anything or waiting for other ranks. A graph's capture needs it before.

        call: "fmha", "decode", "all_gather_gemm" or "gemm_reduce_scatter". tensors and options are that call's; a tilejit.Spec may stand for a tensor.
        Results are neither allocated nor written. Raises tilejit.Error.

        >>> import tilejit.dist
        >>> q = tilejit.Spec((1, 2, 8, 64), "f16", "cpu")  # rows of each rank
        >>> for member in tilejit.dist.Group.on_model(2): member.prepare("fmha", q, q, q, causal=True)
        """
        prepare = getattr(library(), one_of("call", call, _PREPARE))
        makers = {"fmha": self._fmha, "decode": self._decode}
        made, args = makers[call](*tensors, asks=True, **options) if call in makers else self._product(call, *tensors, asks=True, **options)
        check(prepare(self._handle.value, ctypes.byref(args)))

    def check(self) -> None:
        """Raises tilejit.Error when NCCL has met an error since, such as a rank that is gone, or when bytes of a rank have not come in time. Never
        waits."""
        check(library().tj_group_check(self._handle.value))

    def description(self) -> str:
        """How keys and values travel, or why not by copies.

        >>> import tilejit.dist
        >>> tilejit.dist.Group.on_model(2)[0].description()
        'messages'
        """
        text = ctypes.c_char_p()
        check(library().tj_group_description(self._handle.value, ctypes.byref(text)))
        return text.value.decode()
