"""The ops inside programs of JAX: fmha, gemm, chunk_indices and chunk_o that work under jax.jit, through XLA handlers of the library.

>>> import jax, jax.numpy as jnp, tilejit.jax
>>> attention = jax.jit(lambda q, k, v: tilejit.jax.fmha(q, k, v, causal=True))
>>> q = jnp.ones((1, 2, 64, 64), jnp.float16)
>>> float(attention(q, q, q).max())
1.0

Importing registers the handlers for the platforms cpu, CUDA and ROCM. On the CPU they run on the model of a GPU. On a GPU kernels are made
when XLA initializes a program, before it runs; on the CPU XLA does not ask for that, and the first run makes them. Under jax.vmap calls
follow each other. There are forward passes only: a derivative is refused. Rows of a list of chunks behind the last chunk hold anything.
Decides how a call becomes a custom call of XLA; shapes of results are those of the functions of the same names in tilejit.
"""
from __future__ import annotations

from . import _ops
from ._error import Error
from ._library import library
from ._tensors import Spec

try:
    import jax
    import jax.numpy as jnp
    import numpy
except ImportError as _error:
    raise Error(f"tilejit.jax needs JAX, and it cannot be imported: {_error}; pip install jax", "load", "not_found") from None

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Tuple, Union

    from jax.typing import ArrayLike

__all__ = ["chunk_indices", "chunk_o", "fmha", "gemm"]

_PLATFORMS = {"cpu": "", "CUDA": "_cuda", "ROCM": "_hip"}
_DTYPES = {"f16": jnp.float16, "bf16": jnp.bfloat16, "f32": jnp.float32, "i32": jnp.int32, "e4m3": jnp.float8_e4m3fn}
_NUMBERS = {"c_float": numpy.float32, "c_int": numpy.int32, "c_long": numpy.int64}
_NEVER = ("size", "reserved")  # no handler has them as attributes
_ROOM = ("max_sms", "num_stages", "evict_first")  # only chunk_o's handler has these


def _register() -> None:
    for op in __all__:
        for platform, suffix in _PLATFORMS.items():
            handler = getattr(library(), f"tj_xla_{op}{suffix}", None)
            if handler is None:
                raise Error("libtilejit was built without XLA's header, so it has no handlers for JAX; build it where bash tests/run.sh --setup has "
                            "fetched the header", "load", "unsupported")
            capsule = jax.ffi.pycapsule(handler)
            # Kernels are made while a program is initialized: inside a command buffer of XLA's it would be too late.
            jax.ffi.register_ffi_target(f"tj_xla_{op}", {"initialize": capsule, "execute": capsule}, platform=platform)


_register()


def _array(name, x) -> jax.Array:
    try:
        return jnp.asarray(x)
    except TypeError as error:
        raise Error(f"{name} is of the type {type(x).__module__}.{type(x).__qualname__}; allowed: an array of JAX, or what "
                    f"becomes one: {error}") from None


def _spec(name, x) -> Spec:
    try:
        return Spec(x.shape, x.dtype.name, "cpu")
    except Error:
        raise Error(f"{name} has the type {x.dtype}; allowed: float16, bfloat16, float32, int32 or float8_e4m3fn") from None


def _attributes(args) -> dict:
    """Members of the structure that are numbers or texts, by their names, but for what the op's handler does not know."""
    unknown = _NEVER if type(args).__name__ == "ChunkOArgs" else (*_NEVER, *_ROOM)
    found = {}
    for name, kind in args._fields_:
        if kind.__name__ == "c_char_p" and getattr(args, name) is not None:  # an empty text is for the op to refuse
            found[name] = getattr(args, name).decode()
        number = _NUMBERS.get(kind.__name__)
        if number is not None and name not in unknown and not name.startswith("has_") and getattr(args, "has_" + name, 1):
            found[name] = number(getattr(args, name))
    return found


def _refuse_derivative(op, call):
    """The call, whose derivative is an error that says so."""
    called = jax.custom_jvp(call)

    @called.defjvp
    def refuse(primals, tangents):
        raise Error(f"{op} has no derivative: tilejit has forward passes only; call it on jax.lax.stop_gradient(x)", "argument", "unsupported")
    return called


def _run(op, needed: dict, optional: dict, options: dict):
    """(results by their names in the structure)"""
    arrays = {name: _array(name, x) for name, x in (*needed.items(), *optional.items()) if x is not None}
    specs = {name: _spec(name, x) for name, x in arrays.items()}
    call = _ops._asking(op, [specs[name] for name in needed], {**options, **{name: specs.get(name) for name in optional}})
    written = call.written()
    inputs, results = [[name for name in call.names if (name in written) == wanted] for wanted in (False, True)]
    attributes = {"inputs": " ".join(inputs), "results": " ".join(results), **_attributes(call.args)}
    if options.get("layout") == "bshd":
        attributes["exchanged"] = " ".join(name for name in (*inputs, *results) if call.names[name].c.rank == 4)
    shapes = tuple(jax.ShapeDtypeStruct(call.names[name].owner.shape, _DTYPES[call.names[name].dtype]) for name in results)
    made = jax.ffi.ffi_call(f"tj_xla_{op}", shapes, vmap_method="sequential")
    return _refuse_derivative(op, lambda *tensors: made(*tensors, **attributes))(*(arrays[name] for name in inputs))


