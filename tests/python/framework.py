"""A framework of arrays that say they lie on a GPU, with DLPack's exchange API: what the tests of the short way call with.

Its tables are of Python functions, so that a test can let each of them fail. Memory is the host's, as the fake driver's is.
"""
import collections
import contextlib
import ctypes
import itertools
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_void_p, py_object

import here  # noqa: F401 -- finds the package
from tilejit._exchange import DLTensor, Versioned, _SetError, _Table

CODES = {"f16": (2, 16), "bf16": (4, 16), "f32": (2, 32), "i32": (0, 32)}
CUDA = 2
_state = {"stream": 0, "fails": set()}
_alive = {}  # managed tensors that nobody has given back, by address
_new_capsule = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_Deleter = ctypes.CFUNCTYPE(None, c_void_p)


def reset():
    _state.update(stream=0, fails=set())


def set_stream(stream):
    _state["stream"] = stream


def fail(function):
    _state["fails"].add(function)


def managed_alive():
    return len(_alive)


class Array:
    asked = None  # the stream that the last __dlpack__() was told

    def __init__(self, shape, dtype="f16", strides=None, device=0, base=None, address=None, shift=0, managed=None):
        self.shape, self.dtype, self.strides, self.device, self.managed = tuple(shape), dtype, strides, device, managed
        count = 1
        for size in shape:
            count *= size
        if strides is not None:
            count = 1 + sum((size - 1) * step for size, step in zip(shape, strides))
        self.memory = base.memory if base is not None else ctypes.create_string_buffer(count * CODES[dtype][1] // 8 + 512)
        start = ctypes.addressof(self.memory)
        self.given = collections.deque(maxlen=64)
        self.address = address if address is not None else (start + 255) // 256 * 256 + shift
        self.c_shape, self.c_strides = (c_int64 * len(shape))(*shape), (c_int64 * len(shape))(*(strides or ()))

    def fill(self, out):
        offset = 32 if self.address else 0  # so that nobody forgets it
        out.data, out.device_type, out.device_id, out.ndim, out.byte_offset = self.address - offset, CUDA, self.device, len(self.shape), offset
        (out.code, out.bits), out.lanes = CODES[self.dtype], 1
        out.shape = ctypes.cast(self.c_shape, POINTER(c_int64))
        out.strides = ctypes.cast(self.c_strides, POINTER(c_int64)) if self.strides is not None else POINTER(c_int64)()

    def __dlpack_device__(self):
        return CUDA, self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        made, self.asked = Versioned(1, 0, None, None, 0), stream
        self.fill(made.tensor)
        self.given.append(made)  # lives while this thread and others read it
        return _new_capsule(ctypes.addressof(made), b"dltensor_versioned", None)

    def __del__(self):
        if self.managed is not None:
            _alive.pop(self.managed, None)


def _or_failure(name):
    def wrap(function):
        def called(*arguments):
            if name in _state["fails"]:
                return -1
            try:
                return function(*arguments) or 0
            except Exception:
                return -1
        return called
    return wrap


@_or_failure("tensor_of_object")
def _tensor_of_object(array, out):
    array.fill(out.contents)


@_or_failure("current_stream")
def _current_stream(_kind, _index, out):
    out[0] = _state["stream"]


def _allocate(prototype, out, user, set_error):
    if "allocate" in _state["fails"]:
        set_error(user, b"MemoryError", b"no memory left")
        return -1
    like = prototype.contents
    dtype = next(name for name, codes in CODES.items() if codes == (like.code, like.bits))
    array, made = Array(like.shape[:like.ndim], dtype, device=like.device_id), Versioned(1, 0, None, None, 0)
    array.fill(made.tensor)
    address = ctypes.addressof(made)
    delete = _Deleter(lambda given: _alive.pop(given, None))
    made.deleter = ctypes.cast(delete, c_void_p)
    _alive[address] = (array, made, delete)
    out[0] = address
    return 0


@_or_failure("object_of_managed")
def _object_of_managed(managed, out):
    array = _alive[managed][0]
    array.managed = managed
    _retain(array)
    out[0] = id(array)
    _alive[managed] = _alive[managed][1:]  # the object has the array from now on


_retain = ctypes.PYFUNCTYPE(None, py_object)(("Py_IncRef", ctypes.pythonapi))
_FUNCTIONS = {  # kept for the life of the process, as tables are
    "allocate": ctypes.PYFUNCTYPE(c_int, POINTER(DLTensor), POINTER(c_void_p), c_void_p, _SetError)(_allocate),
    "object_of_managed": ctypes.PYFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))(_object_of_managed),
    "tensor_of_object": ctypes.PYFUNCTYPE(c_int, py_object, POINTER(DLTensor))(_tensor_of_object),
    "current_stream": ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))(_current_stream),
}
_tables = itertools.count()
_kept = []


def _table(major=1, minor=1, previous=None, **others):
    functions = {name: ctypes.cast(function, c_void_p) for name, function in _FUNCTIONS.items()}
    made = _Table(major=major, minor=minor, previous=previous, **{**functions, **others})
    _kept.append(made)
    return ctypes.addressof(made)


@contextlib.contextmanager
def raising():
    """The table has a function of C that leaves an error of Python behind: the length of what has none."""
    table = _Table.from_address(TABLE)
    before, table.tensor_of_object = table.tensor_of_object, ctypes.cast(ctypes.pythonapi.PyObject_Size, c_void_p)
    try:
        yield
    finally:
        table.tensor_of_object = before


def _capsule(address):
    return _new_capsule(address, b"dlpack_exchange_api", None)


TABLE = _table()
NEWER_TABLE = _table(2)
Array.__dlpack_c_exchange_api__ = _capsule(TABLE)


class Newer(Array):
    __dlpack_c_exchange_api__ = _capsule(NEWER_TABLE)


# Types whose tables lack a function each.
INCOMPLETE = [type(f"Without_{name}", (Array,), {"__dlpack_c_exchange_api__": _capsule(_table(**{name: None}))}) for name in _FUNCTIONS]


class NoCapsule(Array):
    __dlpack_c_exchange_api__ = TABLE


class Chained(Array):
    __dlpack_c_exchange_api__ = _capsule(_table(2, previous=_table()))
