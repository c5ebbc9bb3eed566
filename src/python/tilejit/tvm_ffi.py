"""The library's functions for tvm-ffi, as a tvm_ffi.Module: load().

Decides how the library's file is found and opened for tvm-ffi. The functions themselves are in the library; src/ffi/README.md has their
arguments.
"""
from __future__ import annotations

import ctypes

from ._error import Error
from ._library import check, library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load() -> Any:
    """The functions fmha, gemm, chunk_indices and chunk_o, as attributes of a tvm_ffi.Module. Raises tilejit.Error.

    Arguments go by position; a result may be given, or None where tensors come with an allocator, as torch's do.
    """
    try:
        import tvm_ffi
    except ImportError as error:
        raise Error(f"tvm_ffi cannot be imported: {error}; pip install apache-tvm-ffi", "load", "not_found") from None
    if not hasattr(library(), "__tvm_ffi_fmha"):
        raise Error("libtilejit was built without tvm-ffi's header, so it has no functions for tvm-ffi; build it where bash tests/run.sh --setup "
                    "has fetched the header", "load", "unsupported")
    described = ctypes.c_char_p()
    check(library().tj_describe(ctypes.byref(described)))
    import json
    path = json.loads(described.value)["file"]
    # load_module() goes by the end of the name, and a soname ends with a version.
    return tvm_ffi.get_global_func("ffi.Module.load_from_file.so")(path, "so")
