"""Kernels made in the background: a list that grows while it is worked at.

Decides nothing about how kernels are made. Invariant: each kernel of the list ends as ready, failed or left out.
"""
from __future__ import annotations

import collections
import ctypes

from . import _c
from ._device import Device
from ._error import Error
from ._library import check, encoded, library, number, real, shown
from ._ops import _asking, _flags, _runtime
from ._runtime import Handle, KernelReport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional, Tuple

    from ._runtime import Runtime
    from ._types import DeviceLike
    from .custom import Kernel

_MOST_THREADS = 256


class Progress(collections.namedtuple("Progress", "kernels ready failed left_out seconds ended")):
    """How far a preparation is. seconds: from its start to the end of its last kernel, to now while one is left; ended: none is left."""

    __slots__ = ()


class Preparation:
    """A list of kernels that threads of the library make, in its order. A kernel begins when it is added, or when a thread is free.

    threads: kernels made at once; time_limit_s: seconds from now after which no kernel is begun, 0 for none. A call that needs a kernel of the
    list meanwhile waits for it. The list goes on without this object, while its runtime is there; the object keeps its runtime. Any thread may
    call any method. Raises tilejit.Error.

    >>> import tilejit
    >>> work = tilejit.Preparation(threads=2)
    >>> for head_dim in (64, 128):
    ...     q = tilejit.Spec((1, 4, 512, head_dim), "bf16", "cpu")
    ...     work = work.add("fmha", q, q, q, causal=True)
    >>> work.wait().ready
    2
    """

    def __init__(self, *, threads: int = 1, time_limit_s: float = 0, runtime: Optional[Runtime] = None) -> None:
        limit = real(time_limit_s, "time_limit_s")
        if not limit >= 0:
            raise Error(f"time_limit_s is {shown(time_limit_s)}; allowed: 0 (no limit) and up")
        options = _c.PrepareOptions(time_limit_s=limit, threads=number(threads, "threads", 1, _MOST_THREADS))
        self._runtime = _runtime(runtime)
        owner, handle = self._runtime.handle(), ctypes.c_void_p()
        check(library().tj_preparation_create(owner.value, ctypes.byref(options), ctypes.byref(handle)))
        self._handle = Handle(handle, library().tj_preparation_destroy, owner)

    def add(self, op: Any, *arguments: Any, device: Optional[DeviceLike] = None, **options: Any) -> Preparation:
        """Adds the kernels of a call, or those that flags name, as prepare() takes them. Returns itself."""
        if arguments:
            if device is not None:
                raise Error(f"device is {shown(device)} beside tensors, which say theirs; allowed: None, or flags in their place")
            call = _asking(op, arguments, options)
            check(library().tj_preparation_add(self._handle.value, call.op, ctypes.addressof(call.args)))
        else:
            where = self._runtime.default_device() if device is None else Device.of(device)
            check(library().tj_preparation_add_flags(self._handle.value, encoded(op, "op"), _flags(options), where.c))
        return self

    def add_kernel(self, kernel: Kernel, device: DeviceLike) -> Preparation:
        """Adds a custom.Kernel of the same runtime. Returns itself."""
        own = getattr(kernel, "_handle", None)
        if not isinstance(own, Handle):
            raise Error(f"kernel is {shown(kernel)}; allowed: a tilejit.custom.Kernel")
        check(library().tj_preparation_add_custom(self._handle.value, own.value, Device.of(device).c))
        return self

    def cancel(self) -> None:
        """Leaves out what no thread has begun, and what another thread or process makes. A kernel that the list makes is made."""
        check(library().tj_preparation_cancel(self._handle.value))

    def wait(self, seconds: Optional[float] = None) -> Progress:
        """Waits until every kernel has ended, for so many seconds at most. That some failed is no error: see errors()."""
        c = _c.Progress()
        limit = -1.0 if seconds is None else max(0.0, real(seconds, "seconds"))
        check(library().tj_preparation_wait(self._handle.value, limit, ctypes.byref(c)))
        return Progress(c.kernels, c.ready, c.failed, c.left_out, c.seconds, bool(c.ended))

    def progress(self) -> Progress:
        """How far it is now."""
        return self.wait(0)

    def reports(self) -> List[KernelReport]:
        """The reports of the kernels that are ready, in the order in which they were added."""
        return [report for state, report, _ in self._kernels() if state == "ready"]

    def errors(self) -> List[Tuple[str, Error]]:
        """(the kernel's name, its error) of each that failed."""
        return [(report.name, error) for state, report, error in self._kernels() if state == "failed"]

    def states(self) -> List[Tuple[str, str]]:
        """(the kernel's name, its state) of each: "waiting", "making", "ready", "failed" or "left_out"."""
        return [(report.name, state) for state, report, _ in self._kernels()]

    def _kernels(self):
        for index in range(self.progress().kernels):
            state, report, error = ctypes.c_int32(), _c.KernelReport(), None
            try:
                check(library().tj_preparation_get(self._handle.value, index, ctypes.byref(state), ctypes.byref(report)))
            except Error as failed:
                error = failed
            yield _c.PREPARE_STATES[state.value], KernelReport.from_c(report), error
