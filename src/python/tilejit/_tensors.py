"""Anybody's tensors as views that the library takes: torch's and numpy's by their attributes, all others by DLPack.

Decides what of a tensor is read and which are refused. Copies no element. Invariant: a tensor that is damaged, used up or of no memory
raises Error with the argument's name; nothing is read through an address that its owner has not given. numpy and torch are looked up
among the modules that the program has imported; they are never imported here.
"""
from __future__ import annotations

import ctypes
import struct
import sys

from . import _c
from ._error import Error
from ._exchange import DLTensor, Versioned, api_of, is_capsule, pointer_in, stream_by
from ._library import number, numbers, shown

_NUMPY_NAMES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "int32": "i32", "float8_e4m3fn": "e4m3"}
_DTYPES = "float16, bfloat16, float32, int32 or float8_e4m3fn"
# (type code, bits) of dlpack.h
_DLPACK_DTYPES = {(2, 16): "f16", (4, 16): "bf16", (2, 32): "f32", (0, 32): "i32", (10, 8): "e4m3"}
DLPACK_CODES = {name: codes for codes, name in _DLPACK_DTYPES.items()}
# kDLCPU, kDLCUDA, kDLCUDAHost, kDLROCM, kDLROCMHost, kDLCUDAManaged
_DLPACK_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 10: "hip", 11: "cpu", 13: "cuda"}
DLPACK_TYPES = {0: 1, 1: 2, 2: 10}  # by kinds of C
_READ_ONLY = 1
_PACK = [struct.Struct(f"=QQiiii{rank}q{8 * (_c.MAX_RANK - rank)}x{rank}q{8 * (_c.MAX_RANK - rank)}x") for rank in range(_c.MAX_RANK + 1)]
_TENSOR_BYTES = ctypes.sizeof(_c.Tensor)
_TYPES = {"torch": "Tensor", "numpy": "ndarray", "ml_dtypes": "bfloat16"}  # that a module which is there has
_known: dict = {}  # names of numpy's and torch's types that were met


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Sequence

    from ._types import DeviceLike


class Spec:
    """A tensor without memory, for prepare(), plan() and tune(): shape, element type and device.

    >>> import tilejit
    >>> tilejit.Spec((1, 4, 128, 64), "f16", "cuda:0")
    Spec((1, 4, 128, 64), 'f16', 'cuda:0')
    """

    def __init__(self, shape: Sequence[int], dtype: str = "f16", device: DeviceLike = "cpu", strides: Optional[Sequence[int]] = None) -> None:
        self.shape = numbers(shape, "shape", 0, 2**63 - 1)
        self.dtype = _NUMPY_NAMES.get(str(dtype).rpartition(".")[2], dtype)  # "torch.float16" too
        if not isinstance(self.dtype, str) or self.dtype not in _c.DTYPES:
            raise Error(f"dtype is {shown(dtype)}; allowed: {', '.join(_c.DTYPES)}")
        self.device = device
        self.strides = dense(self.shape) if strides is None else numbers(strides, "strides", -2**63, 2**63 - 1)

    def __repr__(self) -> str:
        return f"Spec({self.shape}, {self.dtype!r}, {str(self.device)!r})"


class View:
    """A tensor as the library sees it. `framework`: "torch", "numpy", "jax", "cupy", "spec", or "" for another one."""

    __slots__ = ("name", "c", "framework", "owner", "kept")

    def __init__(self, name, framework, owner, data, device, dtype, shape, strides, kept=None):
        rank = len(shape)
        if rank > _c.MAX_RANK:
            raise Error(f"{name} has {rank} dimensions; allowed: at most {_c.MAX_RANK}")
        self.name, self.framework, self.owner, self.kept = name, framework, owner, kept
        place = bytearray(_TENSOR_BYTES)  # filled at once: a third of the time that members one by one take
        try:
            _PACK[rank].pack_into(place, 0, _TENSOR_BYTES, data or 0, *device, _c.DTYPES[dtype], rank, *shape, *strides)
        except struct.error:
            raise Error(f"{name} has the shape {tuple(shape)} and the strides {tuple(strides)}; allowed: whole numbers of 64 bits, as many "
                        "of each") from None
        self.c = _c.Tensor.from_buffer(place)

    @property
    def shape(self) -> tuple:
        return tuple(self.c.shape[:self.c.rank])

    @property
    def strides(self) -> tuple:
        return tuple(self.c.strides[:self.c.rank])

    @property
    def dtype(self) -> str:
        return _c.DTYPE_NAMES[self.c.dtype]

    @property
    def on_gpu(self) -> bool:
        return self.c.device.kind != 0

    def swap(self, a: int, b: int) -> None:
        """Exchanges two dimensions."""
        for row in (self.c.shape, self.c.strides):
            row[a], row[b] = row[b], row[a]


