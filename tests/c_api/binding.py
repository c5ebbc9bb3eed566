"""libtilejit through ctypes: the structures and calls of include/tilejit/tilejit.h and its parts, nothing else.

Used by the tests of the C ABI and by tests/gpu/compare.py. Needs neither NumPy nor PyTorch.
"""
import ctypes
import os

MAX_RANK = 5
OK, INVALID_ARGUMENT, UNSUPPORTED, NOT_FOUND, OUT_OF_MEMORY, COMPILE_FAILED = range(6)
DRIVER_ERROR, DEADLOCK, COLD_IN_CAPTURE, IO, MODEL_FAULT, INTERNAL, NOT_IN_CACHE = range(6, 13)
F16, BF16, F32, I32, E4M3 = range(5)
CPU, CUDA, HIP = range(3)
FROM_MEMORY, FROM_DISK, COMPILED = range(3)
NO_ACTIVATION, RELU, GELU, SILU = range(4)
DTYPE_NAMES = {F16: "f16", BF16: "bf16", F32: "f32", I32: "i32", E4M3: "e4m3"}
ACTIVATION_NAMES = ["none", "relu", "gelu", "silu", "gelu_tanh"]
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


def _tensors(names):
    return [(name, ctypes.POINTER(Tensor)) for name in names.split()]


class FmhaArgs(Sized):
    _fields_ = [("size", ctypes.c_uint64), *_tensors("q k v o lse"), ("scale", ctypes.c_float), ("has_scale", ctypes.c_int32), ("causal", ctypes.c_int32),
                ("max_sms", ctypes.c_int32), ("has_window", ctypes.c_int32), ("top_left", ctypes.c_int32), ("window_left", ctypes.c_int64),
                ("window_right", ctypes.c_int64), ("softcap", ctypes.c_float), ("reserved", ctypes.c_int32),
                *_tensors("alibi_slopes sinks cu_seqlens_q cu_seqlens_k seqused_k block_table bias mod_params"),
                ("score_mod", ctypes.c_char_p), ("mask_mod", ctypes.c_char_p), ("key_range", ctypes.c_char_p)]


class GemmArgs(Sized):
    _fields_ = [("size", ctypes.c_uint64), *_tensors("a b d c bias"), ("alpha", ctypes.c_float), ("beta", ctypes.c_float), ("activation", ctypes.c_int32),
                ("max_sms", ctypes.c_int32), *_tensors("scale_a scale_b"), ("gate", ctypes.c_int32), ("gate_interleaved", ctypes.c_int32),
                *_tensors("scale_d"), ("powers_of_two", ctypes.c_int32), ("reserved", ctypes.c_int32), ("end_text", ctypes.c_char_p),
                *_tensors("end_params")]


class GroupedGemmArgs(Sized):
    _fields_ = [("size", ctypes.c_uint64), *_tensors("a b d groups bias scale_a scale_b"), ("expected_rows", ctypes.c_int64),
                ("alpha", ctypes.c_float), ("grouping", ctypes.c_int32), ("activation", ctypes.c_int32), ("max_sms", ctypes.c_int32), *_tensors("c"),
                ("beta", ctypes.c_float), ("gate", ctypes.c_int32), ("gate_interleaved", ctypes.c_int32), ("powers_of_two", ctypes.c_int32),
                *_tensors("scale_d"), ("end_text", ctypes.c_char_p), *_tensors("end_params")]


class QuantiseArgs(Sized):
    _fields_ = [("size", ctypes.c_uint64), *_tensors("x q scales"), ("gate", ctypes.c_int32), ("powers_of_two", ctypes.c_int32),
                ("max_sms", ctypes.c_int32), ("transposed", ctypes.c_int32), *_tensors("row_indices")]


def _structure(name, tensors, numbers):  # numbers: of 32 bits
    fields = [("size", ctypes.c_uint64), *_tensors(tensors)]
    return type(name, (Sized,), {"_fields_": fields + [(each, ctypes.c_int32) for each in numbers.split()]})


