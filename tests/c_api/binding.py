"""libtilejit through ctypes: the structures and calls of include/tilejit/tilejit.h, nothing else.

Used by the tests of the C ABI and by tests/gpu/compare.py. Needs neither NumPy nor PyTorch.
"""
import ctypes
import os

MAX_RANK = 5
OK, INVALID_ARGUMENT, UNSUPPORTED, NOT_FOUND, OUT_OF_MEMORY, COMPILE_FAILED = range(6)
DRIVER_ERROR, DEADLOCK, COLD_IN_CAPTURE, IO, MODEL_FAULT, INTERNAL = range(6, 12)
F16, BF16, F32, I32, E4M3 = range(5)
CPU, CUDA, HIP = range(3)
FROM_MEMORY, FROM_DISK, COMPILED = range(3)
NO_ACTIVATION, RELU, GELU, SILU = range(4)
ELEMENT_BYTES = {F16: 2, BF16: 2, F32: 4, I32: 4, E4M3: 1}


class Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


class Sized(ctypes.Structure):
    """A structure whose first field is its own size."""

    def __init__(self, **fields):
        super().__init__(**fields)
        if "size" not in fields:
            self.size = ctypes.sizeof(type(self))


class Tensor(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("data", ctypes.c_void_p), ("device", Device), ("dtype", ctypes.c_int32),
                ("rank", ctypes.c_int32), ("shape", ctypes.c_int64 * MAX_RANK), ("strides", ctypes.c_int64 * MAX_RANK)]


class FmhaArgs(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("q", ctypes.POINTER(Tensor)), ("k", ctypes.POINTER(Tensor)),
                ("v", ctypes.POINTER(Tensor)), ("o", ctypes.POINTER(Tensor)), ("lse", ctypes.POINTER(Tensor)),
                ("scale", ctypes.c_float), ("has_scale", ctypes.c_int32), ("causal", ctypes.c_int32),
                ("reserved", ctypes.c_int32)]


class GemmArgs(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("a", ctypes.POINTER(Tensor)), ("b", ctypes.POINTER(Tensor)),
                ("d", ctypes.POINTER(Tensor)), ("c", ctypes.POINTER(Tensor)), ("bias", ctypes.POINTER(Tensor)),
                ("alpha", ctypes.c_float), ("beta", ctypes.c_float), ("activation", ctypes.c_int32), ("reserved", ctypes.c_int32),
                ("scale_a", ctypes.POINTER(Tensor)), ("scale_b", ctypes.POINTER(Tensor))]


class ChunkIndicesArgs(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("cu_seqlens", ctypes.POINTER(Tensor)), ("chunk_indices", ctypes.POINTER(Tensor)),
                ("total_chunks", ctypes.POINTER(Tensor))]


