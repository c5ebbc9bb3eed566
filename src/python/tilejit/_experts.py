"""Ops of mixture-of-experts layers: the calls of Python, and how their arguments become structures of C; see _ops.py."""
from __future__ import annotations

from . import _c
from ._calls import Call, one_of, runtime_of, shape_of
from ._error import Error
from ._library import device_text, flag, number, real
from ._products import objects_of, put_results, result_type
from ._ready import plain, short
from ._tensors import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple, Union

    from ._runtime import Runtime
    from ._types import StreamLike, SupportsDLPack, Tensor


def _grouped_gemm(a, b, groups, *, grouping="ends", bias=None, alpha=1, activation=None, out=None, dtype=None, scale_a=None, scale_b=None,
                  expected_rows=0, c=None, beta=0, gate=None, gate_interleaved=False, powers_of_two=False, packed=False, end_text=None,
                  end_params=None, max_sms=0, stream=None, asks=False):
    args = _c.GroupedGemmArgs(expected_rows=number(expected_rows, "expected_rows", -2**63, 2**63 - 1), alpha=real(alpha, "alpha"),
                              grouping=one_of("grouping", grouping, _c.GROUPINGS), activation=one_of("activation", activation, _c.ACTIVATIONS),
                              max_sms=number(max_sms, "max_sms", -2**31, 2**31 - 1), beta=real(beta, "beta"),
                              gate=one_of("gate", gate, _c.ACTIVATIONS), gate_interleaved=flag(gate_interleaved, "gate_interleaved"),
                              powers_of_two=max(flag(powers_of_two, "powers_of_two"), flag(packed, "packed")),
                              end_text=device_text("end_text", end_text))
    call = Call("grouped_gemm", args, stream, asks)
    a, b, groups = call.tensor("a", a), call.tensor("b", b), call.tensor("groups", groups)
    bias, scale_a, scale_b, c = (call.tensor(name, x, True) for name, x in (("bias", bias), ("scale_a", scale_a), ("scale_b", scale_b), ("c", c)))
    dtype = result_type(dtype, out, a, c, bias)
    if grouping == "depths":
        shape = (*shape_of(groups, 1), shape_of(a, 2)[0], shape_of(b, 2)[0])
    else:
        shape = (*shape_of(a, 2, 3)[:-1], shape_of(b, 3)[1] // (2 if args.gate else 1))
    put_results(call, out, a, shape, dtype, packed)
    call.put(a=a, b=b, groups=groups, bias=bias, scale_a=scale_a, scale_b=scale_b, c=c, end_params=call.tensor("end_params", end_params, True))
    return call


def _quantise(x, *, rows=1, gate=None, powers_of_two=False, row_indices=None, packed=False, transposed=False, out=None, max_sms=0, stream=None,
              asks=False):
    args = _c.QuantiseArgs(gate=one_of("gate", gate, _c.ACTIVATIONS), powers_of_two=max(flag(powers_of_two, "powers_of_two"), flag(packed, "packed")),
                           max_sms=number(max_sms, "max_sms", -2**31, 2**31 - 1), transposed=flag(transposed, "transposed"))
    call = Call("quantise", args, stream, asks)
    x, row_indices = call.tensor("x", x), call.tensor("row_indices", row_indices, True)
    if out is not None and (not isinstance(out, (tuple, list)) or len(out) != 2):
        raise Error(f"out is {type(out).__name__}; allowed: a pair of tensors, (q, scales)")
    each, (q, scales) = one_of("rows", rows, {1: 1, 128: 128}), out or (None, None)
    *batch, m, k = shape_of(x, 2, 3)
    k, m = k if args.gate == 0 else k // 2, m if row_indices is None else shape_of(row_indices, 1)[0]
    if transposed:
        m, k = k, m
    q = call.result("q", q, x, (*batch, m, k), "e4m3")
    scales = call.result("scales", scales, x, (*batch, -(-m // each), -(-k // (512 if packed else 128))), "i32" if packed else "f32")
    call.put(x=x, q=q, scales=scales, row_indices=row_indices)
    return call


def _combine(y, slots, *, weights=None, residual=None, out=None, dtype=None, max_sms=0, stream=None, asks=False):
    call = Call("combine", _c.CombineArgs(max_sms=number(max_sms, "max_sms", -2**31, 2**31 - 1)), stream, asks)
    y, slots = call.tensor("y", y), call.tensor("slots", slots)
    weights, residual = call.tensor("weights", weights, True), call.tensor("residual", residual, True)
    dtype = Spec((), dtype).dtype if dtype is not None else residual.dtype if residual is not None else y.dtype
    d = call.result("out", out, y, (shape_of(slots, 2)[0], shape_of(y, 2)[1]), dtype)
    call.put(y=y, d=d, slots=slots, weights=weights, residual=residual)
    return call


def grouped_gemm(a: Tensor, b: Tensor, groups: Tensor, *, grouping: str = "ends", bias: Optional[SupportsDLPack] = None, alpha: float = 1,
                 activation: Optional[str] = None, out: Union[Tensor, Tuple[Tensor, Tensor], None] = None, dtype: Optional[str] = None,
                 scale_a: Optional[SupportsDLPack] = None, scale_b: Optional[SupportsDLPack] = None, expected_rows: int = 0,
                 c: Optional[SupportsDLPack] = None, beta: float = 0, gate: Optional[str] = None, gate_interleaved: bool = False,
                 powers_of_two: bool = False, packed: bool = False, end_text: Optional[str] = None, end_params: Optional[SupportsDLPack] = None,
                 max_sms: int = 0, stream: Optional[StreamLike] = None,
                 runtime: Optional[Runtime] = None) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """Products of groups of rows: activation(alpha * rows b[g]^T + beta * rows of c + bias[g]) for each group g, summed in f32.

    b [G, N, K], bias [G, N]; c has d's shape, and may be out. groups, i32 on the device, says which rows are whose. grouping "ends": a [M, K],
    entry g is the row behind the last of group g. "counts": a [G, R, K], entry g is how many rows group g has. "rows": a [M, K], entry m is the
    group of row m, -1 for none; groups begin at multiples of 128. "depths": groups along K: a [M, K] and b [N, K], contiguous in M and N, as x.T
    is of tokens x; entry g is the place behind group g's last, d [G, M, N]. Types, activation, gate and dtype as gemm's; scale_a and scale_b are
    scales of blocks with e4m3, as include/tilejit/grouped_gemm.hpp says. Returns d [M, N], [G, R, N] or [G, M, N], made by a's framework, or
    `out`. Rows that no group has are not written. dtype "e4m3", or a pair for out: (d, scale_d), as gemm() gives them.
    expected_rows: of a group; it chooses the kernel, 0 for unknown. end_text and end_params: as gemm's, told (value, row, column, group, params),
    with d's rows, or those of a group's matrix. max_sms: as fmha. Raises tilejit.Error.

    >>> import numpy, tilejit
    >>> a, b = numpy.ones((5, 64), numpy.float16), numpy.ones((2, 32, 64), numpy.float16)
    >>> tilejit.grouped_gemm(a, b, numpy.array([2, 5], numpy.int32)).shape
    (5, 32)
    """
    given = (a, b, groups, bias, scale_a, scale_b, c, end_params)
    key = (tuple(map(type, given)), tuple(map(type, out)) if isinstance(out, (tuple, list)) else type(out), plain(alpha), plain(beta), grouping,
           activation, gate, plain(gate_interleaved), plain(powers_of_two), plain(packed), dtype, plain(expected_rows), max_sms,
           end_text)
    done = short(runtime, key, stream, objects_of(given, out), out)
    if done is not None:
        return done
    call = _grouped_gemm(a, b, groups, grouping=grouping, bias=bias, alpha=alpha, activation=activation, out=out, dtype=dtype, scale_a=scale_a,
                         scale_b=scale_b, expected_rows=expected_rows, c=c, beta=beta, gate=gate, gate_interleaved=gate_interleaved,
                         powers_of_two=powers_of_two, packed=packed, end_text=end_text, end_params=end_params, max_sms=max_sms, stream=stream)
    results = call.run(runtime_of(runtime), key)
    return results if len(results) > 1 else results[0]


def quantise(x: Tensor, *, rows: int = 1, gate: Optional[str] = None, powers_of_two: bool = False, row_indices: Optional[SupportsDLPack] = None,
             packed: bool = False, transposed: bool = False, out: Optional[Tuple[Tensor, Tensor]] = None, max_sms: int = 0,
             stream: Optional[StreamLike] = None, runtime: Optional[Runtime] = None) -> Tuple[Tensor, Tensor]:
    """x as e4m3 with scales of blocks: x is about q times its block's scale.

    x [M, K] or [B, M, K], f16, bf16 or f32. rows: 1, a scale for 128 elements of K of a row, or 128, one for 128 rows. gate: x has twice as many
    columns, and what is quantised is activation(first half) * second half: "silu" makes SwiGLU. powers_of_two: scales are rounded up to such.
    Returns (q e4m3 [M, K], scales f32 [M, ceil(K / 128)] or [ceil(M / 128), ceil(K / 128)]), made by x's framework, or `out`, such a pair. Scales
    of `out` may lie in any order. row_indices, i32 [M] on the device: row m of q is made of that row of x, of zeros for -1 and for what is no row of x;
    without a batch. packed: scales are powers of two, as exponents of 8 bits, four in an i32: [.., ceil(K / 512)]. transposed: q is [K, M], and a scale
    serves 128 rows of a column of x, f16 or bf16: scales [K, ceil(M / 128)]. max_sms: as fmha. Raises tilejit.Error.

    >>> import tilejit, torch
    >>> q, scales = tilejit.quantise(torch.full((2, 256), 7.0))
    >>> q.dtype, q[0, 0].item(), scales.shape
    (torch.float8_e4m3fn, 448.0, torch.Size([2, 2]))
    """
    objects = (x,) if row_indices is None else (x, row_indices)
    objects = (*objects, *out) if isinstance(out, (tuple, list)) else objects
    key = ("quantise", row_indices is None, *map(type, objects)), plain(rows), gate, plain(powers_of_two), plain(packed), plain(transposed), \
        max_sms
    done = short(runtime, key, stream, objects, out)
    if done is not None:
        return done
    call = _quantise(x, rows=rows, gate=gate, powers_of_two=powers_of_two, row_indices=row_indices, packed=packed, transposed=transposed,
                     out=out, max_sms=max_sms, stream=stream)
    return call.run(runtime_of(runtime), key)


def combine(y: Tensor, slots: Tensor, *, weights: Optional[SupportsDLPack] = None, residual: Optional[SupportsDLPack] = None,
            out: Optional[Tensor] = None, dtype: Optional[str] = None, max_sms: int = 0, stream: Optional[StreamLike] = None,
            runtime: Optional[Runtime] = None) -> Tensor:
    """Weighted sums of rows: d[t] = sum over j of weights[t, j] * y[slots[t, j]], plus residual[t], in f32 and in the order of j.

    y [S, H], f16, bf16 or f32. slots [T, J], i32 on the device: rows of y; -1 and any other that is no row is skipped. weights f32 [T, J]; without
    them all are 1. residual [T, H] of the result's type. dtype: of the result; the residual's by default, else y's. Returns d [T, H], made by y's
    framework, or `out`. max_sms: as fmha. Raises tilejit.Error.

    >>> import numpy, tilejit
    >>> y = numpy.array([[1] * 8, [10] * 8], numpy.float32)
    >>> tilejit.combine(y, numpy.array([[0, 1], [1, -1]], numpy.int32))[:, 0].tolist()
    [11.0, 10.0]
    """
    given = (y, slots, weights, residual, out)
    key = ("combine", *map(type, given)), dtype, max_sms
    done = short(runtime, key, stream, tuple([x for x in given if x is not None]), out)
    if done is not None:
        return done
    call = _combine(y, slots, weights=weights, residual=residual, out=out, dtype=dtype, max_sms=max_sms, stream=stream)
    return call.run(runtime_of(runtime), key)[0]