MergeStatesArgs = _structure("MergeStatesArgs", "states lse_states o lse cu_seqlens", "max_sms reserved")
CombineArgs = _structure("CombineArgs", "y d slots weights residual", "max_sms reserved")
ChunkIndicesArgs = _structure("ChunkIndicesArgs", "cu_seqlens chunk_indices total_chunks", "max_sms reserved")
ChunkSolveArgs = _structure("ChunkSolveArgs", "k a beta g_cu cu_seqlens", "max_sms reserved")
ChunkWuArgs = _structure("ChunkWuArgs", "k v a w u beta g_cu cu_seqlens", "max_sms reserved")
ChunkStatesArgs = _structure("ChunkStatesArgs", "k w u h v_new g_cu initial_state final_state cu_seqlens", "state_transposed values_by_tokens max_sms reserved")
ChunkCumsumArgs = _structure("ChunkCumsumArgs", "gate g_cu a_log dt_bias cu_seqlens", "gate_form max_sms")


class ChunkOArgs(Sized):
    _fields_ = [("size", ctypes.c_uint64), *_tensors("q k v_new h o g_cu cu_seqlens chunk_indices total_chunks"), ("seq_length", ctypes.c_int64),
                ("scale", ctypes.c_float), *((name, ctypes.c_int32) for name in "has_scale h_transposed max_sms num_stages evict_first".split())]


class GatedDeltaRuleArgs(Sized):
    _fields_ = [("size", ctypes.c_uint64), *_tensors("q k v o gate a_log dt_bias beta initial_state final_state token_states read_slots write_slots "
                                                     "cu_seqlens initial_scales final_scales token_scales"), ("scale", ctypes.c_float), *(
        (name, ctypes.c_int32) for name in "has_scale gate_form beta_raw without_delta normalise state_transposed max_sms token_every".split()),
        ("negligible", ctypes.c_float)]


class KernelReport(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("name", ctypes.c_char_p), ("target", ctypes.c_char_p),
                ("schedule_json", ctypes.c_char_p), ("source_path", ctypes.c_char_p), ("schedule_ms", ctypes.c_double),
                ("codegen_ms", ctypes.c_double), ("compile_ms", ctypes.c_double), ("load_ms", ctypes.c_double),
                ("origin", ctypes.c_int32), ("registers", ctypes.c_int32)]


class TuneOptions(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("only", ctypes.c_char_p), ("seed", ctypes.c_uint64), ("limit", ctypes.c_int32),
                ("rounds", ctypes.c_int32)]