class ChunkOArgs(Sized):
    _fields_ = [("size", ctypes.c_uint64)] + [(name, ctypes.POINTER(Tensor)) for name in (
        "q", "k", "v_new", "h", "o", "g_cu", "cu_seqlens", "chunk_indices", "total_chunks")] + [
        ("seq_length", ctypes.c_int64), ("scale", ctypes.c_float), ("has_scale", ctypes.c_int32),
        ("h_transposed", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class KernelConfig(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("op", ctypes.c_char_p), ("dtype", ctypes.c_int32),
                ("head_dim", ctypes.c_int32), ("causal", ctypes.c_int32), ("general_scale", ctypes.c_int32),
                ("m", ctypes.c_int64), ("n", ctypes.c_int64), ("k", ctypes.c_int64), ("batch", ctypes.c_int64),
                ("out", ctypes.c_int32), ("a_transposed", ctypes.c_int32), ("b_transposed", ctypes.c_int32),
                ("bias", ctypes.c_int32), ("add_c", ctypes.c_int32), ("activation", ctypes.c_int32),
                ("v_heads_per_head", ctypes.c_int32),
                ("ungated", ctypes.c_int32), ("equal_lengths", ctypes.c_int32), ("h_transposed", ctypes.c_int32)]


class KernelReport(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("name", ctypes.c_char_p), ("target", ctypes.c_char_p),
                ("schedule_json", ctypes.c_char_p), ("source_path", ctypes.c_char_p), ("schedule_ms", ctypes.c_double),
                ("codegen_ms", ctypes.c_double), ("compile_ms", ctypes.c_double), ("load_ms", ctypes.c_double),
                ("origin", ctypes.c_int32), ("registers", ctypes.c_int32)]


LogSink = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)


class Options(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("cache_dir", ctypes.c_char_p), ("cache_max_size_bytes", ctypes.c_int64),
                ("target", ctypes.c_char_p), ("dump_dir", ctypes.c_char_p), ("hip_compiler", ctypes.c_char_p),
                ("log_level", ctypes.c_int32), ("use_disk_cache", ctypes.c_int32), ("log_sink", LogSink),
                ("log_user", ctypes.c_void_p), ("use_tuning", ctypes.c_int32), ("reserved", ctypes.c_int32),
                ("wait_limit_s", ctypes.c_double), ("compile_limit_s", ctypes.c_double)]


class TilejitError(Exception):
    """A failed call: status, stage, message and log."""

    def __init__(self, status, name, stage, message, log):
        super().__init__(f"{name} ({stage}): {message}")
        self.status, self.stage, self.message, self.log = status, stage, message, log


def _declare(library):
    handle, status = ctypes.c_void_p, ctypes.c_int32
    calls = {
        "tj_options_init": (None, [ctypes.POINTER(Options)]),
        "tj_runtime_create": (status, [ctypes.POINTER(Options), ctypes.POINTER(handle)]),
        "tj_runtime_destroy": (None, [handle]),
        "tj_runtime_instance": (status, [ctypes.POINTER(handle)]),
        "tj_fmha": (status, [handle, ctypes.POINTER(FmhaArgs), ctypes.c_void_p]),
        "tj_run_rung": (status, [handle, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p]),
        "tj_prepare_rung": (status, [handle, ctypes.POINTER(KernelConfig), ctypes.c_int32, Device, ctypes.POINTER(KernelReport)]),
        "tj_gemm": (status, [handle, ctypes.POINTER(GemmArgs), ctypes.c_void_p]),
        "tj_chunk_o": (status, [handle, ctypes.POINTER(ChunkOArgs), ctypes.c_void_p]),
        "tj_chunk_indices": (status, [handle, ctypes.POINTER(ChunkIndicesArgs), ctypes.c_void_p]),
        "tj_prepare": (status, [handle, ctypes.POINTER(KernelConfig), Device, ctypes.POINTER(KernelReport)]),
        "tj_warm": (status, [handle, ctypes.POINTER(KernelConfig), ctypes.c_char_p, ctypes.POINTER(KernelReport)]),
        "tj_default_device": (status, [handle, ctypes.POINTER(Device)]),
        "tj_target_of": (status, [handle, Device, ctypes.POINTER(ctypes.c_char_p)]),
        "tj_allocate": (status, [handle, Device, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]),
        "tj_free": (status, [handle, ctypes.c_void_p]),
        "tj_copy": (status, [handle, ctypes.c_void_p, Device, ctypes.c_void_p, Device, ctypes.c_size_t]),
        "tj_synchronize": (status, [handle, Device, ctypes.c_void_p]),
        "tj_last_error": (ctypes.c_char_p, []),
        "tj_schedule": (status, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]),
        "tj_last_error_stage": (ctypes.c_char_p, []),
        "tj_last_error_log": (ctypes.c_char_p, []),
        "tj_last_error_source_path": (ctypes.c_char_p, []),
        "tj_status_name": (ctypes.c_char_p, [status]),
        "tj_version": (ctypes.c_char_p, []),
        "tj_build_id": (ctypes.c_char_p, []),
    }
    for name, (result, arguments) in calls.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return sorted(calls)


class Library:
    """The opened library. `functions` names every declared call."""

    def __init__(self, path=None):
        path = path or os.environ.get("TJ_TEST_LIBRARY") or "libtilejit.so"
        self.c = ctypes.CDLL(path)
        self.path = path
        self.functions = _declare(self.c)

    def check(self, status):
        if status != OK:
            raise TilejitError(status, self.c.tj_status_name(status).decode(), self.c.tj_last_error_stage().decode(),
                               self.c.tj_last_error().decode(), self.c.tj_last_error_log().decode())

    def options(self, **fields):
        options = Options()
        self.c.tj_options_init(ctypes.byref(options))
        for name, value in fields.items():
            setattr(options, name, value.encode() if isinstance(value, str) else value)
        return options


