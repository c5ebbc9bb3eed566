"""Runtimes: what makes, keeps and launches kernels, and the options that it is made with.

Decides when C's handles are given back: with the last object that needs them, so that closing a runtime in one thread harms no call in
another. Decides nothing about ops (_ops.py).
"""
from __future__ import annotations

import collections
import ctypes
import functools
import json

from . import _c, _ops
from ._device import Device
from ._error import Error
from ._library import check, encoded, flag, gate, library, number, real, shown
from ._ready import default_ready
from ._tensors import handle_of

TYPE_CHECKING = False  # typing itself would take a fifth of the package's import
if TYPE_CHECKING:
    from typing import Callable, List, Optional

    from ._remote import Remote
    from ._types import Allocator, DeviceLike, Path, StreamLike

_MOST_DEVICES = 64


class Handle:
    """A C object and the call that gives it back. Who comes later, as finalizers of a cycle may, finds none."""

    __slots__ = ("value", "_destroy", "kept")

    def __init__(self, value, destroy, kept=None):
        self.value, self._destroy, self.kept = value, destroy, kept

    def __del__(self):
        if self._destroy is not None:
            gone, self.value = self.value, None
            self._destroy(gone)


class KernelReport(collections.namedtuple("KernelReport", "name target origin schedule_ms codegen_ms compile_ms load_ms registers source_path "
                                                         "schedule_json kernels")):
    """What prepare() and warm() found or made. origin: "memory", "disk" or "compiled"; registers: a thread's, 0 when unknown; kernels: how
    many were asked for, of which this is the last."""

    __slots__ = ()

    def __repr__(self) -> str:
        return (f"<tilejit.KernelReport: {self.name} for {self.target}, {self.origin}, schedule {self.schedule_ms:.1f} ms, source "
                f"{self.codegen_ms:.1f} ms, compiler {self.compile_ms:.1f} ms, load {self.load_ms:.1f} ms>")

    @property
    def schedule(self) -> dict:
        """The kernel's schedule: ii, length, nodes, roles, rings; src/sched/README.md lists the keys."""
        return json.loads(self.schedule_json)

    @classmethod
    def from_c(cls, c, kernels: int = 1) -> "KernelReport":
        return cls(_text(c.name), _text(c.target), _c.ORIGINS[c.origin], c.schedule_ms, c.codegen_ms, c.compile_ms, c.load_ms, c.registers,
                   _text(c.source_path), _text(c.schedule_json), kernels)


class TuneReport(collections.namedtuple("TuneReport", "problem device target chosen measured_us usual_us flops variants measured kept")):
    """What tune() found. chosen: the fastest kernel's name; usual_us: of the kernel that is taken unmeasured; kept: the cache has it."""

    __slots__ = ()


def _text(value) -> str:
    return value.decode("utf-8", "replace") if value else ""


def _sink(given):
    def sink(_user, level, text, length):
        given(_c.LOG_LEVELS[level] if 0 <= level < len(_c.LOG_LEVELS) else "error", ctypes.string_at(text, length).decode("utf-8", "replace"))
    return _c.LogSink(sink)


def _allocator(given):
    def allocate(_user, device, size, stream):
        try:
            return given.allocate(Device.from_c(device), size, stream or 0) or None
        except Exception:  # C takes null as "there is none"; nothing may fly through it
            return None

    def deallocate(_user, device, memory, size, stream):
        given.deallocate(Device.from_c(device), memory, size, stream or 0)
    return _c.Allocate(allocate), _c.Deallocate(deallocate)


def _options(given: dict):
    c = _c.Options()
    library().tj_options_init(ctypes.byref(c))
    for name in ("cache_dir", "target", "dump_dir", "hip_compiler", "record_file", "pack_keys", "facts_file"):
        setattr(c, name, encoded(given[name], name))
    for name in ("cache_max_size_bytes", "code_max_size_bytes"):
        if given[name] is not None:
            setattr(c, name, number(given[name], name, 0, 2**63 - 1))
    for name, words in (("log_level", _c.LOG_LEVELS), ("on_miss", _c.MISS_POLICIES)):
        if given[name] is not None:
            if not isinstance(given[name], str) or given[name] not in words:
                raise Error(f"{name} is {shown(given[name])}; allowed: {', '.join(words)}")
            setattr(c, name, words.index(given[name]))
    c.use_disk_cache = flag(given["use_disk_cache"], "use_disk_cache")
    if given["use_tuning"] is not None:
        c.use_tuning = flag(given["use_tuning"], "use_tuning")
    for name in ("wait_limit_s", "compile_limit_s"):
        if given[name] is not None:
            value = real(given[name], name)
            if value < 0:
                raise Error(f"{name} is {value}; allowed: 0 (no limit) and up")
            setattr(c, name, value)
    if given["log_sink"] is not None:
        if not callable(given["log_sink"]):
            raise Error(f"log_sink is {shown(given['log_sink'])}; allowed: a function of (level, text)")
        c.log_sink, c.log_user = _sink(given["log_sink"]), gate()
    if given["allocator"] is not None:
        if not all(callable(getattr(given["allocator"], each, None)) for each in ("allocate", "deallocate")):
            raise Error(f"allocator is {shown(given['allocator'])}; allowed: an object with allocate(device, bytes, stream) and "
                        "deallocate(device, address, bytes, stream)")
        c.allocate, c.deallocate = _allocator(given["allocator"])
        c.allocator_user = gate()
    if given["remote"] is not None:
        from ._remote import Remote
        if not isinstance(given["remote"], Remote):
            raise Error(f"remote is {shown(given['remote'])}; allowed: a tilejit.Remote")
        c.remote = ctypes.pointer(given["remote"].c())
    return c


