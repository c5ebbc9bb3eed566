"""Kernels of your own: a dependence graph and a folder with the bodies of its nodes, in the place of a shipped op.

src/graph/README.md has the graph's format, kernel_templates/README.md that of bodies, samples/05_custom_gemm an example.
"""
from __future__ import annotations

import ctypes

from . import _c
from ._device import Device
from ._error import Error
from ._library import check, encoded, library, number, numbers
from ._ops import _runtime, tune_options, tuned
from ._runtime import Handle, KernelReport
from ._tensors import handle_of, view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Sequence, Union

    from ._runtime import Runtime, TuneReport
    from ._types import DeviceLike, Path, StreamLike, SupportsDLPack
    from .graph import Graph

_MAP_BYTES = 128


class Kernel:
    """A kernel of your own. Reads and checks folder and graph; compiles nothing before it is needed.

    name: 1 to 64 letters, digits, '_', '-' and '.'. graph: a tilejit.Graph with `code`, or its JSON text. folder: its *.cuh, *.hpp and *.h
    files are what units may include. max_stages, max_slots: 0 for any. turns: hold roles that alternate on a unit to their turns. Raises
    tilejit.Error that names file, body or context. Any thread may use it at any time; it keeps its runtime.

    kernel.launch(params, blocks) takes one parameter by value: bytes, or a ctypes.Structure laid out as the kernel's own.

    >>> import pathlib, tilejit
    >>> folder = pathlib.Path("samples/05_custom_gemm")  # of the sources
    >>> kernel = tilejit.custom.Kernel("gemm_gelu", (folder / "gemm_gelu.json").read_text(), folder)
    >>> kernel.prepare("cpu").name
    'gemm_gelu'
    """

    def __init__(self, name: str, graph: Union[Graph, str], folder: Path, *, max_stages: int = 0, max_slots: int = 0, turns: bool = True,
                 runtime: Optional[Runtime] = None) -> None:
        self.name, self._runtime, handle = name, _runtime(runtime), ctypes.c_void_p()
        text = graph.json() if hasattr(graph, "json") else graph
        given = _c.CustomDescription(name=encoded(name, "name"), graph=encoded(text, "graph"), folder=encoded(folder, "folder"),
                                     max_stages=number(max_stages, "max_stages", -2**31, 2**31 - 1),
                                     max_slots=number(max_slots, "max_slots", -2**31, 2**31 - 1), without_turns=int(not turns))
        owner = self._runtime.handle()
        check(library().tj_custom_create(owner.value, ctypes.byref(given), ctypes.byref(handle)))
        self._handle = Handle(handle, library().tj_custom_destroy, owner)

    @property
    def _value(self):
        """None once the collector has ended the runtime, which it may do first of a cycle's objects."""
        return self._handle.value if self._handle.kept.value is not None else None

    def _device(self, device):
        return (self._runtime.default_device() if device is None else Device.of(device)).c

    def prepare(self, device: Optional[DeviceLike] = None) -> KernelReport:
        """Gets the kernel compiled, cached and loaded on a device (None: the default one), without launching."""
        report = _c.KernelReport()
        check(library().tj_custom_prepare(self._value, self._device(device), ctypes.byref(report)))
        return KernelReport.from_c(report)

    def warm(self, target: str) -> KernelReport:
        """Compiles for a target into the disk cache without any device."""
        report = _c.KernelReport()
        check(library().tj_custom_warm(self._value, encoded(target, "target"), ctypes.byref(report)))
        return KernelReport.from_c(report)

    def tune(self, device: Optional[DeviceLike] = None, only: Sequence[str] = (), limit: int = 0, rounds: int = 10, seed: int = 0) -> TuneReport:
        """Times the graph's candidates on a GPU, by the first trial of its document that is timed, and keeps the fastest: later launches on such
        devices take it. only: names of candidates. Raises tilejit.Error with the stage "argument" where there are no candidates or no trial."""
        how, at = tune_options(only, limit, rounds, seed), self._device(device)
        return tuned(lambda report: library().tj_custom_tune(self._value, at, ctypes.byref(how), report))

    def tensor_map(self, tensor: SupportsDLPack, box: Sequence[int], swizzle_bytes: int = 128) -> bytes:
        """What the copy engine reads of a tensor, as the 128 bytes of a tj::TensorMap; a parameter holds them at a multiple of 64. Valid as
        long as the tensor's memory. box: elements of a copy in each dimension, 1 to 256. swizzle_bytes: 0, 32, 64 or 128."""
        given, out = view("tensor", tensor), ctypes.create_string_buffer(_MAP_BYTES)
        sizes = numbers(box, "box", -2**63, 2**63 - 1)
        if len(sizes) != given.c.rank:
            raise Error(f"box has {len(sizes)} dimensions; allowed: the tensor's {given.c.rank}")
        cut = _c.Box(shape=_c.Shape(*sizes), swizzle_bytes=number(swizzle_bytes, "swizzle_bytes", -2**31, 2**31 - 1))
        check(library().tj_custom_tensor_map(self._value, ctypes.addressof(given.c), ctypes.byref(cut), out))
        return out.raw

    def sm_count(self, device: Optional[DeviceLike] = None) -> int:
        """Multiprocessors of the device. Ask once, not for each launch."""
        count = ctypes.c_uint32()
        check(library().tj_custom_sm_count(self._value, self._device(device), ctypes.byref(count)))
        return count.value

    def launch(self, params: Any, blocks: int, *, device: Optional[DeviceLike] = None, stream: StreamLike = 0) -> None:
        """Enqueues `blocks` blocks, a multiple of the graph's cluster; finished on return on the model. The first launch on a device makes
        the kernel."""
        size = ctypes.sizeof(params) if isinstance(params, (ctypes.Structure, ctypes.Array)) else len(memoryview(params).cast("B"))
        kept = (ctypes.c_ulonglong * ((size + 7) // 8 + 1))()  # aligned as any parameter is
        ctypes.memmove(kept, ctypes.addressof(params) if isinstance(params, (ctypes.Structure, ctypes.Array)) else bytes(params), size)
        check(library().tj_custom_launch(self._value, self._device(device), ctypes.addressof(kept), size,
                                         number(blocks, "blocks", 0, 2**32 - 1), handle_of(stream) or None))