class Runtime:
    """A runtime of its own; keyword arguments are the fields of tj_options."""

    def __init__(self, library, **fields):
        self.library, self.handle = library, ctypes.c_void_p()
        self._options = library.options(**fields)  # keeps a log sink alive
        library.check(library.c.tj_runtime_create(ctypes.byref(self._options), ctypes.byref(self.handle)))

    def close(self):
        self.library.c.tj_runtime_destroy(self.handle)
        self.handle = ctypes.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def default_device(self):
        device = Device()
        self.library.check(self.library.c.tj_default_device(self.handle, ctypes.byref(device)))
        return device

    def target_of(self, device):
        text = ctypes.c_char_p()
        self.library.check(self.library.c.tj_target_of(self.handle, device, ctypes.byref(text)))
        return text.value.decode()

    def prepare(self, device, dtype=F16, op=b"fmha", rung=None, **fields):
        """`fields` are those of tj_kernel_config; fmha's head dim is 128 where none is given. rung: of the op's ladder."""
        if op == b"fmha":
            fields.setdefault("head_dim", 128)
        config = KernelConfig(op=op, dtype=dtype, **{name: int(value) for name, value in fields.items()})
        report = KernelReport()
        if rung is None:
            status = self.library.c.tj_prepare(self.handle, ctypes.byref(config), device, ctypes.byref(report))
        else:
            status = self.library.c.tj_prepare_rung(self.handle, ctypes.byref(config), rung, device, ctypes.byref(report))
        self.library.check(status)
        return report

    def _call(self, op, args, stream, rung):
        if rung is None:
            self.library.check(getattr(self.library.c, "tj_" + op)(self.handle, ctypes.byref(args), stream))
        else:
            self.library.check(self.library.c.tj_run_rung(self.handle, op.encode(), ctypes.byref(args), rung, stream))

    def fmha(self, q, k, v, o, lse=None, scale=None, causal=False, stream=None, rung=None):
        args = FmhaArgs(q=ctypes.pointer(q), k=ctypes.pointer(k), v=ctypes.pointer(v), o=ctypes.pointer(o),
                        causal=int(causal))
        if lse is not None:
            args.lse = ctypes.pointer(lse)
        if scale is not None:
            args.has_scale, args.scale = 1, scale
        self._call("fmha", args, stream, rung)

    def gemm(self, a, b, d, c=None, bias=None, alpha=1.0, beta=0.0, activation=NO_ACTIVATION, stream=None, rung=None,
             scale_a=None, scale_b=None):
        args = GemmArgs(a=ctypes.pointer(a), b=ctypes.pointer(b), d=ctypes.pointer(d), alpha=alpha, beta=beta, activation=activation)
        if c is not None:
            args.c = ctypes.pointer(c)
        if bias is not None:
            args.bias = ctypes.pointer(bias)
        if scale_a is not None:
            args.scale_a = ctypes.pointer(scale_a)
        if scale_b is not None:
            args.scale_b = ctypes.pointer(scale_b)
        self._call("gemm", args, stream, rung)

    def chunk_indices(self, cu_seqlens, chunk_indices, total_chunks, stream=None):
        args = ChunkIndicesArgs(cu_seqlens=ctypes.pointer(cu_seqlens), chunk_indices=ctypes.pointer(chunk_indices), total_chunks=ctypes.pointer(total_chunks))
        self.library.check(self.library.c.tj_chunk_indices(self.handle, ctypes.byref(args), stream))

    def chunk_o(self, q, k, v_new, h, o, g_cu=None, cu_seqlens=None, chunk_indices=None, total_chunks=None, seq_length=0,
                scale=None, h_transposed=False, stream=None):
        args = ChunkOArgs(seq_length=seq_length, h_transposed=int(h_transposed))
        given = dict(q=q, k=k, v_new=v_new, h=h, o=o, g_cu=g_cu, cu_seqlens=cu_seqlens, chunk_indices=chunk_indices, total_chunks=total_chunks)
        for name, tensor in given.items():
            if tensor is not None:
                setattr(args, name, ctypes.pointer(tensor))
        if scale is not None:
            args.has_scale, args.scale = 1, scale
        self.library.check(self.library.c.tj_chunk_o(self.handle, ctypes.byref(args), stream))


def tensor(address, device, dtype, shape, strides=None):
    """Strides in elements; dense when absent."""
    if strides is None:
        strides, step = [], 1
        for size in reversed(shape):
            strides.insert(0, step)
            step *= size
    result = Tensor(data=address, device=device, dtype=dtype, rank=len(shape))
    for i, (size, stride) in enumerate(zip(shape, strides)):
        result.shape[i], result.strides[i] = size, stride
    return result
