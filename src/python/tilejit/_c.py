"""The structures, numbers and calls of tilejit.h as ctypes sees them.

Decides the binary layout alone; _library.py opens the file. Invariant: each structure has the members of the header's, in its order; a
test compares them.
"""
from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_ssize_t, c_uint32, c_uint64, c_void_p, py_object

MAX_RANK = 5
MAX_OBJECTS = 9
OK, INVALID_ARGUMENT, UNSUPPORTED = 0, 1, 2
DTYPES = {"f16": 0, "bf16": 1, "f32": 2, "i32": 3, "e4m3": 4}
DTYPE_NAMES = {number: name for name, number in DTYPES.items()}
DTYPE_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "i32": 4, "e4m3": 1}
DEVICES = {"cpu": 0, "cuda": 1, "hip": 2}
DEVICE_NAMES = {number: name for name, number in DEVICES.items()}
ORIGINS = ("memory", "disk", "compiled")
ACTIVATIONS = {None: 0, "none": 0, "relu": 1, "gelu": 2, "silu": 3, "gelu_tanh": 4}
SPLITS = {"contiguous": 0, "zigzag": 1, "striped": 2}
GROUP_ID_BYTES = 128
GATE_FORMS = {"log": 0, "exp": 1, "raw": 2}
GROUPINGS = {"ends": 0, "counts": 1, "rows": 2, "depths": 3}
MISS_POLICIES = ("wait", "error", "quick")
PREPARE_STATES = ("waiting", "making", "ready", "failed", "left_out")
LOG_LEVELS = ("trace", "debug", "info", "warn", "error", "off")


class Device(ctypes.Structure):
    _fields_ = [("kind", c_int32), ("index", c_int32)]


class Sized(ctypes.Structure):
    """A structure whose first member is its own size."""

    def __init__(self, **members):
        super().__init__(ctypes.sizeof(type(self)), **members)


def _sized(name, members):
    return type(name, (Sized,), {"_fields_": [("size", c_uint64)] + members})


def _tensors(*names):
    return [(name, c_void_p) for name in names]  # addresses of Tensors, which their owner keeps alive


Shape = c_int64 * MAX_RANK
Tensor = _sized("Tensor", [("data", c_void_p), ("device", Device), ("dtype", c_int32), ("rank", c_int32), ("shape", Shape), ("strides", Shape)])
FmhaArgs = _sized("FmhaArgs", _tensors("q", "k", "v", "o", "lse") + [
    ("scale", c_float), ("has_scale", c_int32), ("causal", c_int32), ("max_sms", c_int32), ("has_window", c_int32), ("top_left", c_int32),
    ("window_left", c_int64), ("window_right", c_int64), ("softcap", c_float), ("reserved", c_int32)] + _tensors(
        "alibi_slopes", "sinks", "cu_seqlens_q", "cu_seqlens_k", "seqused_k", "block_table", "bias", "mod_params") + [
            (name, c_char_p) for name in ("score_mod", "mask_mod", "key_range")])
ContextFmhaArgs = _sized("ContextFmhaArgs", _tensors("q", "k", "v", "o", "lse", "alibi_slopes", "sinks") + [
    ("lengths", POINTER(c_int64)), ("lengths_count", c_uint64), ("window_left", c_int64), ("scale", c_float), ("has_scale", c_int32),
    ("has_window", c_int32), ("causal", c_int32), ("split", c_int32), ("max_sms", c_int32), ("softcap", c_float), ("heads_first", c_int32),
    ("window_right", c_int64)] + _tensors("cu_seqlens") + [("exchange", c_int32), ("reserved", c_int32)])