class Runtime:
    """A runtime of its own. tilejit.fmha() and the others use one of the whole process, with the options that the environment gives.

    cache_dir, target, dump_dir, hip_compiler, record_file, pack_keys, facts_file: texts or paths; cache_max_size_bytes: a number; log_level: "trace",
    "debug", "info", "warn", "error" or "off"; use_disk_cache, use_tuning: True or False; wait_limit_s, compile_limit_s: seconds, 0 for none.
    on_miss: what a call does whose kernel is not in the cache. "wait" until it is made, "error", or "quick": take a slower kernel until the
    best one is there; the bits of its results may differ; on sm_90a calls wait. None leaves a setting to its variable (TJ_CACHE_DIR,
    TJ_ON_MISS, ...) or default.
    cache_dir may be several folders with ":" between them, of which the first that can be written is. log_sink: called with (level, text) from any
    thread. allocator: an object with allocate(device, bytes, stream) -> address and deallocate(device, address, bytes, stream), for workspaces.
    remote: a tilejit.Remote, a store elsewhere that is asked before a kernel is compiled. code_max_size_bytes: bytes of kernels that stay loaded
    on a GPU, those used last; 0 for no bound. facts_file: facts of one arch in the place of those shipped, as TJ_FACTS names them.
    When the interpreter ends (atexit), log_sink, allocator and remote are called no more: it waits up to 10 s for those under way.

    Has all functions of the package as methods. Any thread may call any of them at any time. Raises tilejit.Error that names the option.

    >>> import tilejit
    >>> with tilejit.Runtime(target="model:sm_90a", log_level="error") as runtime:
    ...     runtime.target_of("cpu")
    'model:sm_90a'
    """

    def __init__(self, *, cache_dir: Optional[Path] = None, cache_max_size_bytes: Optional[int] = None, target: Optional[str] = None,
                 dump_dir: Optional[Path] = None, hip_compiler: Optional[str] = None, log_level: Optional[str] = None, use_disk_cache: bool = True,
                 use_tuning: Optional[bool] = None, wait_limit_s: Optional[float] = None, compile_limit_s: Optional[float] = None,
                 log_sink: Optional[Callable[[str, str], None]] = None, allocator: Optional[Allocator] = None,
                 record_file: Optional[Path] = None, on_miss: Optional[str] = None, pack_keys: Optional[Path] = None,
                 remote: Optional[Remote] = None, code_max_size_bytes: Optional[int] = None, facts_file: Optional[Path] = None) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        options, handle = _options(given), ctypes.c_void_p()
        check(library().tj_runtime_create(ctypes.byref(options), ctypes.byref(handle)))
        self._handle: Optional[Handle] = Handle(handle, library().tj_runtime_destroy, (options, allocator, log_sink))
        self.ready: dict = {}

    def handle(self) -> Handle:
        """What a call holds on to while it lasts."""
        found = self._handle
        if found is None:
            raise Error("the runtime was closed; make another")
        return found

    def is_other(self, handle: Handle) -> bool:
        """Whether the runtime was closed since it gave this handle."""
        return self._handle is not handle

    def close(self) -> None:
        """Gives the runtime up once no call and no kernel of custom.Kernel needs it. Plans go on."""
        self._handle = None
        self.ready = {}

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def default_device(self) -> Device:
        """The first GPU, else "cpu" with the model."""
        device, handle = _c.Device(), self.handle()
        check(library().tj_default_device(handle.value, ctypes.byref(device)))
        return Device.from_c(device)

    def target_of(self, device: DeviceLike) -> str:
        """The target that tensors there run on: "sm_90a", "model:sm_90a"."""
        text, handle = ctypes.c_char_p(), self.handle()
        check(library().tj_target_of(handle.value, Device.of(device).c, ctypes.byref(text)))
        return _text(text.value)

    def counters(self) -> dict:
        """What the runtime has counted: hits by layer of the cache, misses, waits, compiles, bytes, evictions, rejected entries by reason.

        >>> import tilejit
        >>> tilejit.Runtime(target="model:sm_90a").counters()["compiles"]
        0
        """
        return json.loads(self._counted(b"json"))

    def prometheus(self) -> str:
        """The same in Prometheus' text format."""
        return self._counted(b"prometheus")

    def trim(self, device: Optional[DeviceLike] = None) -> dict:
        """Unloads the kernels that nothing needs, on one device or on all, and gives free memory of pools of workspaces back.

        Kernels of plans stay, and so does what a CUDA graph may launch. Without code_max_size_bytes nobody notes graphs: then each kernel stays
        that ran on another stream than the default one. Later calls load kernels again. Returns what was freed. The plans that the package makes
        of calls which come again, and which would keep their kernels under a bound, too, are given up first.

        >>> import tilejit
        >>> tilejit.Runtime(target="model:sm_90a").trim()
        {'kernels': 0, 'code_bytes': 0, 'workspace_bytes': 0}
        """
        report, handle = _c.TrimReport(), self.handle()
        self.ready.clear()
        given = None if device is None else ctypes.byref(Device.of(device).c)
        check(library().tj_trim(handle.value, given, ctypes.byref(report)))
        return {name: getattr(report, name) for name in ("kernels", "code_bytes", "workspace_bytes")}

    def _counted(self, form: bytes) -> str:
        text, handle = ctypes.c_char_p(), self.handle()
        check(library().tj_counters(handle.value, form, ctypes.byref(text)))
        return _text(text.value)

    def devices(self) -> List[Device]:
        """GPUs that have kernels, and "cpu" where its model serves; each with its target.

        >>> import tilejit
        >>> [str(device) for device in tilejit.Runtime(target="model:sm_90a").devices()]
        ['cpu']
        """
        found = []
        for kind in ("cuda", "hip", "cpu"):
            for index in range(_MOST_DEVICES if kind != "cpu" else 1):
                try:
                    found.append(Device(kind, index, self.target_of(Device(kind, index))))
                except Error as error:
                    if error.stage != "target":  # no such device; else there is one without kernels
                        break
        return found

    if TYPE_CHECKING:  # the functions of _ops.py, whose runtime is this one; assigned below
        fmha, gemm, grouped_gemm = staticmethod(_ops.fmha), staticmethod(_ops.gemm), staticmethod(_ops.grouped_gemm)
        quantise, merge_states = staticmethod(_ops.quantise), staticmethod(_ops.merge_states)
        combine, gated_delta_rule = staticmethod(_ops.combine), staticmethod(_ops.gated_delta_rule)
        chunk_indices, chunk_o = staticmethod(_ops.chunk_indices), staticmethod(_ops.chunk_o)
        chunk_cumsum, chunk_solve = staticmethod(_ops.chunk_cumsum), staticmethod(_ops.chunk_solve)
        chunk_wu, chunk_states = staticmethod(_ops.chunk_wu), staticmethod(_ops.chunk_states)
        prepare, warm, tune, plan = staticmethod(_ops.prepare), staticmethod(_ops.warm), staticmethod(_ops.tune), staticmethod(_ops.plan)
        prepare_async = staticmethod(_ops.prepare_async)

    def synchronize(self, device: Optional[DeviceLike] = None, stream: StreamLike = 0) -> None:
        """Waits until the stream has done what was enqueued. Raises what a kernel before it failed with."""
        handle = self.handle()
        device = self.default_device() if device is None else Device.of(device)
        check(library().tj_synchronize(handle.value, device.c, handle_of(stream)))


_KERNELS = ("fmha", "gemm", "grouped_gemm", "quantise", "combine", "merge_states", "chunk_indices", "chunk_o", "gated_delta_rule", "chunk_cumsum",
            "chunk_solve", "chunk_wu", "chunk_states", "prepare", "prepare_async", "warm", "tune", "plan")


def _method(function):
    @functools.wraps(function)
    def method(self, *arguments, **options):
        return function(*arguments, runtime=self, **options)
    return method


for _name in _KERNELS:
    setattr(Runtime, _name, _method(getattr(_ops, _name)))


@functools.lru_cache(maxsize=None)
def instance() -> Runtime:
    """The process's own runtime, made at the first use."""
    handle, made = ctypes.c_void_p(), Runtime.__new__(Runtime)
    check(library().tj_runtime_instance(ctypes.byref(handle)))
    made._handle, made.ready = Handle(handle, None), default_ready
    return made
