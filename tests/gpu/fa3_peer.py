"""FlashAttention-3's forward out of a library that somebody has: the C function that README.md beside this defines, or a Python file's function.

Decides how tensors become its arguments; nothing about how the library is made. Needs no PyTorch: tensors need data_ptr(), shape and stride().
"""
import ctypes
import importlib.util
import os

FUNCTION = "fa3_forward"
WORKSPACE_BYTES = 1 << 20
DTYPES = {"f16": 0, "bf16": 1}


class Arguments(ctypes.Structure):
    """struct fa3_forward_args of README.md."""
    _fields_ = [("size", ctypes.c_uint64)] + [(name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse", "workspace")] + [
        ("workspace_bytes", ctypes.c_uint64)] + [(name, ctypes.c_int64 * 3) for name in ("q_strides", "k_strides", "v_strides", "o_strides")] + [
        (name, ctypes.c_int64) for name in ("batch", "seq_q", "seq_k", "heads", "kv_heads")] + [
        ("head_dim", ctypes.c_int32), ("dtype", ctypes.c_int32), ("causal", ctypes.c_int32), ("scale", ctypes.c_float)]


class Fa3Error(Exception):
    """The library is none, or refused a problem."""


class Fa3Python:
    """A Python file with fa3_forward(q, k, v, o, causal, scale) on tensors [B, S, H, D], for those who have FA3 as an operator of PyTorch."""

    def __init__(self, path):
        if not os.path.exists(path):
            raise Fa3Error(f"--fa3 is '{path}', which is no file; allowed: a Python file with {FUNCTION}(), as tests/gpu/README.md defines it")
        spec = importlib.util.spec_from_file_location("fa3_of_the_user", path)
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # whatever the file does
            raise Fa3Error(f"--fa3 is '{path}', which cannot be run: {type(error).__name__}: {error}") from error
        self.function = getattr(module, FUNCTION, None)
        if self.function is None:
            raise Fa3Error(f"--fa3 is '{path}', which has no function {FUNCTION}(); tests/gpu/README.md defines what it must have")

    @staticmethod
    def arguments(q, k, v, o, lse, workspace, workspace_bytes, causal, dtype, scale=None):
        """As Fa3's; the function gets views with heads behind the sequence."""
        return [x.transpose(1, 2) for x in (q, k, v, o)] + [bool(causal), q.shape[3] ** -0.5 if scale is None else scale]

    def forward(self, arguments, stream):
        """On PyTorch's current stream, which is the caller's. Raises Fa3Error when the function raises ValueError or NotImplementedError."""
        try:
            self.function(*arguments)
        except (ValueError, NotImplementedError) as error:
            raise Fa3Error(f"{FUNCTION}() refuses: {error}") from error


def opened(path):
    """The library behind --fa3 PATH: Python where the name ends so, else C."""
    return Fa3Python(path) if path.endswith(".py") else Fa3(path)


class Fa3:
    """The opened library."""

    def __init__(self, path):
        if not os.path.exists(path):
            raise Fa3Error(f"--fa3 is '{path}', which is no file; allowed: a shared library with {FUNCTION}(), as tests/gpu/README.md defines it")
        try:
            self.library = ctypes.CDLL(os.path.abspath(path))
        except OSError as error:
            raise Fa3Error(f"--fa3 is '{path}', which cannot be opened: {error}") from error
        try:
            self.function = getattr(self.library, FUNCTION)
        except AttributeError:
            raise Fa3Error(f"--fa3 is '{path}', which has no function {FUNCTION}(); tests/gpu/README.md defines what it must have") from None
        self.function.restype, self.function.argtypes = ctypes.c_int, [ctypes.POINTER(Arguments), ctypes.c_void_p]

    def arguments(self, q, k, v, o, lse, workspace, workspace_bytes, causal, dtype, scale=None):
        """q, k, v, o: views [B, H, S, D] with D contiguous; lse f32 [B, H, Sq]; workspace: memory of the device, zero before the first call."""
        batch, heads, seq_q, dim = q.shape
        found = Arguments(size=ctypes.sizeof(Arguments), q=q.data_ptr(), k=k.data_ptr(), v=v.data_ptr(), o=o.data_ptr(), lse=lse.data_ptr(),
                          workspace=workspace.data_ptr(), workspace_bytes=workspace_bytes, batch=batch, seq_q=seq_q, seq_k=k.shape[2], heads=heads,
                          kv_heads=k.shape[1], head_dim=dim, dtype=DTYPES[dtype], causal=int(causal), scale=dim ** -0.5 if scale is None else scale)
        for name, t in (("q", q), ("k", k), ("v", v), ("o", o)):
            b, h, s, d = t.stride()
            if d != 1 and t.shape[3] > 1:
                raise Fa3Error(f"{name}'s last stride is {d}; allowed: 1")
            setattr(found, f"{name}_strides", (ctypes.c_int64 * 3)(b, s, h))
        return found

    def forward(self, arguments, stream):
        """Enqueues. Raises Fa3Error when the library refuses."""
        status = self.function(ctypes.byref(arguments), stream)
        if status != 0:
            raise Fa3Error(f"{FUNCTION}() returned {status}" + self.reason())

    def reason(self):
        try:
            text = self.library.fa3_last_error
        except AttributeError:
            return ""
        text.restype, text.argtypes = ctypes.c_char_p, []
        said = text()
        return f": {said.decode(errors='replace')}" if said else ""
