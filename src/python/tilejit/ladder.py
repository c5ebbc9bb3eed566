"""Ladders of attention and of matrix products: the same call on kernels that leave less to the scheduler, rung by rung.

Decides the rungs' names. The rungs are the library's (include/tilejit/ladder.hpp); which archs have them is theirs to say.

>>> import numpy, tilejit
>>> tilejit.ladder.rungs("gemm")[:3]
('v1', 'v2', 'v3')
>>> a = numpy.ones((128, 64), numpy.float16)
>>> float(tilejit.ladder.run("gemm", "v1", a, a)[0, 0])
64.0
>>> tilejit.ladder.prepare("gemm", "v1", a, a).name.endswith("_v1")
True
"""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Tuple, Union

from . import _c
from ._calls import one_of, runtime_of
from ._error import Error
from ._library import check, library, shown
from ._ops import _MAKERS
from ._runtime import KernelReport, Runtime

__all__ = ["prepare", "run", "rungs"]

_RUNGS = {"fmha": ("basic", "exp2", "transposed_k", "latency", "occupancy", "division"),
          "gemm": tuple(f"v{rung}" for rung in range(1, 11))}


def rungs(op: str) -> Tuple[str, ...]:
    """Names of an op's rungs, in order: the first is rung 1. The library's own kernel is no rung, and has the name "none". Raises tilejit.Error.

    >>> import tilejit
    >>> tilejit.ladder.rungs("fmha")
    ('basic', 'exp2', 'transposed_k', 'latency', 'occupancy', 'division')
    """
    return one_of("op", op, _RUNGS)


def _number(op: str, rung: Union[int, str]) -> int:
    names = ("none", *rungs(op))
    if isinstance(rung, str) and rung in names:
        return names.index(rung)
    if isinstance(rung, int) and not isinstance(rung, bool) and 0 <= rung < len(names):
        return rung
    raise Error(f"rung is {shown(rung)}; allowed: {', '.join(names)}, or their numbers from 0 to {len(names) - 1}")


def run(op: str, rung: Union[int, str], *arguments: Any, runtime: Optional[Runtime] = None, **options: Any) -> Any:
    """Runs a call of tilejit.fmha() or gemm() on a rung's kernel, by name or number, and returns what that call does. Raises tilejit.Error; a
    rung that does not serve the sizes, or an arch without such rungs, is refused by name.

    >>> import numpy, tilejit
    >>> q = numpy.ones((1, 1, 64, 64), numpy.float16)
    >>> tilejit.ladder.run("gemm", "v4", q[0, 0], q[0, 0], out=numpy.empty((64, 64), numpy.float16)).shape
    (64, 64)
    """
    number, handle = _number(op, rung), runtime_of(runtime).handle()
    call = _MAKERS[op](*arguments, **options)
    check(library().tj_run_rung(handle.value, call.op, ctypes.addressof(call.args), number, call.stream() or None))
    results = call.made()
    return results if len(results) > 1 else results[0]


def prepare(op: str, rung: Union[int, str], *arguments: Any, runtime: Optional[Runtime] = None, **options: Any) -> KernelReport:
    """Gets a rung's kernel compiled, cached and loaded for such a call, with tensors or Specs, without launching: a KernelReport, whose
    schedule_json tells what the rung leaves to the scheduler. Raises tilejit.Error as run() does.

    >>> import tilejit
    >>> tilejit.ladder.prepare("gemm", 2, tilejit.Spec((64, 64), "f16", "cpu"), tilejit.Spec((64, 64), "f16", "cpu")).name.endswith("_v2")
    True
    """
    number, handle, report = _number(op, rung), runtime_of(runtime).handle(), _c.KernelReport()
    call = _MAKERS[op](*arguments, asks=True, **options)
    check(library().tj_prepare_rung(handle.value, call.op, ctypes.addressof(call.args), number, ctypes.byref(report)))
    return KernelReport.from_c(report, 1)