ContextDecodeArgs = _sized("ContextDecodeArgs", [("attention", POINTER(FmhaArgs))])
MergeStatesArgs = _sized("MergeStatesArgs", _tensors("states", "lse_states", "o", "lse", "cu_seqlens") + [("max_sms", c_int32), ("reserved", c_int32)])
GemmArgs = _sized("GemmArgs", _tensors("a", "b", "d", "c", "bias") + [
    ("alpha", c_float), ("beta", c_float), ("activation", c_int32), ("max_sms", c_int32)] + _tensors("scale_a", "scale_b") + [
        ("gate", c_int32), ("gate_interleaved", c_int32)] + _tensors("scale_d") + [("powers_of_two", c_int32), ("reserved", c_int32),
            ("end_text", c_char_p)] + _tensors("end_params"))
SplitGemmArgs = _sized("SplitGemmArgs", [("product", POINTER(GemmArgs)), ("lengths", POINTER(c_int64)), ("lengths_count", c_uint64)])
GroupedGemmArgs = _sized("GroupedGemmArgs", _tensors("a", "b", "d", "groups", "bias", "scale_a", "scale_b") + [
    ("expected_rows", c_int64), ("alpha", c_float), ("grouping", c_int32), ("activation", c_int32), ("max_sms", c_int32)] + _tensors("c") + [
        ("beta", c_float), ("gate", c_int32), ("gate_interleaved", c_int32), ("powers_of_two", c_int32)] + _tensors("scale_d") + [
            ("end_text", c_char_p)] + _tensors("end_params"))
QuantiseArgs = _sized("QuantiseArgs", _tensors("x", "q", "scales") + [
    ("gate", c_int32), ("powers_of_two", c_int32), ("max_sms", c_int32), ("transposed", c_int32)] + _tensors("row_indices"))
CombineArgs = _sized("CombineArgs", _tensors("y", "d", "slots", "weights", "residual") + [("max_sms", c_int32), ("reserved", c_int32)])
ChunkIndicesArgs = _sized("ChunkIndicesArgs", _tensors("cu_seqlens", "chunk_indices", "total_chunks") + [("max_sms", c_int32), ("reserved", c_int32)])
ChunkOArgs = _sized("ChunkOArgs", _tensors("q", "k", "v_new", "h", "o", "g_cu", "cu_seqlens", "chunk_indices", "total_chunks") + [
    ("seq_length", c_int64), ("scale", c_float), ("has_scale", c_int32), ("h_transposed", c_int32), ("max_sms", c_int32), ("num_stages", c_int32),
    ("evict_first", c_int32)])
GatedDeltaRuleArgs = _sized("GatedDeltaRuleArgs", _tensors(
    "q", "k", "v", "o", "gate", "a_log", "dt_bias", "beta", "initial_state", "final_state", "token_states", "read_slots", "write_slots", "cu_seqlens",
    "initial_scales", "final_scales", "token_scales") + [
        ("scale", c_float), ("has_scale", c_int32), ("gate_form", c_int32), ("beta_raw", c_int32), ("without_delta", c_int32), ("normalise", c_int32),
        ("state_transposed", c_int32), ("max_sms", c_int32), ("token_every", c_int32), ("negligible", c_float)])
ChunkSolveArgs = _sized("ChunkSolveArgs", _tensors("k", "a", "beta", "g_cu", "cu_seqlens") + [("max_sms", c_int32), ("reserved", c_int32)])
ChunkWuArgs = _sized("ChunkWuArgs", _tensors("k", "v", "a", "w", "u", "beta", "g_cu", "cu_seqlens") + [("max_sms", c_int32), ("reserved", c_int32)])
ChunkStatesArgs = _sized("ChunkStatesArgs", _tensors(
    "k", "w", "u", "h", "v_new", "g_cu", "initial_state", "final_state", "cu_seqlens") + [
        ("state_transposed", c_int32), ("values_by_tokens", c_int32), ("max_sms", c_int32), ("reserved", c_int32)])
ChunkCumsumArgs = _sized("ChunkCumsumArgs", _tensors("gate", "g_cu", "a_log", "dt_bias", "cu_seqlens") + [
    ("gate_form", c_int32), ("max_sms", c_int32)])
