"""Calls that the library knows: the short way of tilejit.fmha() and the others, without views and structures.

Decides which calls may take it: those on a GPU with tensors whose types offer DLPack's exchange API. The library then reads the tensors
itself, finds the plan of a call of the same shapes, and enqueues it. All that is one call, which keeps the GIL. It is a built-in function over
the library's, so that no argument is converted. A call that it does not know goes the long way, which gives the GIL up; the second such call
makes the plan. Invariant: the short way gives what the long way gives.
"""
from __future__ import annotations

import ctypes
import sys
from ctypes import c_void_p, py_object

from . import _c
from ._error import Error
from ._exchange import api_of
from ._library import check, keeping, library
from ._results import maker_of
from ._tensors import handle_of, module

_MOST_KEYS = 1024
_PLAIN = (type(None), bool, int, float, str)
_METH_FASTCALL = 0x80  # of CPython: a function of itself, of the place of its arguments, and of their number
_methods: dict = {}
default_ready: dict = {}  # the calls of the process's own runtime


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""
    _fields_ = [("name", ctypes.c_char_p), ("function", c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


_function = ctypes.PYFUNCTYPE(py_object, c_void_p, py_object, c_void_p)(("PyCFunction_NewEx", ctypes.pythonapi))
_retain = ctypes.PYFUNCTYPE(None, py_object)(("Py_IncRef", ctypes.pythonapi))


def serving(name: str, handle: int):
    """The built-in function (objects, stream) that a function of the library is with this handle; the stream may be left out."""
    method = _methods.get(name)
    if method is None:
        made = _Method(name.encode(), ctypes.cast(getattr(keeping(), name), c_void_p), _METH_FASTCALL)
        _retain(made)  # for ever: at the interpreter's end, finalizers may call the function behind the end of this module
        method = _methods.setdefault(name, made)
    return _function(ctypes.addressof(method), handle, None)


def _host():
    def address(name):
        return ctypes.cast(getattr(ctypes.pythonapi, name), c_void_p)
    return _c.ObjectHost(clear_error=address("PyErr_Clear"), retain=address("Py_IncRef"), release=address("Py_DecRef"),
                         pack=address("PyTuple_Pack"), count=address("PyTuple_Size"), item=address("PyTuple_GetItem"),
                         address=address("PyLong_AsVoidPtr"), type_of=address("PyObject_Type"), attribute=address("PyObject_GetAttr"),
                         call=address("PyObject_CallObject"), nothing=id(None), yes=id(True), no=id(False), wants_grad=_named("requires_grad"))


def _named(text: str) -> int:
    """The address of a name for C."""
    name = sys.intern(text)
    _retain(name)
    return id(name)


_hosts = {}


def host() -> int:
    """Functions of Python that the library calls; the structure lives as long as the process."""
    found = _hosts.get("host")
    if found is None:
        found = _hosts.setdefault("host", _host())  # the first one stays: another thread, or a signal's handler, may have given it away
    return ctypes.addressof(found)


def plain(value):
    """A number or a word as a part of a key. Zeros are told from each other by their text: alpha=-0.0 makes other zeros than alpha=0."""
    kind = type(value)
    if kind is float:
        return value or str(value)
    return value if value is None or kind is int or kind is bool or kind is str else ()  # no call with a () is ever known


def short(runtime, key: tuple, stream, objects, out):
    """The result, or results, of a call on the short way; None where it must go the long way.

    key: the types of all tensors, and all numbers. objects: a tuple of the tensors that are there, the caller's results last.
    """
    try:
        known = (default_ready if runtime is None else runtime.ready).get(key)
    except (TypeError, ValueError, AttributeError):  # a number that is no plain one, or no runtime
        return None
    if known is None:
        return None
    done = known.run(objects) if stream is None else known.run(objects, handle_of(stream))
    return done if out is None or done is None else out


def _unknown(*_):
    return None


class Short:
    """A server of calls with objects of the same types. run(tuple of objects), or run(tuple, stream), serves a call that it knows: it gives the new
    results, or True. It is None for others."""

    __slots__ = ("value", "run", "_destroy", "_kept")

    def __init__(self, value, run, destroy, kept):
        self.value, self.run, self._destroy, self._kept = value, run, destroy, kept

    def __del__(self):
        gone, self.value, self.run = self.value, None, _unknown  # for finalizers of a cycle, which may come later
        self._destroy(gone)


NOTHING = Short(None, _unknown, lambda _: None, None)


def records_of(kinds):
    """torch's word on whether it records calls for gradients, which the long way refuses; None where no type is torch's."""
    torch = module("torch")
    return torch.is_grad_enabled if torch is not None and any(issubclass(kind, torch.Tensor) for kind in kinds) else None


def _short_of(call, api, kept) -> Short:
    members = {id(view): name.encode() for name, view in call.names.items()}
    count, made = len(call.views), len(call.results) if call.makes else 0
    names, value = (ctypes.c_char_p * count)(*[members[id(view)] for view in call.views]), c_void_p()
    records = records_of([type(view.owner) for view in call.views])
    check(library().tj_object_calls_create(names, count, made, api, host(), records and id(records), ctypes.byref(value)))
    return Short(value, serving("tj_object_calls_serve", value.value), keeping().tj_object_calls_destroy, (records, kept))


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
    if keep(known.value, None, objects, None, ctypes.byref(wanted)) != _c.OK or not wanted.value:
        return
    if not keeping().tj_runtime_is_settled(owner.value):  # the plan would wait for the best kernel
        return
    if library().tj_plan_create(owner.value, call.op, ctypes.addressof(call.args), ctypes.byref(plan)) != _c.OK:
        return
    makers = [maker_of(view) for view in call.views[-len(call.results):]] if call.makes else []
    keep(known.value, plan, objects, (c_void_p * len(makers))(*[maker and id(maker) for maker in makers]), None)
    library().tj_plan_destroy(plan)