def fmha(q: ArrayLike, k: ArrayLike, v: ArrayLike, *, causal: bool = False, scale: Optional[float] = None, window: Tuple[int, int] = (-1, -1),
         top_left: bool = False, softcap: float = 0.0, alibi_slopes: Optional[ArrayLike] = None, sinks: Optional[ArrayLike] = None,
         cu_seqlens_q: Optional[ArrayLike] = None, cu_seqlens_k: Optional[ArrayLike] = None, seqused_k: Optional[ArrayLike] = None,
         block_table: Optional[ArrayLike] = None, bias: Optional[ArrayLike] = None, score_mod: Optional[str] = None, mask_mod: Optional[str] = None,
         key_range: Optional[str] = None, mod_params: Optional[ArrayLike] = None, return_lse: bool = False,
         layout: str = "bhsd") -> Union[jax.Array, Tuple[jax.Array, jax.Array]]:
    """Attention forward, as tilejit.fmha: o, or (o, lse) with return_lse. Only arrays may be tracers: texts of device code are constants."""
    results = _run("fmha", {"q": q, "k": k, "v": v}, {"alibi_slopes": alibi_slopes, "sinks": sinks, "cu_seqlens_q": cu_seqlens_q,
                                                   "cu_seqlens_k": cu_seqlens_k, "seqused_k": seqused_k, "block_table": block_table,
                                                   "bias": bias, "mod_params": mod_params},
                   {"causal": causal, "scale": scale, "window": window, "top_left": top_left, "softcap": softcap, "score_mod": score_mod,
                    "mask_mod": mask_mod, "key_range": key_range, "return_lse": return_lse, "layout": layout})
    return results if return_lse else results[0]


def gemm(a: ArrayLike, b: ArrayLike, *, c: Optional[ArrayLike] = None, bias: Optional[ArrayLike] = None, alpha: float = 1, beta: float = 0,
         activation: Optional[str] = None, dtype: Optional[str] = None, scale_a: Optional[ArrayLike] = None,
         scale_b: Optional[ArrayLike] = None, gate: Optional[str] = None, gate_interleaved: bool = False,
         powers_of_two: bool = False, packed: bool = False, end_text: Optional[str] = None,
         end_params: Optional[ArrayLike] = None) -> Union[jax.Array, Tuple[jax.Array, jax.Array]]:
    """Matrix product, as tilejit.gemm: activation(alpha * a b^T + beta * c + bias), or with a gate. Options are Python values, no tracers. With dtype
    "e4m3" the result is (d, scale_d)."""
    results = _run("gemm", {"a": a, "b": b}, {"c": c, "bias": bias, "scale_a": scale_a, "scale_b": scale_b, "end_params": end_params},
                {"alpha": alpha, "beta": beta, "activation": activation, "dtype": dtype, "gate": gate, "gate_interleaved": gate_interleaved,
                 "powers_of_two": powers_of_two, "packed": packed, "end_text": end_text})
    return results if len(results) > 1 else results[0]


def chunk_indices(cu_seqlens: ArrayLike, *, tokens: int) -> Tuple[jax.Array, jax.Array]:
    """The list of all chunks, as tilejit.chunk_indices: (chunk_indices, total_chunks). tokens, of all sequences, is no tracer."""
    return _run("chunk_indices", {"cu_seqlens": cu_seqlens}, {}, {"tokens": tokens})


def chunk_o(q: ArrayLike, k: ArrayLike, v_new: ArrayLike, h: ArrayLike, *, g_cu: Optional[ArrayLike] = None,
            cu_seqlens: Optional[ArrayLike] = None, chunk_indices: Optional[ArrayLike] = None, total_chunks: Optional[ArrayLike] = None,
            seq_length: int = 0, scale: Optional[float] = None, h_transposed: bool = False, max_sms: int = 0, num_stages: int = 0,
            evict_first: bool = False) -> jax.Array:
    """Output of the gated delta rule, as tilejit.chunk_o. What is no array is no tracer."""
    return _run("chunk_o", {"q": q, "k": k, "v_new": v_new, "h": h},
                {"g_cu": g_cu, "cu_seqlens": cu_seqlens, "chunk_indices": chunk_indices, "total_chunks": total_chunks},
                {"seq_length": seq_length, "scale": scale, "h_transposed": h_transposed, "max_sms": max_sms, "num_stages": num_stages,
                 "evict_first": evict_first})[0]