KernelReport = _sized("KernelReport", [
    ("name", c_char_p), ("target", c_char_p), ("schedule_json", c_char_p), ("source_path", c_char_p), ("schedule_ms", c_double),
    ("codegen_ms", c_double), ("compile_ms", c_double), ("load_ms", c_double), ("origin", c_int32), ("registers", c_int32)])
TuneOptions = _sized("TuneOptions", [("only", c_char_p), ("seed", c_uint64), ("limit", c_int32), ("rounds", c_int32)])
TuneReport = _sized("TuneReport", [
    ("problem", c_char_p), ("device", c_char_p), ("target", c_char_p), ("chosen", c_char_p), ("measured_us", c_double), ("usual_us", c_double),
    ("flops", c_double), ("variants", c_int32), ("measured", c_int32), ("kept", c_int32), ("reserved", c_int32)])
PlanInfo = _sized("PlanInfo", [
    ("tensors", POINTER(c_char_p)), ("tensor_count", c_uint64), ("workspace_bytes", c_uint64), ("workspace_alignment", c_uint64),
    ("workspace_zeroed", c_int32), ("registers", c_int32), ("device", Device), ("kernel", c_char_p), ("target", c_char_p)])
CustomDescription = _sized("CustomDescription", [
    ("name", c_char_p), ("graph", c_char_p), ("folder", c_char_p), ("max_stages", c_int32), ("max_slots", c_int32),
    ("without_turns", c_int32), ("reserved", c_int32)])
Box = _sized("Box", [("shape", Shape), ("swizzle_bytes", c_int32), ("reserved", c_int32)])

ObjectHost = _sized("ObjectHost", [(name, c_void_p) for name in (
    "clear_error", "retain", "release", "pack", "count", "item", "address", "type_of", "attribute", "call", "nothing", "yes", "no", "wants_grad")])

LogSink = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_void_p, c_size_t)
Allocate = ctypes.CFUNCTYPE(c_void_p, c_void_p, Device, c_size_t, c_void_p)
Deallocate = ctypes.CFUNCTYPE(None, c_void_p, Device, c_void_p, c_size_t, c_void_p)
RemoteSink = ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_size_t)
RemoteGet = ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, RemoteSink, c_void_p)
RemotePut = ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p, c_void_p, c_size_t)
RemoteHas = ctypes.CFUNCTYPE(c_int32, c_void_p, c_char_p)
Remote = _sized("Remote", [
    ("get", RemoteGet), ("put", RemotePut), ("has", RemoteHas), ("user", c_void_p), ("time_limit_s", c_double), ("sign_key", c_char_p),
    ("trusted", c_int32), ("reserved", c_int32)])
Options = _sized("Options", [
    ("cache_dir", c_char_p), ("cache_max_size_bytes", c_int64), ("target", c_char_p), ("dump_dir", c_char_p), ("hip_compiler", c_char_p),
    ("log_level", c_int32), ("use_disk_cache", c_int32), ("log_sink", LogSink), ("log_user", c_void_p), ("use_tuning", c_int32),
    ("reserved", c_int32), ("wait_limit_s", c_double), ("compile_limit_s", c_double), ("allocate", Allocate), ("deallocate", Deallocate),
    ("allocator_user", c_void_p), ("record_file", c_char_p), ("pack_keys", c_char_p), ("on_miss", c_int32), ("reserved2", c_int32),
    ("remote", POINTER(Remote)), ("code_max_size_bytes", c_int64), ("facts_file", c_char_p)])
TrimReport = _sized("TrimReport", [("kernels", c_uint64), ("code_bytes", c_uint64), ("workspace_bytes", c_uint64)])
PrepareOptions = _sized("PrepareOptions", [("time_limit_s", c_double), ("threads", c_int32), ("reserved", c_int32)])
Progress = _sized("Progress", [
    ("kernels", c_uint64), ("ready", c_uint64), ("failed", c_uint64), ("left_out", c_uint64), ("seconds", c_double), ("ended", c_int32),
    ("reserved", c_int32)])

