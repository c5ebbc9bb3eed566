"""Groups of ranks through ctypes: the structures and calls of include/tilejit/dist.h; see binding.py, which declares them too."""
import ctypes

import binding as tj

TENSOR, LENGTHS = ctypes.POINTER(tj.Tensor), ("lengths", ctypes.POINTER(ctypes.c_int64))


class ContextFmhaArgs(tj.Sized):
    _fields_ = [("size", ctypes.c_uint64), *((name, TENSOR) for name in "q k v o lse alibi_slopes sinks".split()), LENGTHS,
                ("lengths_count", ctypes.c_uint64), ("window_left", ctypes.c_int64), ("scale", ctypes.c_float),
                *((name, ctypes.c_int32) for name in "has_scale has_window causal split max_sms".split()), ("softcap", ctypes.c_float),
                ("heads_first", ctypes.c_int32), ("window_right", ctypes.c_int64), ("cu_seqlens", TENSOR), ("exchange", ctypes.c_int32),
                ("reserved", ctypes.c_int32)]


class SplitGemmArgs(tj.Sized):
    _fields_ = [("size", ctypes.c_uint64), ("product", ctypes.POINTER(tj.GemmArgs)), LENGTHS, ("lengths_count", ctypes.c_uint64)]


class ContextDecodeArgs(tj.Sized):
    _fields_ = [("size", ctypes.c_uint64), ("attention", ctypes.POINTER(tj.FmhaArgs))]


def declare(library):
    """Gives the calls their types; returns their names."""
    status, handle, stream = ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p
    calls = {
        "unique_id": [ctypes.c_void_p], "check": [handle], "destroy": [handle], "description": [handle, ctypes.POINTER(ctypes.c_char_p)],
        "create": [handle, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, tj.Device, ctypes.POINTER(handle)],
        "of_comm": [handle, ctypes.c_void_p, tj.Device, ctypes.POINTER(handle)],
        "on_model": [handle, ctypes.c_int32, ctypes.POINTER(handle)],
        "prepare": [handle, ctypes.POINTER(ContextFmhaArgs)], "fmha": [handle, ctypes.POINTER(ContextFmhaArgs), stream],
        "prepare_decode": [handle, ctypes.POINTER(ContextDecodeArgs)], "decode": [handle, ctypes.POINTER(ContextDecodeArgs), stream],
    }
    for kind in ("all_gather_gemm", "gemm_reduce_scatter"):
        calls[f"prepare_{kind}"] = [handle, ctypes.POINTER(SplitGemmArgs)]
        calls[kind] = [handle, ctypes.POINTER(SplitGemmArgs), stream]
    for name, types in calls.items():
        function = getattr(library, f"tj_group_{name}")
        function.restype, function.argtypes = None if name == "destroy" else status, types
    return [f"tj_group_{name}" for name in calls]
