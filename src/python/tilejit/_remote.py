"""Stores of kernels elsewhere, such as Redis or a server of one's own, for Runtime(remote=...).

Decides how Python's functions answer C's. Decides nothing about trust: cache/README.md has the rules.
"""
from __future__ import annotations

import ctypes

from . import _c
from ._error import Error
from ._library import encoded, flag, gate, real, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional

    from ._types import Path

_DONE, _ABSENT, _FAILED = range(3)


class Remote:
    """A remote store: asked before a kernel is compiled, and given what was compiled.

    get(name) -> bytes, or None where there is no such value; put(name, value) keeps a value; has(name) -> whether it is there, asked before
    put. Each may be None: nothing is read, nothing is written, each value is put. They are called by threads of the library, two at once at
    most, and must not call the same runtime. One that raises has failed; one that takes more than time_limit_s is given up, and the call goes
    on without it. trusted: values need no signature; else each must be signed by a key of the runtime's pack_keys. sign_key: a file of a
    secret key (tj-warm --make-key), by which values that are put are signed; without it, and without trusted, nothing is put.

    >>> import tilejit
    >>> values = {}
    >>> store = tilejit.Remote(values.get, values.__setitem__, values.__contains__, trusted=True)
    >>> runtime = tilejit.Runtime(target="model:sm_90a", remote=store)
    """

    def __init__(self, get: Optional[Callable[[str], Optional[bytes]]] = None, put: Optional[Callable[[str, bytes], None]] = None,
                 has: Optional[Callable[[str], bool]] = None, *, time_limit_s: float = 2.0, trusted: bool = False,
                 sign_key: Optional[Path] = None) -> None:
        for name, function in (("get", get), ("put", put), ("has", has)):
            if function is not None and not callable(function):
                raise Error(f"{name} is {shown(function)}; allowed: a function, or None")
        self.get, self.put, self.has = get, put, has
        self.time_limit_s, self.trusted, self.sign_key = real(time_limit_s, "time_limit_s"), bool(flag(trusted, "trusted")), sign_key
        if self.time_limit_s <= 0:
            raise Error(f"time_limit_s is {self.time_limit_s}; allowed: above 0")

    def c(self):
        """The structure, which keeps the functions that it points at."""
        c = _c.Remote(user=gate(), time_limit_s=self.time_limit_s, trusted=int(self.trusted), sign_key=encoded(self.sign_key, "sign_key"))
        if self.get is not None:
            c.get = _getter(self.get)
        if self.put is not None:
            c.put = _putter(self.put)
        if self.has is not None:
            c.has = _asker(self.has)
        return c


def _getter(function):
    def get(_user, name, sink, sink_user):
        try:
            value = function(name.decode())
            if value is None:
                return _ABSENT
            value = bytes(memoryview(value))  # bytes(7) would be seven zeros
            sink(sink_user, value, len(value))
            return _DONE
        except BaseException:  # C takes it as a failure; nothing may fly through it
            return _FAILED
    return _c.RemoteGet(get)


def _putter(function):
    def put(_user, name, value, count):
        try:
            function(name.decode(), ctypes.string_at(value, count))
            return _DONE
        except BaseException:
            return _FAILED
    return _c.RemotePut(put)


def _asker(function):
    def has(_user, name):
        try:
            return _DONE if function(name.decode()) else _ABSENT
        except BaseException:
            return _FAILED
    return _c.RemoteHas(has)
