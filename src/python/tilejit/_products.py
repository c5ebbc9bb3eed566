"""Matrix products: the call of Python, and how its arguments become the structure of C; see _ops.py. Also the results that products quantise."""
from __future__ import annotations

from . import _c
from ._calls import Call, one_of, runtime_of, shape_of
from ._error import Error
from ._library import device_text, flag, number, real
from ._ready import plain, short
from ._tensors import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple, Union

    from ._runtime import Runtime
    from ._types import StreamLike, SupportsDLPack, Tensor

_PAIR = "(d, scale_d), with dtype e4m3"


def quantised(dtype, out) -> bool:
    """Does the call ask for e4m3 with scales, by the type or by a pair of results?"""
    asked = dtype is not None and Spec((), dtype).dtype == "e4m3"
    if isinstance(out, (tuple, list)) and dtype is not None and not asked:
        raise Error(f"dtype is {dtype} with a pair for out; allowed: leave it out, or {_PAIR}")
    return asked or isinstance(out, (tuple, list))


def result_type(dtype, out, a, c, bias) -> str:
    """The name of a product's result type: what is asked for, else that of the addends, else the operands'."""
    if quantised(dtype, out):
        return "e4m3"
    if dtype is not None:
        return Spec((), dtype).dtype
    return c.dtype if c is not None else bias.dtype if bias is not None else "f32" if a.dtype == "e4m3" else a.dtype


