"""Calls that the library knows: the short way of tilejit.fmha() and the others, without views and structures.

Decides which calls may take it: those on a GPU with tensors whose types offer DLPack's exchange API. The library then reads the tensors
itself, finds the plan of a call of the same shapes, and enqueues it. All that is one call, which keeps the GIL. A call that it does not know goes
the long way, which gives the GIL up; the second such call makes the plan. Invariant: the short way gives what the long way gives.
"""
from __future__ import annotations

import ctypes
from ctypes import c_void_p, py_object

from . import _c
from ._error import Error
from ._exchange import api_of
from ._library import check, keeping, library
from ._tensors import handle_of, module

CURRENT = c_void_p(-1)  # the framework's own stream
_MOST_KEYS = 1024
_PLAIN = (type(None), bool, int, float, str)
_runners: dict = {}
default_ready: dict = {}  # the calls of the process's own runtime


def runner(name: str, result, objects: int):
    """A function of the library that takes a handle, a stream and this many objects, and keeps the GIL."""
    key = name, objects
    found = _runners.get(key)
    if found is None:
        found = _runners[key] = ctypes.PYFUNCTYPE(result, c_void_p, c_void_p, *[py_object] * objects)((name, keeping()))
    return found


def _host():
    def address(name):
        return ctypes.cast(getattr(ctypes.pythonapi, name), c_void_p)
    return _c.ObjectHost(clear_error=address("PyErr_Clear"), retain=address("Py_IncRef"), release=address("Py_DecRef"),
                         pack=address("PyTuple_Pack"), nothing=id(None))


_the_host = None


def host() -> int:
    """Functions of Python that the library calls; the structure lives as long as the process."""
    global _the_host
    if _the_host is None:
        _the_host = _host()
    return ctypes.addressof(_the_host)


def plain(value):
    """A number or a word as a part of a key. Zeros are told from each other by their text: alpha=-0.0 makes other zeros than alpha=0."""
    kind = type(value)
    if kind is float:
        return value or str(value)
    return value if value is None or kind is int or kind is bool or kind is str else ()  # no call with a () is ever known


def short(runtime, key: tuple, stream, objects, out):
    """The result, or results, of a call on the short way; None where it must go the long way.

    key: the types of all tensors, and all numbers. objects: the tensors that are there, the caller's results last.
    """
    try:
        known = (default_ready if runtime is None else runtime.ready).get(key)
    except (TypeError, ValueError, AttributeError):  # a number that is no plain one, or no runtime
        return None
    if known is None or known.wants_grad(objects):
        return None
    done = known.run(known.value, CURRENT if stream is None else c_void_p(handle_of(stream)), *objects)
    return done if out is None else out if done == 0 else None


def _unknown(*_):
    return None


class Short:
    """A server of calls with objects of the same types. run(value, stream, *objects): 0 or the new results, where it knows the call."""

    __slots__ = ("value", "run", "_grad", "_destroy", "_kept")

    def __init__(self, value, run, kinds, destroy, kept):
        torch = module("torch")
        self.value, self.run, self._destroy, self._kept = value, run, destroy, kept
        self._grad = torch.is_grad_enabled if torch is not None and any(issubclass(kind, torch.Tensor) for kind in kinds) else None

    def wants_grad(self, objects) -> bool:
        """Whether torch would expect a gradient of what is computed: the long way refuses it."""
        if self._grad is not None and self._grad():
            for x in objects:
                if x.requires_grad:
                    return True
        return False

    def __del__(self):
        gone, self.value, self.run = self.value, None, _unknown  # for finalizers of a cycle, which may come later
        self._destroy(gone)


def _short_of(call, api, kept) -> Short:
    members = {id(view): name.encode() for name, view in call.names.items()}
    count, made = len(call.views), len(call.results) if call.makes else 0
    names, value = (ctypes.c_char_p * count)(*[members[id(view)] for view in call.views]), c_void_p()
    check(library().tj_object_calls_create(names, count, made, api, host(), ctypes.byref(value)))
    run = runner("tj_object_calls_make", py_object, count - made) if made else runner("tj_object_calls_run", ctypes.c_int32, count)
    return Short(value, run, [type(view.owner) for view in call.views], library().tj_object_calls_destroy, kept)


def learn(key: tuple, call, runtime, owner) -> None:
    """Notes a call that was served the long way. What goes wrong here costs the short way and nothing else.

    owner: the runtime's handle that the call took; the runtime may be closed by now, and then nothing is noted.
    """
    first, ready = call.views[0], runtime.ready
    if not first.on_gpu or runtime.is_other(owner) or not all(isinstance(each, _PLAIN) for each in key[1:]):
        return
    api = api_of(type(first.owner))
    if api is None or any(api_of(type(view.owner)) != api for view in call.views):
        return
    known = ready.get(key)
    if known is None:
        if len(ready) >= _MOST_KEYS:
            ready.clear()
        try:
            known = ready[key] = _short_of(call, api, owner.kept)
        except Error:
            return
    objects = (c_void_p * len(call.views))(*[id(view.owner) for view in call.views])
    wanted, plan, keep = ctypes.c_int32(), c_void_p(), keeping().tj_object_calls_keep
    if keep(known.value, None, objects, ctypes.byref(wanted)) != _c.OK or not wanted.value:
        return
    if library().tj_plan_create(owner.value, call.op, ctypes.addressof(call.args), ctypes.byref(plan)) != _c.OK:
        return
    keep(known.value, plan, objects, None)
    library().tj_plan_destroy(plan)