_STATUS, _HANDLE, _TEXT = c_int32, c_void_p, c_char_p
CALLS = {
    "tj_options_init": (None, [POINTER(Options)]),
    "tj_runtime_create": (_STATUS, [POINTER(Options), POINTER(_HANDLE)]),
    "tj_runtime_destroy": (None, [_HANDLE]),
    "tj_runtime_instance": (_STATUS, [POINTER(_HANDLE)]),
    "tj_run": (_STATUS, [_HANDLE, _TEXT, c_void_p, c_void_p]),
    "tj_prepare": (_STATUS, [_HANDLE, _TEXT, c_void_p, POINTER(KernelReport)]),
    "tj_prepare_flags": (_STATUS, [_HANDLE, _TEXT, _TEXT, Device, POINTER(KernelReport), POINTER(c_size_t)]),
    "tj_warm_flags": (_STATUS, [_HANDLE, _TEXT, _TEXT, _TEXT, POINTER(KernelReport), POINTER(c_size_t)]),
    "tj_run_rung": (_STATUS, [_HANDLE, _TEXT, c_void_p, c_int32, c_void_p]),
    "tj_prepare_rung": (_STATUS, [_HANDLE, _TEXT, c_void_p, c_int32, POINTER(KernelReport)]),
    "tj_tune": (_STATUS, [_HANDLE, _TEXT, c_void_p, POINTER(TuneOptions), POINTER(TuneReport)]),
    "tj_plan_create": (_STATUS, [_HANDLE, _TEXT, c_void_p, POINTER(_HANDLE)]),
    "tj_plan_destroy": (None, [_HANDLE]),
    "tj_plan_get_info": (_STATUS, [_HANDLE, POINTER(PlanInfo)]),
    "tj_plan_run": (_STATUS, [_HANDLE, c_void_p, c_size_t, c_void_p, c_void_p]),
    "tj_add_packages_folder": (_STATUS, [_TEXT]),
    "tj_host_gate_create": (_STATUS, [POINTER(_HANDLE)]),
    "tj_host_gate_close": (_STATUS, [_HANDLE, c_double]),
    "tj_object_calls_create": (_STATUS, [POINTER(_TEXT), c_size_t, c_size_t, c_void_p, c_void_p, c_void_p, POINTER(_HANDLE)]),
    "tj_object_plan_create": (_STATUS, [_HANDLE, POINTER(c_void_p), c_void_p, c_void_p, c_void_p, POINTER(_HANDLE)]),
    "tj_object_plan_destroy": (None, [_HANDLE]),
    "tj_custom_create": (_STATUS, [_HANDLE, POINTER(CustomDescription), POINTER(_HANDLE)]),
    "tj_custom_destroy": (None, [_HANDLE]),
    "tj_custom_prepare": (_STATUS, [_HANDLE, Device, POINTER(KernelReport)]),
    "tj_custom_warm": (_STATUS, [_HANDLE, _TEXT, POINTER(KernelReport)]),
    "tj_custom_tune": (_STATUS, [_HANDLE, Device, POINTER(TuneOptions), POINTER(TuneReport)]),
    "tj_custom_tensor_map": (_STATUS, [_HANDLE, c_void_p, POINTER(Box), c_void_p]),
    "tj_custom_sm_count": (_STATUS, [_HANDLE, Device, POINTER(c_uint32)]),
    "tj_custom_launch": (_STATUS, [_HANDLE, Device, c_void_p, c_size_t, c_uint32, c_void_p]),
    "tj_preparation_create": (_STATUS, [_HANDLE, POINTER(PrepareOptions), POINTER(_HANDLE)]),
    "tj_preparation_destroy": (None, [_HANDLE]),
    "tj_preparation_add": (_STATUS, [_HANDLE, _TEXT, c_void_p]),
    "tj_preparation_add_flags": (_STATUS, [_HANDLE, _TEXT, _TEXT, Device]),
    "tj_preparation_add_custom": (_STATUS, [_HANDLE, _HANDLE, Device]),
    "tj_preparation_cancel": (_STATUS, [_HANDLE]),
    "tj_preparation_wait": (_STATUS, [_HANDLE, c_double, POINTER(Progress)]),
    "tj_preparation_get": (_STATUS, [_HANDLE, c_size_t, POINTER(c_int32), POINTER(KernelReport)]),
    "tj_group_unique_id": (_STATUS, [c_void_p]),
    "tj_group_create": (_STATUS, [_HANDLE, c_void_p, c_int32, c_int32, Device, POINTER(_HANDLE)]),
    "tj_group_of_comm": (_STATUS, [_HANDLE, c_void_p, Device, POINTER(_HANDLE)]),
    "tj_group_on_model": (_STATUS, [_HANDLE, c_int32, POINTER(_HANDLE)]),
    "tj_group_destroy": (None, [_HANDLE]),
    "tj_group_prepare": (_STATUS, [_HANDLE, POINTER(ContextFmhaArgs)]),
    "tj_group_fmha": (_STATUS, [_HANDLE, POINTER(ContextFmhaArgs), c_void_p]),
    "tj_group_prepare_decode": (_STATUS, [_HANDLE, POINTER(ContextDecodeArgs)]),
    "tj_group_decode": (_STATUS, [_HANDLE, POINTER(ContextDecodeArgs), c_void_p]),
    **{f"tj_group_{kind}": (_STATUS, [_HANDLE, POINTER(SplitGemmArgs), c_void_p]) for kind in ("all_gather_gemm", "gemm_reduce_scatter")},
    **{f"tj_group_prepare_{kind}": (_STATUS, [_HANDLE, POINTER(SplitGemmArgs)]) for kind in ("all_gather_gemm", "gemm_reduce_scatter")},
    "tj_group_check": (_STATUS, [_HANDLE]),
    "tj_group_description": (_STATUS, [_HANDLE, POINTER(_TEXT)]),
    "tj_schedule": (_STATUS, [_TEXT, _TEXT, _TEXT, POINTER(_TEXT)]),
    "tj_graph": (_STATUS, [_TEXT, _TEXT, POINTER(_TEXT)]),
    "tj_graph_resolved": (_STATUS, [_TEXT, _TEXT, _TEXT, POINTER(_TEXT)]),
    "tj_graph_example": (_STATUS, [_TEXT, _TEXT, POINTER(_TEXT)]),
    "tj_default_device": (_STATUS, [_HANDLE, POINTER(Device)]),
    "tj_target_of": (_STATUS, [_HANDLE, Device, POINTER(_TEXT)]),
    "tj_counters": (_STATUS, [_HANDLE, _TEXT, POINTER(_TEXT)]),
    "tj_trim": (_STATUS, [_HANDLE, POINTER(Device), POINTER(TrimReport)]),
    "tj_describe": (_STATUS, [POINTER(_TEXT)]),
    "tj_synchronize": (_STATUS, [_HANDLE, Device, c_void_p]),
    "tj_last_error": (_TEXT, []),
    "tj_last_error_stage": (_TEXT, []),
    "tj_last_error_log": (_TEXT, []),
    "tj_last_error_source_path": (_TEXT, []),
    "tj_status_name": (_TEXT, [_STATUS]),
    "tj_version": (_TEXT, []),
    "tj_build_id": (_TEXT, []),
}
# Calls that keep the GIL: they are short, or use a framework's objects. The last two are never called through ctypes: _ready.py has their address.
KEEPING = {
    "tj_plan_is_current": (c_int32, [_HANDLE]),
    "tj_runtime_is_settled": (c_int32, [_HANDLE]),
    "tj_object_calls_keep": (_STATUS, [_HANDLE, _HANDLE, POINTER(c_void_p), POINTER(c_void_p), POINTER(c_int32)]),
    "tj_object_calls_destroy": (None, [_HANDLE]),
    "tj_object_calls_serve": (py_object, [py_object, POINTER(py_object), c_ssize_t]),
    "tj_object_plan_serve": (py_object, [py_object, POINTER(py_object), c_ssize_t]),
}