def dense(shape) -> tuple:
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def module(name: str):
    """A module that the program has imported; None when it has not, or another thread has just begun to."""
    found = sys.modules.get(name)
    return found if found is not None and hasattr(found, _TYPES.get(name, "__name__")) else None


def _torch_view(name, x, torch, written):
    if x.layout is not torch.strided:
        raise Error(f"{name} has the layout {x.layout}; allowed: torch.strided")
    kind = x.device.type
    if kind == "cuda" and torch.version.hip is not None:
        kind = "hip"
    if kind not in _c.DEVICES:
        raise Error(f"{name} is on {x.device}; allowed: a tensor with memory on cuda or cpu"
                    + ("; prepare() and plan() take tilejit.Spec in its place" if kind == "meta" else ""))
    if x.requires_grad and torch.is_grad_enabled():
        raise Error(f"{name} requires grad, and tilejit has forward passes only; call it under torch.no_grad(), or give {name}.detach()")
    dtype = _known.get(x.dtype)
    if dtype is None:
        dtype = _NUMPY_NAMES.get(str(x.dtype)[6:])
        if dtype is None:
            raise Error(f"{name} has the type {x.dtype}; allowed: {_DTYPES}")
        _known[x.dtype] = dtype
    if x.is_neg():
        raise Error(f"{name} is a view of negated numbers; allowed: a tensor whose memory holds its values, such as {name}.resolve_neg()")
    try:
        data = x.data_ptr()
    except Exception as error:  # of fake tensors, and of wrappers: torch raises several kinds
        raise Error(f"{name} has no memory: {error}".splitlines()[0]) from None
    if data == 0 and 0 not in x.shape:
        raise Error(f"{name} has no memory; prepare() and plan() take tilejit.Spec in its place")
    try:
        shape, strides = x.shape, x.stride()
    except RuntimeError as error:  # of nested tensors
        raise Error(f"{name} has no shape and strides: {error}".splitlines()[0]) from None
    index = x.device.index
    return View(name, "torch", x, data, (_c.DEVICES[kind], index if index is not None and kind != "cpu" else 0), dtype, shape, strides)


