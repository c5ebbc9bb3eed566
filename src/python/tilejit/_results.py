"""Results in the framework of the arguments: who allocates them and how the caller gets them.

Decides nothing about shapes. Invariant: what a framework promises of its arrays holds: nothing is written into an array of JAX that
anybody can see.
"""
from __future__ import annotations

import functools

from ._error import Error
from ._exchange import api_of, empty_by
from ._tensors import DLPACK_CODES, DLPACK_TYPES, Spec, View, module, view

_NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "i32": "int32", "e4m3": "float8_e4m3fn"}


def _numpy_dtype(name: str, dtype: str, like):
    numpy = module("numpy")
    if dtype in ("f16", "f32", "i32"):
        return numpy.dtype(_NAMES[dtype])
    if getattr(like, "dtype", None) is not None and getattr(like.dtype, "name", "") == _NAMES[dtype]:
        return like.dtype
    types = module("ml_dtypes")
    if types is None:
        raise Error(f"{name} is of the type {_NAMES[dtype]}, which numpy gets from ml_dtypes; import it, or give out=")
    return numpy.dtype(getattr(types, _NAMES[dtype]))


def _same(result):
    return result


def _torch_maker(shape, dtype, device):
    return functools.partial(module("torch").empty, tuple(shape), dtype=dtype, device=device)


def maker_of(view: View):
    """The function that makes tensors like a result of empty(); None where DLPack's exchange API does as well.

    What torch gets through DLPack is no memory of its own allocator: record_stream() does nothing to it, and resize_() fails.
    """
    result = view.owner
    return _torch_maker(result.shape, result.dtype, result.device) if view.framework == "torch" else None


def empty(name: str, like: View, shape: tuple, dtype: str):
    """(view of a new tensor, function that turns it into what the caller gets)"""
    if like.framework == "torch":
        return view(name, _torch_maker(shape, getattr(module("torch"), _NAMES[dtype]), like.owner.device)(), True), _same
    if like.framework == "cupy":
        cupy = module("cupy")
        if dtype not in ("f16", "f32", "i32"):
            raise Error(f"{name} is of the type {_NAMES[dtype]}, which CuPy does not have; give out=")
        with cupy.cuda.Device(like.c.device.index):
            return view(name, cupy.empty(shape, dtype=_NAMES[dtype]), True), _same
    if like.framework == "jax":
        return _empty_jax(name, like, shape, dtype)
    if like.framework == "numpy":
        return view(name, module("numpy").empty(shape, dtype=_numpy_dtype(name, dtype, like.owner)), True), _same
    api = api_of(type(like.owner))
    if api is not None:
        return view(name, empty_by(api, name, (DLPACK_TYPES[like.c.device.kind], like.c.device.index), shape, DLPACK_CODES[dtype]), True), _same
    raise Error(f"{name} cannot be allocated by {type(like.owner).__module__}; give out=")


def _empty_jax(name, like, shape, dtype):
    import jax.numpy  # the caller has it
    if like.on_gpu:  # nobody else has this one yet
        made = jax.device_put(jax.numpy.empty(shape, dtype=_NAMES[dtype]), next(iter(like.owner.devices())))
        return view(name, made.block_until_ready(), False), _same
    import numpy
    made = numpy.empty(shape, dtype=_numpy_dtype(name, dtype, like.owner))
    return view(name, made, True), jax.numpy.asarray


def no_memory(name: str, like: View, shape: tuple, dtype: str) -> View:
    """The same without memory, for calls that only ask."""
    from ._device import Device
    return view(name, Spec(shape, dtype, Device.from_c(like.c.device)))
