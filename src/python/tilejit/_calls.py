"""A call of an op while it is put together: its tensors as views, its structure, its results, its stream.

Decides how arguments of Python become a structure of C, for all ops alike. Knows no op. Invariant: everything whose address stands in the
structure is kept by the call.
"""
from __future__ import annotations

import ctypes

from ._error import Error
from ._exchange import api_of
from ._library import check, library, real, shown
from ._ready import learn
from ._results import empty, no_memory
from ._tensors import View, handle_of, stream_of, view


class Call:
    """asks: only the shapes count; results are not allocated."""

    def __init__(self, op: str, args, stream=None, asks: bool = False):
        self.op, self.args, self.asks = op.encode(), args, asks
        self.given_stream = None if stream is None else handle_of(stream)
        self.views: list = []
        self.results: list = []
        self.finish: list = []
        self.names: dict = {}
        self.makes = False

    def tensor(self, name: str, x, optional: bool = False):
        """The view of an argument; the structure gets its address by put()."""
        if x is None and optional:
            return None
        return self._keep(view(name, x, stream=self._stream_for(x)))

    def result(self, name: str, out, like: View, shape: tuple, dtype: str) -> View:
        """The caller's own tensor, else a new one of the framework of `like`."""
        finish = _as_it_is
        if out is not None:
            made = view(name, out, True, self._stream_for(out))
        elif self.asks or like.framework == "spec":
            if not self.asks:
                raise Error(f"{like.name} is a Spec, which has no memory; prepare(), plan() and tune() take one")
            made = no_memory(name, like, shape, dtype)
        else:
            made, finish = empty(name, like, shape, dtype)
            self.makes = True
        self.results.append(made.owner)
        self.finish.append(finish)
        return self._keep(made)

    def _stream_for(self, x):
        """The stream that the producer of a tensor is told; None where it is the producer's own framework that says it."""
        if self.given_stream is not None or not self.views or not self.views[0].on_gpu:
            return self.given_stream
        first = type(self.views[0].owner)
        if type(x) is first or api_of(type(x)) is not None and api_of(type(x)) == api_of(first):
            return None
        return self.stream()

    def _keep(self, made: View) -> View:
        if made.framework == "spec" and not self.asks:
            raise Error(f"{made.name} is a Spec, which has no memory; prepare(), plan() and tune() take one")
        self.views.append(made)
        return made

    def put(self, **members) -> None:
        for name, member in members.items():
            if member is not None:
                setattr(self.args, name, ctypes.addressof(member.c))
                self.names[name] = member

    def written(self) -> set:
        """Names of the structure's members that are results."""
        return {name for name, member in self.names.items() if any(member.owner is result for result in self.results)}

    def scale(self, value) -> None:
        if value is not None:
            self.args.scale, self.args.has_scale = real(value, "scale"), 1

    def stream(self) -> int:
        if self.given_stream is not None:
            return self.given_stream
        return stream_of(self.views[0])

    def run(self, runtime, key=None):
        """key: what the short way finds the next such call by; None when there is none."""
        handle = runtime.handle()
        check(library().tj_run(handle.value, self.op, ctypes.addressof(self.args), self.stream() or None))
        if key is not None:
            learn(key, self, runtime, handle)
        return self.made()

    def made(self) -> tuple:
        """The results as the caller gets them, in their order."""
        return tuple(finish(result) for finish, result in zip(self.finish, self.results))


def _as_it_is(result):
    return result


def shape_of(found: View, *ranks: int) -> tuple:
    """The shape of an argument from which a result's is made."""
    if found.c.rank not in ranks:
        raise Error(f"{found.name} has {found.c.rank} dimensions ({list(found.shape)}); allowed: {' or '.join(map(str, ranks))}")
    return found.shape


def one_of(name: str, value, allowed: dict):
    try:
        return allowed[value]
    except (KeyError, TypeError, ValueError):  # the others of what has no hash
        raise Error(f"{name} is {shown(value)}; allowed: {', '.join(str(each) for each in allowed)}") from None


def runtime_of(given):
    from ._runtime import Runtime, instance
    if given is None:
        return instance()
    if not isinstance(given, Runtime):
        raise Error(f"runtime is {shown(given)}; allowed: a tilejit.Runtime, or None for the process's own")
    return given
