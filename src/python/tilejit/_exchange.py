"""DLPack's exchange API: the table of C functions that a framework's tensor type offers as __dlpack_c_exchange_api__.

Decides which types have one that can be used, and asks it for streams and new tensors. The library calls it itself in the short way of a
call (_ready.py). Invariant: a table is called with tensors of its own framework only.
"""
from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

from ._error import Error

MAJOR = 1


class DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8),
                ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64), ("tensor", DLTensor)]


_SetError = ctypes.CFUNCTYPE(None, c_void_p, ctypes.c_char_p, ctypes.c_char_p)
# PYFUNCTYPE keeps the GIL, which these functions need, and raises what they have raised.
_Allocate = ctypes.PYFUNCTYPE(ctypes.c_int, POINTER(DLTensor), POINTER(c_void_p), c_void_p, _SetError)
_ToObject = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, POINTER(c_void_p))
_Delete = ctypes.PYFUNCTYPE(None, c_void_p)
_Stream = ctypes.PYFUNCTYPE(ctypes.c_int, c_int32, c_int32, POINTER(c_void_p))


class _Table(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("previous", c_void_p), ("allocate", c_void_p), ("managed_of_object", c_void_p),
                ("object_of_managed", c_void_p), ("tensor_of_object", c_void_p), ("current_stream", c_void_p)]


_CALLED = ("allocate", "object_of_managed", "tensor_of_object", "current_stream")

_capsule = ctypes.pythonapi  # checks after each call whether Python has an error
is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _capsule))
pointer_in = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _capsule))
_release = ctypes.PYFUNCTYPE(None, c_void_p)(("Py_DecRef", _capsule))

_MOST_TYPES = 256
_apis: dict = {}  # by type; the address of its table, or None


def api_of(kind: type):
    """The address of a type's table; None where it has none that can be used."""
    try:
        return _apis[kind]
    except KeyError:
        if len(_apis) >= _MOST_TYPES:
            _apis.clear()
        found = _apis[kind] = _find(kind)
        return found


def _find(kind):
    given = getattr(kind, "__dlpack_c_exchange_api__", None)
    if given is None or not is_capsule(given, b"dlpack_exchange_api"):
        return None
    address = pointer_in(given, b"dlpack_exchange_api")
    while address:
        table = _Table.from_address(address)
        if table.major == MAJOR:
            return address if all(getattr(table, each) for each in _CALLED) else None
        address = table.previous if table.major > MAJOR else None
    return None


def stream_by(api: int, device_type: int, index: int) -> int:
    """The stream that a framework enqueues on now."""
    found = c_void_p()
    if _Stream(_Table.from_address(api).current_stream)(device_type, index, ctypes.byref(found)) != 0:
        raise Error("the framework does not say its stream; give stream=")
    return found.value or 0


def empty_by(api: int, name: str, device: tuple, shape: tuple, dtype: tuple):
    """A new tensor of a framework. device: DLPack's type and index; dtype: DLPack's type code and bits."""
    table, said, made, out = _Table.from_address(api), [], c_void_p(), c_void_p()
    prototype = DLTensor(None, *device, len(shape), *dtype, 1, (c_int64 * len(shape))(*shape), None, 0)
    tell = _SetError(lambda _user, kind, message: said.append(b": ".join(each for each in (kind, message) if each)))
    if _Allocate(table.allocate)(prototype, ctypes.byref(made), None, tell) != 0:
        raise Error(f"{name} cannot be allocated: {b'; '.join(said).decode('utf-8', 'replace') or 'its framework says nothing more'}", "load",
                    "out_of_memory")
    if _ToObject(table.object_of_managed)(made, ctypes.byref(out)) != 0:
        _Delete(Versioned.from_address(made.value).deleter)(made)
        raise Error(f"{name} cannot be allocated: its framework made no object of the memory", "load", "out_of_memory")
    result = ctypes.cast(out, ctypes.py_object).value
    _release(out)  # the reference that the table gave; `result` has one of its own
    return result