class TuneReport(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("problem", ctypes.c_char_p), ("device", ctypes.c_char_p), ("target", ctypes.c_char_p),
                ("chosen", ctypes.c_char_p), ("measured_us", ctypes.c_double), ("usual_us", ctypes.c_double), ("flops", ctypes.c_double),
                ("variants", ctypes.c_int32), ("measured", ctypes.c_int32), ("kept", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class PlanInfo(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("tensors", ctypes.POINTER(ctypes.c_char_p)), ("tensor_count", ctypes.c_uint64),
                ("workspace_bytes", ctypes.c_uint64), ("workspace_alignment", ctypes.c_uint64), ("workspace_zeroed", ctypes.c_int32),
                ("registers", ctypes.c_int32), ("device", Device), ("kernel", ctypes.c_char_p), ("target", ctypes.c_char_p)]


class CustomDescription(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("name", ctypes.c_char_p), ("graph", ctypes.c_char_p), ("folder", ctypes.c_char_p),
                ("max_stages", ctypes.c_int32), ("max_slots", ctypes.c_int32), ("without_turns", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class Box(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("shape", ctypes.c_int64 * MAX_RANK), ("swizzle_bytes", ctypes.c_int32), ("reserved", ctypes.c_int32)]


Allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, Device, ctypes.c_size_t, ctypes.c_void_p)
Deallocate = ctypes.CFUNCTYPE(None, ctypes.c_void_p, Device, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
Work = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
LogSink = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)


RemoteSink = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
RemoteGet = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, RemoteSink, ctypes.c_void_p)
RemotePut = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
RemoteHas = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p)


class Remote(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("get", RemoteGet), ("put", RemotePut), ("has", RemoteHas), ("user", ctypes.c_void_p),
                ("time_limit_s", ctypes.c_double), ("sign_key", ctypes.c_char_p), ("trusted", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class Options(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("cache_dir", ctypes.c_char_p), ("cache_max_size_bytes", ctypes.c_int64),
                ("target", ctypes.c_char_p), ("dump_dir", ctypes.c_char_p), ("hip_compiler", ctypes.c_char_p),
                ("log_level", ctypes.c_int32), ("use_disk_cache", ctypes.c_int32), ("log_sink", LogSink),
                ("log_user", ctypes.c_void_p), ("use_tuning", ctypes.c_int32), ("reserved", ctypes.c_int32),
                ("wait_limit_s", ctypes.c_double), ("compile_limit_s", ctypes.c_double), ("allocate", Allocate), ("deallocate", Deallocate),
                ("allocator_user", ctypes.c_void_p), ("record_file", ctypes.c_char_p), ("pack_keys", ctypes.c_char_p), ("on_miss", ctypes.c_int32),
                ("reserved2", ctypes.c_int32), ("remote", ctypes.POINTER(Remote)),
                ("code_max_size_bytes", ctypes.c_int64), ("facts_file", ctypes.c_char_p)]


class TrimReport(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("kernels", ctypes.c_uint64), ("code_bytes", ctypes.c_uint64), ("workspace_bytes", ctypes.c_uint64)]


class PrepareOptions(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("time_limit_s", ctypes.c_double), ("threads", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class Progress(Sized):
    _fields_ = [("size", ctypes.c_uint64), ("kernels", ctypes.c_uint64), ("ready", ctypes.c_uint64), ("failed", ctypes.c_uint64),
                ("left_out", ctypes.c_uint64), ("seconds", ctypes.c_double), ("ended", ctypes.c_int32), ("reserved", ctypes.c_int32)]


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
        "tj_run": (status, [handle, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]),
        "tj_prepare": (status, [handle, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(KernelReport)]),
        "tj_prepare_flags": (status, [handle, ctypes.c_char_p, ctypes.c_char_p, Device, ctypes.POINTER(KernelReport), ctypes.POINTER(ctypes.c_size_t)]),
        "tj_warm_flags": (status, [handle, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(KernelReport), ctypes.POINTER(ctypes.c_size_t)]),
        "tj_run_rung": (status, [handle, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p]),
        "tj_prepare_rung": (status, [handle, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(KernelReport)]),
        "tj_tune": (status, [handle, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(TuneOptions), ctypes.POINTER(TuneReport)]),
        "tj_plan_create": (status, [handle, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(handle)]),
        "tj_plan_destroy": (None, [handle]),
        "tj_plan_get_info": (status, [handle, ctypes.POINTER(PlanInfo)]),
        "tj_plan_run": (status, [handle, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]),
        "tj_custom_create": (status, [handle, ctypes.POINTER(CustomDescription), ctypes.POINTER(handle)]),
        "tj_custom_destroy": (None, [handle]),
        "tj_custom_prepare": (status, [handle, Device, ctypes.POINTER(KernelReport)]),
        "tj_custom_warm": (status, [handle, ctypes.c_char_p, ctypes.POINTER(KernelReport)]),
        "tj_custom_tune": (status, [handle, Device, ctypes.POINTER(TuneOptions), ctypes.POINTER(TuneReport)]),
        "tj_custom_tensor_map": (status, [handle, ctypes.POINTER(Tensor), ctypes.POINTER(Box), ctypes.c_void_p]),
        "tj_custom_sm_count": (status, [handle, Device, ctypes.POINTER(ctypes.c_uint32)]),
        "tj_custom_launch": (status, [handle, Device, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_void_p]),
        "tj_preparation_create": (status, [handle, ctypes.POINTER(PrepareOptions), ctypes.POINTER(handle)]),
        "tj_preparation_destroy": (None, [handle]),
        "tj_preparation_add": (status, [handle, ctypes.c_char_p, ctypes.c_void_p]),
        "tj_preparation_add_flags": (status, [handle, ctypes.c_char_p, ctypes.c_char_p, Device]),
        "tj_preparation_add_custom": (status, [handle, handle, Device]),
        "tj_prepare_async": (status, [handle, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(PrepareOptions), ctypes.POINTER(handle)]),
        "tj_preparation_cancel": (status, [handle]),
        "tj_preparation_wait": (status, [handle, ctypes.c_double, ctypes.POINTER(Progress)]),
        "tj_preparation_get": (status, [handle, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(KernelReport)]),
        "tj_time_ms": (status, [handle, Device, Work, ctypes.c_void_p, ctypes.POINTER(ctypes.c_double)]),
        "tj_default_device": (status, [handle, ctypes.POINTER(Device)]),
        "tj_target_of": (status, [handle, Device, ctypes.POINTER(ctypes.c_char_p)]),
        "tj_allocate": (status, [handle, Device, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]),
        "tj_free": (status, [handle, ctypes.c_void_p]),
        "tj_copy": (status, [handle, ctypes.c_void_p, Device, ctypes.c_void_p, Device, ctypes.c_size_t]),
        "tj_synchronize": (status, [handle, Device, ctypes.c_void_p]),
        "tj_last_error": (ctypes.c_char_p, []),
        "tj_schedule": (status, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]),
        "tj_graph": (status, [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]),
        "tj_graph_resolved": (status, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]),
        "tj_graph_example": (status, [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]),
        "tj_counters": (status, [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]),
        "tj_trim": (status, [ctypes.c_void_p, ctypes.POINTER(Device), ctypes.POINTER(TrimReport)]),
        "tj_describe": (status, [ctypes.POINTER(ctypes.c_char_p)]),
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
        import binding_groups  # which needs the structures of this file
        self.functions = _declare(self.c) + binding_groups.declare(self.c)

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


def flags(op, dtype=F16, head_dim=128, causal=False, general_scale=False, m=0, n=0, k=0, batch=1, out=F16, a_transposed=False,
          b_transposed=False, bias=False, add_c=False, activation=NO_ACTIVATION, v_heads_per_head=2, ungated=False, equal_lengths=False,
          h_transposed=False, rung=None, scales=None):
    """The flags of one kernel of an op."""
    words = {}
    if op == b"fmha":
        words = {"dtype": DTYPE_NAMES[dtype], "head-dim": head_dim, "causal": causal, "general-scale": general_scale}
    elif op == b"gemm":
        words = {"dtype": DTYPE_NAMES[dtype], "out": DTYPE_NAMES[out], "a-major": "m" if a_transposed else "k",
                 "b-major": "n" if b_transposed else "k", "bias": bias, "add-c": add_c, "activation": ACTIVATION_NAMES[activation]}
        if scales is not None:
            words["scales"] = scales
        if rung is None:
            words.update({"m": m, "n": n, "k": k, "batch": batch})
    elif op == b"chunk_o":
        ratio = max(each for each in (1, 2, 3, 6) if v_heads_per_head % each == 0)
        words = {"head-ratio": ratio, "gated": not ungated, "variable": not equal_lengths, "h-transposed": h_transposed}
    if rung is not None:
        words["rung"] = f"v{rung}" if op == b"gemm" else rung
    return " ".join(f"--{name} {str(value).lower() if isinstance(value, bool) else value}" for name, value in words.items())


class Plan:
    """A call that is resolved once. `tensors` names what a run takes addresses of."""

    def __init__(self, runtime, op, args):
        self.library, self.handle, self.info = runtime.library, ctypes.c_void_p(), PlanInfo()
        self.library.check(self.library.c.tj_plan_create(runtime.handle, op, ctypes.byref(args), ctypes.byref(self.handle)))
        self.library.check(self.library.c.tj_plan_get_info(self.handle, ctypes.byref(self.info)))
        self.tensors = [self.info.tensors[i].decode() for i in range(self.info.tensor_count)]

    def run(self, *addresses, workspace=None, stream=None):
        self.library.check(self.library.c.tj_plan_run(self.handle, (ctypes.c_void_p * len(addresses))(*addresses), len(addresses), workspace, stream))

    def close(self):
        self.library.c.tj_plan_destroy(self.handle)


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

    def prepare(self, device, op=b"fmha", **fields):
        """`fields` are those of flags() below."""
        report = KernelReport()
        self.library.check(self.library.c.tj_prepare_flags(self.handle, op, flags(op, **fields).encode(), device, ctypes.byref(report), None))
        return report

    def plan(self, op, args):
        return Plan(self, op, args)

    def _call(self, op, args, stream, rung=None):
        if rung is None:
            self.library.check(self.library.c.tj_run(self.handle, op.encode(), ctypes.byref(args), stream))
        else:
            self.library.check(self.library.c.tj_run_rung(self.handle, op.encode(), ctypes.byref(args), rung, stream))

    def fmha(self, q, k, v, o, lse=None, scale=None, causal=False, stream=None, rung=None, window=None, top_left=False, softcap=0.0,
             alibi_slopes=None, sinks=None):
        args = FmhaArgs(q=ctypes.pointer(q), k=ctypes.pointer(k), v=ctypes.pointer(v), o=ctypes.pointer(o),
                        causal=int(causal), top_left=int(top_left), softcap=softcap)
        for name, tensor in (("lse", lse), ("alibi_slopes", alibi_slopes), ("sinks", sinks)):
            if tensor is not None:
                setattr(args, name, ctypes.pointer(tensor))
        if window is not None:
            args.has_window, (args.window_left, args.window_right) = 1, window
        if scale is not None:
            args.has_scale, args.scale = 1, scale
        self._call("fmha", args, stream, rung)

    def gemm(self, a, b, d, c=None, bias=None, alpha=1.0, beta=0.0, activation=NO_ACTIVATION, stream=None, rung=None,
             scale_a=None, scale_b=None, gate=NO_ACTIVATION, gate_interleaved=False, end_text=None, end_params=None):
        args = GemmArgs(a=ctypes.pointer(a), b=ctypes.pointer(b), d=ctypes.pointer(d), alpha=alpha, beta=beta, activation=activation, gate=gate,
                        gate_interleaved=gate_interleaved, end_text=None if end_text is None else end_text.encode())
        for name, tensor in dict(c=c, bias=bias, scale_a=scale_a, scale_b=scale_b, end_params=end_params).items():
            if tensor is not None:
                setattr(args, name, ctypes.pointer(tensor))
        self._call("gemm", args, stream, rung)

    def chunk_indices(self, cu_seqlens, chunk_indices, total_chunks, stream=None):
        args = ChunkIndicesArgs(cu_seqlens=ctypes.pointer(cu_seqlens), chunk_indices=ctypes.pointer(chunk_indices), total_chunks=ctypes.pointer(total_chunks))
        self._call("chunk_indices", args, stream)

    def chunk_o(self, q, k, v_new, h, o, g_cu=None, cu_seqlens=None, chunk_indices=None, total_chunks=None, seq_length=0,
                scale=None, h_transposed=False, max_sms=0, num_stages=0, evict_first=False, stream=None):
        args = ChunkOArgs(seq_length=seq_length, h_transposed=int(h_transposed), max_sms=max_sms, num_stages=num_stages,
                          evict_first=int(evict_first))
        given = dict(q=q, k=k, v_new=v_new, h=h, o=o, g_cu=g_cu, cu_seqlens=cu_seqlens, chunk_indices=chunk_indices, total_chunks=total_chunks)
        for name, tensor in given.items():
            if tensor is not None:
                setattr(args, name, ctypes.pointer(tensor))
        if scale is not None:
            args.has_scale, args.scale = 1, scale
        self._call("chunk_o", args, stream)


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