def put_results(call, out, like, shape, dtype, packed) -> None:
    """The result of a product; of e4m3 its scales, too, of 128 columns each, or exponents of them, four in an i32."""
    if dtype != "e4m3":
        call.put(d=call.result("out", out, like, shape, dtype))
        return
    if out is not None and (not isinstance(out, (tuple, list)) or len(out) != 2):
        raise Error(f"out is {type(out).__name__}; allowed: a pair of tensors, {_PAIR}")
    d, scales = out or (None, None)
    d = call.result("out", d, like, shape, "e4m3")
    scales = call.result("scale_d", scales, like, (*shape[:-1], -(-shape[-1] // (512 if packed else 128))), "i32" if packed else "f32")
    call.put(d=d, scale_d=scales)


def objects_of(given, out) -> tuple:
    """The tensors of a call that are there, for the short way: results last."""
    given = (*given, *out) if isinstance(out, (tuple, list)) else (*given, out)
    return tuple([x for x in given if x is not None])


def _gemm(a, b, *, c=None, bias=None, alpha=1, beta=0, activation=None, out=None, dtype=None, scale_a=None, scale_b=None, gate=None,
          gate_interleaved=False, powers_of_two=False, packed=False, end_text=None, end_params=None, max_sms=0, stream=None, asks=False,
          rows=None):
    args = _c.GemmArgs(alpha=real(alpha, "alpha"), beta=real(beta, "beta"), activation=one_of("activation", activation, _c.ACTIVATIONS),
                       gate=one_of("gate", gate, _c.ACTIVATIONS), gate_interleaved=flag(gate_interleaved, "gate_interleaved"),
                       powers_of_two=max(flag(powers_of_two, "powers_of_two"), flag(packed, "packed")),
                       max_sms=number(max_sms, "max_sms", -2**31, 2**31 - 1), end_text=device_text("end_text", end_text))
    call = Call("gemm", args, stream, asks)
    a, b = call.tensor("a", a), call.tensor("b", b)
    c, bias = call.tensor("c", c, True), call.tensor("bias", bias, True)
    left, right = shape_of(a, 2, 3), shape_of(b, 2, 3)
    batch = left[:-2] or right[:-2] or (shape_of(c, 2, 3)[:-2] if c is not None else ())
    dtype = result_type(dtype, out, a, c, bias)
    scale_a, scale_b = call.tensor("scale_a", scale_a, True), call.tensor("scale_b", scale_b, True)
    put_results(call, out, a, (*batch, left[-2] if rows is None else rows, right[-2] // (2 if args.gate else 1)), dtype, packed)
    call.put(a=a, b=b, c=c, bias=bias, scale_a=scale_a, scale_b=scale_b, end_params=call.tensor("end_params", end_params, True))
    return call


def gemm(a: Tensor, b: Tensor, *, c: Optional[SupportsDLPack] = None, bias: Optional[SupportsDLPack] = None, alpha: float = 1, beta: float = 0,
         activation: Optional[str] = None, out: Union[Tensor, Tuple[Tensor, Tensor], None] = None, dtype: Optional[str] = None,
         scale_a: Optional[SupportsDLPack] = None, scale_b: Optional[SupportsDLPack] = None, gate: Optional[str] = None, gate_interleaved: bool = False,
         powers_of_two: bool = False, packed: bool = False, end_text: Optional[str] = None, end_params: Optional[SupportsDLPack] = None,
         max_sms: int = 0, stream: Optional[StreamLike] = None, runtime: Optional[Runtime] = None) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """Matrix product: activation(alpha * a b^T + beta * c + bias), summed in f32.

    a [M, K], b [N, K], c [M, N], bias [N]; for b of shape [K, N] give b.T, which costs nothing. With a batch, [B, M, K] and so on; what has
    none serves all of it. a and b are f16, bf16 or e4m3 (float8_e4m3fn); the result, c and bias are f16, bf16 or f32, c also f32 beside a
    result of 16 bits. c is read when beta is not 0. activation: None, "relu", "gelu", "gelu_tanh" or "silu". scale_a, scale_b, with e4m3: f32 of one
    element; or scales of blocks, f32 or i32 of four exponents, [M, ceil(K / 128)] and [ceil(N / 128), ceil(K / 128)] or [N, ceil(K / 128)]. gate: "silu"
    makes SwiGLU: d [M, N / 2] is gate(g) * u, g made by the first N / 2 rows of b and u by the others, or by rows in turns with
    gate_interleaved; on Hopper. Returns d [M, N] or [B, M, N], made by a's framework, or `out`. dtype: the result's type; None: that of
    c, else of bias, else of a, and f32 for e4m3. out may be c. max_sms: as fmha. Raises tilejit.Error.
    dtype "e4m3", or a pair for out, quantises on Hopper: returns (d e4m3, scale_d f32 [M, ceil(N / 128)]), such that d times its block's scale is
    the result, as quantise() gives them; powers_of_two and packed as there. bias is as a then, or bf16 beside e4m3.
    end_text: device code in the place of the activation, the body of a function of (value, row, column, batch, params) that returns a float. value
    is alpha * a b^T + bias, or gate(g) * u; beta * c is added behind it. params.f32(n) and params.i32(n) are numbers of end_params [N], i32 or f32.

    >>> import numpy, tilejit
    >>> a, b = numpy.ones((64, 128), numpy.float16), numpy.ones((32, 128), numpy.float16)
    >>> d = tilejit.gemm(a, b, bias=numpy.full(32, -130, numpy.float16), activation="relu")
    >>> d.shape, float(d.max())
    ((64, 32), 0.0)
    >>> scales = numpy.arange(32, dtype=numpy.float32)  # a squared relu, with a scale a column
    >>> d = tilejit.gemm(a, b, end_text="return value > 0 ? value * value * params.f32(column) : 0;", end_params=scales, dtype="f32")
    >>> float(d[0, 2])
    32768.0
    """
    pair = isinstance(out, (tuple, list))
    given = (a, b, c, bias, scale_a, scale_b, end_params)
    kinds = tuple(map(type, given)), tuple(map(type, out)) if pair else type(out)
    key = kinds, plain(alpha), plain(beta), activation, dtype, gate, plain(gate_interleaved), plain(powers_of_two), plain(packed), max_sms, end_text
    done = short(runtime, key, stream, objects_of(given, out), out)
    if done is not None:
        return done
    call = _gemm(a, b, c=c, bias=bias, alpha=alpha, beta=beta, activation=activation, out=out, dtype=dtype, scale_a=scale_a, scale_b=scale_b,
                 gate=gate, gate_interleaved=gate_interleaved, powers_of_two=powers_of_two, packed=packed, end_text=end_text,
                 end_params=end_params, max_sms=max_sms, stream=stream)
    results = call.run(runtime_of(runtime), key)
    return results if len(results) > 1 else results[0]
