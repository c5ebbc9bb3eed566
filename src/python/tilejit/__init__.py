"""GPU kernels that are made when they are asked for: attention, matrix products, chunk output of the gated delta rule, kernels of your own.

Tensors are anybody's: torch, numpy, JAX, CuPy, or others with __dlpack__. Without a GPU the same generated kernels run on a model of the GPU
on the CPU, for tensors in host memory.

>>> import numpy, tilejit
>>> q = numpy.ones((1, 1, 64, 64), numpy.float16)
>>> tilejit.fmha(q, q, q).shape
(1, 1, 64, 64)
"""
from __future__ import annotations

import sys as _sys

from ._device import Device
from ._error import Error
from ._ops import (chunk_cumsum, chunk_indices, chunk_o, chunk_solve, chunk_states, chunk_wu, combine, fmha, gated_delta_rule, gemm, grouped_gemm,
                   merge_states, plan, prepare, prepare_async, quantise, tune, warm)
from ._plan import Plan
from ._runtime import KernelReport, Runtime, TuneReport, instance
from ._tensors import Spec

__all__ = ["Device", "Error", "Graph", "KernelReport", "Plan", "Preparation", "Progress", "Remote", "Runtime", "Schedule", "Spec", "TuneReport",
           "build_id", "chunk_cumsum", "chunk_indices", "chunk_o", "chunk_solve", "chunk_states", "chunk_wu", "combine", "counters", "custom",
           "default_device", "devices", "fmha", "gated_delta_rule", "gemm", "graph", "graphs", "grouped_gemm", "instance", "ladder", "merge_states",
           "plan", "prepare", "prepare_async", "prometheus", "quantise", "schedule", "target_of", "trim", "tune", "warm"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from . import custom, graph, graphs, ladder
    from ._preparation import Preparation, Progress
    from ._remote import Remote
    from ._types import DeviceLike
    from .graph import Graph, Schedule, schedule

_LATER = {"Preparation": "_preparation", "Progress": "_preparation", "Remote": "_remote", "custom": "custom", "graph": "graph", "graphs": "graphs",
          "ladder": "ladder",
          "Graph": "graph", "Schedule": "graph", "schedule": "graph"}


def devices() -> List[Device]:
    """GPUs that have kernels, and "cpu" where its model serves; each a Device with its target. Raises tilejit.Error.

    >>> import tilejit
    >>> for device in tilejit.devices():
    ...     if device.kind == "cpu":
    ...         print(device, device.target.startswith("model:"))
    cpu True
    """
    return instance().devices()


def default_device() -> Device:
    """The first GPU, else "cpu" with the model."""
    return instance().default_device()


def target_of(device: DeviceLike) -> str:
    """The target that tensors on a device run on: "sm_90a", "model:sm_90a"."""
    return instance().target_of(device)


def counters() -> dict:
    """What the runtime of the process has counted: see Runtime.counters()."""
    return instance().counters()


def prometheus() -> str:
    """The same in Prometheus' text format, for a page that is scraped."""
    return instance().prometheus()


def trim(device: "DeviceLike | None" = None) -> dict:
    """Unloads what the runtime of the process does not need: see Runtime.trim(). Plans of tilejit's operators of torch are given up, too."""
    operators = _sys.modules.get(f"{__name__}._torch_run")
    if operators is not None:
        operators.forget_plans()
    return instance().trim(device)


def build_id() -> str:
    """Hash of the library's own code and templates; part of the key of each alias in the cache."""
    from ._library import library
    return library().tj_build_id().decode()


def __getattr__(name):  # what a program that only calls kernels never needs, and the version, which the library knows
    if name == "__version__":
        from ._library import library
        return library().tj_version().decode()
    if name in _LATER:
        import importlib
        module = importlib.import_module("." + _LATER[name], __name__)
        return module if name == _LATER[name] else getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__