def _numpy_view(name, x, numpy, written):
    dtype = _known.get(x.dtype)
    if dtype is None:
        dtype = _NUMPY_NAMES.get(x.dtype.name) if x.dtype.isnative else None
        if dtype is None:
            raise Error(f"{name} has the type {x.dtype}; allowed: {_DTYPES} (numpy's, or those of ml_dtypes)")
        _known[x.dtype] = dtype
    if hasattr(x, "mask"):
        raise Error(f"{name} is a masked array, whose mask would be lost; give its data, filled as you want it")
    data, read_only = x.__array_interface__["data"]
    if written and read_only:
        raise Error(f"{name} is read-only; allowed: an array that may be written")
    size, strides = x.itemsize, x.strides
    for stride in strides:
        if stride % size:
            raise Error(f"{name} has strides of {strides} bytes; allowed: multiples of its elements' {size} bytes")
    return View(name, "numpy", x, data, (0, 0), dtype, x.shape, [stride // size for stride in strides])


def _capsule_of(name, x, on_gpu, stream):
    """A DLPack capsule of x. It is only read: it gives the tensor back when Python lets it go."""
    stream = {"stream": stream} if on_gpu else {}
    last = None
    for version in ({"max_version": (1, 0)}, {}):
        try:
            return x.__dlpack__(**stream, **version)
        except TypeError as error:  # a producer of before DLPack 1.0
            last = error
        except Exception as error:
            last = error
            break
    raise Error(f"{name} gives no DLPack tensor: {last}") from last


def _read_capsule(name, capsule, written):
    if is_capsule(capsule, b"dltensor_versioned"):
        found = Versioned.from_address(pointer_in(capsule, b"dltensor_versioned"))
        if found.major != 1:
            raise Error(f"{name} is a DLPack tensor of version {found.major}.{found.minor}; allowed: 1.x, and those before it")
        if written and found.flags & _READ_ONLY:
            raise Error(f"{name} is read-only; allowed: a tensor that may be written")
        return found.tensor
    if is_capsule(capsule, b"dltensor"):
        return DLTensor.from_address(pointer_in(capsule, b"dltensor"))
    raise Error(f"{name}.__dlpack__() gave {shown(capsule)}; allowed: a DLPack capsule that nobody has used up")


def _dlpack_view(name, x, written, stream):
    try:
        device_type, index = x.__dlpack_device__()
        device_type, index = int(device_type), int(index)
    except Exception as error:
        raise Error(f"{name} does not say its device: {error}") from error
    kind = _DLPACK_DEVICES.get(device_type)
    if kind is None:
        raise Error(f"{name} is on a device of DLPack's type {device_type}; allowed: CPU (1), CUDA (2), ROCm (10)")
    api = api_of(type(x))
    if kind != "cpu" and stream is None:
        # Work goes to the framework's own stream where it is known; else what the producer has begun ends before the default stream goes on.
        stream = -1 if api is not None else 0
    if stream == 0 and kind == "cuda":
        stream = 1  # DLPack's number for the default stream
    root = type(x).__module__.partition(".")[0]
    framework = {"jax": "jax", "jaxlib": "jax", "cupy": "cupy"}.get(root, "")
    if written and framework == "jax":
        raise Error(f"{name} is an array of JAX, which never changes; take what the call returns")
    capsule = _capsule_of(name, x, kind != "cpu", stream)
    found = _read_capsule(name, capsule, written)
    dtype = _DLPACK_DTYPES.get((found.code, found.bits)) if found.lanes == 1 else None
    if dtype is None:
        raise Error(f"{name} has DLPack's type code {found.code} with {found.bits} bits and {found.lanes} lanes; allowed: {_DTYPES}")
    rank = found.ndim
    if not 0 <= rank <= _c.MAX_RANK:
        raise Error(f"{name} has {rank} dimensions; allowed: at most {_c.MAX_RANK}")
    if rank and not found.shape:
        raise Error(f"{name} is a DLPack tensor of {rank} dimensions without a shape; allowed: a size for each")
    shape = found.shape[:rank] if rank else []
    strides = found.strides[:rank] if rank and found.strides else dense(shape)
    return View(name, framework, x, (found.data or 0) + found.byte_offset or None, (_c.DEVICES[kind], index if kind != "cpu" else 0), dtype,
                shape, strides, capsule)


def view(name: str, x, written: bool = False, stream=None) -> View:
    """The view of an argument. stream: the one that the work goes to, where the caller has named one."""
    torch = module("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _torch_view(name, x, torch, written)
    numpy = module("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray):
        return _numpy_view(name, x, numpy, written)
    if isinstance(x, Spec):
        from ._device import Device  # which reads names
        device = Device.of(x.device)
        return View(name, "spec", x, None, (_c.DEVICES[device.kind], device.index), x.dtype, x.shape, x.strides)
    if hasattr(type(x), "__dlpack__") and hasattr(type(x), "__dlpack_device__"):
        return _dlpack_view(name, x, written, stream)
    raise Error(f"{name} is of the type {type(x).__module__}.{type(x).__qualname__}; allowed: a tensor of torch, numpy, JAX, CuPy or another "
                "one that has __dlpack__")


def framework_of(x) -> str:
    torch = module("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return "torch"
    return "cupy" if type(x).__module__.partition(".")[0] == "cupy" else ""


def current_stream(framework: str, index: int) -> int:
    """The stream that a framework enqueues on now, on its GPU of this index; 0 is the default stream."""
    if framework == "torch":
        torch = module("torch")
        raw = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)  # without an object for the stream
        return raw(index) if raw is not None else torch.cuda.current_stream(index).cuda_stream
    if framework == "cupy":
        return module("cupy").cuda.get_current_stream().ptr
    return 0


def stream_of(view: View) -> int:
    return stream_for(view.owner, view.c.device.kind, view.c.device.index)


def stream_for(x, kind: int, index: int) -> int:
    """The stream that a tensor's framework enqueues on now, on a device of a kind of C; 0 for the CPU."""
    if kind == _c.DEVICES["cpu"]:
        return 0
    framework, api = framework_of(x), api_of(type(x))
    if framework == "" and api is not None:
        return stream_by(api, DLPACK_TYPES[kind], index)
    return current_stream(framework, index)


def handle_of(stream) -> int:
    """The driver's handle of a stream: a number, or torch's, CuPy's or cuda.core's object."""
    found = stream if isinstance(stream, int) else getattr(stream, "cuda_stream", None)
    if not isinstance(found, int):
        found = getattr(stream, "ptr", None)
    protocol = getattr(stream, "__cuda_stream__", None) if not isinstance(found, int) else None
    if protocol is not None:
        found = int((protocol() if callable(protocol) else protocol)[1])
    if isinstance(found, int) and 0 <= found < 2**63:
        return found
    raise Error(f"stream is {shown(stream)}; allowed: a driver's handle as a number, or a stream of torch, CuPy or cuda.core")


def address_of(name: str, x, written: bool = False):
    """The address of a tensor's first element, or a number that is one."""
    if isinstance(x, int):
        return number(x, name, 0, 2**64 - 1)
    torch = module("torch")
    if torch is not None and isinstance(x, torch.Tensor) and not x.requires_grad and x.layout is torch.strided and not x.is_neg():
        try:
            return x.data_ptr()  # the shortest way; all else is as the plan's own tensor was
        except Exception as error:
            raise Error(f"{name} has no memory: {error}".splitlines()[0]) from None
    numpy = module("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray):
        data, read_only = x.__array_interface__["data"]
        if not (written and read_only) and not hasattr(x, "mask"):
            return data
    return view(name, x, written).c.data
