"""Finds libtilejit, opens it at the first use, and turns a status into an Error.

Decides where the library is looked for: in the package itself, as in a wheel, else by the loader, as for a tree that was installed
(LD_LIBRARY_PATH, ld.so.conf). Decides which other folders of packages the library may take NVRTC from. Decides when functions of the program, such
as a log sink, are called for the last time. Invariant: importing the package opens nothing.
"""
from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading

from . import _c
from ._error import Error

SONAME = "libtilejit.so.0.2"
FOLDER = os.path.dirname(os.path.abspath(__file__))
_NVRTC = ("cu13", "cuda_nvrtc")
_MOST_SHOWN = 200
_MOST_BITS_SHOWN = 128
_MOST_SECONDS = 10.0  # that the interpreter's end waits for functions of the program
_NO_FLAGS = (str, bytes, bytearray, list, tuple, dict, set)
# Of the thread that opens the library: a handler of a signal may call it, or fork, in the middle of that.
_lock = threading.RLock()
# A child that were forked while another thread opens the library would wait for that thread for ever: forks wait for it.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_opened = None


def path_of_library() -> str:
    """The file of the wheel; the name that the loader is asked for where the package has none."""
    own = os.path.join(FOLDER, "lib", SONAME)
    return own if os.path.exists(own) else SONAME


def _open():
    path = path_of_library()
    try:
        found = ctypes.CDLL(path)
    except OSError as error:
        raise Error(f"{path} cannot be opened: {error}; install the wheel of tilejit (x86-64 Linux), or put the folder of {SONAME} on "
                    "LD_LIBRARY_PATH before Python starts", "load", "not_found") from None
    _declare(found, path, _c.CALLS)
    keeps = ctypes.PyDLL(path, handle=found._handle)
    _declare(keeps, path, _c.KEEPING)
    gate = ctypes.c_void_p()
    if found.tj_host_gate_create(ctypes.byref(gate)) != _c.OK:
        raise MemoryError
    for folder in _wheels():
        found.tj_add_packages_folder(os.fsencode(folder))
    return found, keeps, gate


def _wheels():
    """Folders of packages with NVIDIA's wheels of NVRTC: another one than this package's, in a virtual environment over the system's."""
    own = os.path.dirname(FOLDER)
    for folder in sys.path:
        if not isinstance(folder, str) or not os.path.isabs(folder) or folder == own:
            continue
        if any(os.path.isdir(os.path.join(folder, "nvidia", each, "lib")) for each in _NVRTC):
            yield folder


def _declare(opened, path, calls):
    for name, (result, arguments) in calls.items():
        try:
            function = getattr(opened, name)
        except AttributeError:
            raise Error(f"{path} has no {name}: it is another version than this package; install both from one wheel", "load", "not_found") from None
        function.restype, function.argtypes = result, arguments


def library():
    """The opened library. Any thread may call it at any time."""
    return _all()[0]


def keeping():
    """The same, with calls that keep the GIL."""
    return _all()[1]


def gate():
    """What functions of the program are given to the library with: they are not called any more once the interpreter ends."""
    return _all()[2]


def _end_callbacks():
    """Runs while threads of the library still get Python's lock. Later it would end them, or be gone. Waits for functions under way."""
    if _opened is not None:
        _opened[0].tj_host_gate_close(_opened[2], _MOST_SECONDS)


atexit.register(_end_callbacks)


def _all():
    global _opened
    if _opened is None:
        with _lock:
            if _opened is None:
                made = _open()
                if _opened is None:  # else a signal's handler has opened it meanwhile, and may have given its gate away
                    _opened = made
    return _opened


def _text(value) -> str:
    return value.decode("utf-8", "replace") if value else ""


def check(status: int) -> None:
    """Raises what the last call of this thread failed with."""
    if status != _c.OK:
        tj = library()
        raise Error(_text(tj.tj_last_error()), _text(tj.tj_last_error_stage()), _text(tj.tj_status_name(status)),
                    _text(tj.tj_last_error_log()), _text(tj.tj_last_error_source_path()))


def shown(value) -> str:
    """A value in a message: one line, and not all of what is large."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS_SHOWN:  # Python itself refuses the digits of one that is larger still
        return f"a whole number of {value.bit_length()} bits"
    try:
        text = " ".join(repr(value).split())
    except ValueError:
        text = f"of type {type(value).__name__}, with more digits than Python shows"
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."


def encoded(value, name: str):
    """A text or a path for a char pointer; None stays."""
    if value is None:
        return None
    try:
        found = os.fsencode(value)
    except (TypeError, ValueError):  # also of half a surrogate pair, which no encoding has
        raise Error(f"{name} is {shown(value)}; allowed: a text or a path") from None
    if b"\0" in found:
        raise Error(f"{name} is {shown(value)}; allowed: a text without a zero byte")
    return found


def device_text(name: str, text):
    """The body of a function on the device, for C."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise Error(f"{name} is {shown(text)}; allowed: device code as a text, such as 'return k <= q;', as kernels are made without Python")
    return encoded(text, name)


def number(value, name: str, low: int, high: int) -> int:
    """A whole number within limits. A C field would cut off what is beyond its own."""
    try:
        found = value.__index__()
    except (AttributeError, TypeError):  # of arrays, which have the method and cannot all be numbers
        found = None
    if found is None or not low <= found <= high:
        raise Error(f"{name} is {shown(value)}; allowed: a whole number from {low} to {high}")
    return found


def numbers(values, name: str, low: int, high: int) -> tuple:
    try:
        given = tuple(values)
    except TypeError:
        raise Error(f"{name} is {shown(values)}; allowed: whole numbers, such as (1, 4, 128, 64)") from None
    return tuple(number(each, name, low, high) for each in given)


def flag(value, name: str) -> int:
    """1 for what counts as true, else 0. Arrays of several elements are neither, nor are words: "off" would count as true."""
    try:
        if not isinstance(value, _NO_FLAGS):
            return int(bool(value))
    except (TypeError, ValueError):
        pass
    raise Error(f"{name} is {shown(value)}; allowed: True or False")


def real(value, name: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise Error(f"{name} is {shown(value)}; allowed: a number up to 1.8e308") from None
    except (TypeError, ValueError):
        raise Error(f"{name} is {shown(value)}; allowed: a number") from None
