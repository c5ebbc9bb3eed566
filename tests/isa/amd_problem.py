"""The part shared by tests that execute the library's launches on AMD: the tools they need, and 16-bit tensors in aligned memory.

Decides nothing about an op. Importing it ends the process with exit status 77, a skipped test, where something is missing.
"""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "tests/c_api")]
SKIPPED = 77

try:
    import numpy as np
except ImportError:
    print("skipped: no numpy")
    sys.exit(SKIPPED)

import amd_code
import binding as tj

if amd_code.tool("clang") is None or amd_code.tool("llvm-objdump") is None:
    print("skipped: no clang or no llvm-objdump of LLVM 19 or newer; install clang-19, lld-19 and llvm-19")
    sys.exit(SKIPPED)

HIP0 = tj.Device(tj.HIP, 0)


def to_words(values, dtype):
    """Rounded to nearest even; f32 stays."""
    values = np.asarray(values, dtype=np.float32)
    if dtype == tj.F32:
        return values
    if dtype == tj.F16:
        return values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def to_values(words, dtype):
    """The values that the words stand for, in f64."""
    words = np.ascontiguousarray(words)
    if dtype == tj.F32:
        return words.astype(np.float64)
    if dtype == tj.F16:
        return words.view(np.float16).astype(np.float64)
    return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


class Tensor:
    """Rows of whole 16 bytes in aligned memory, with NaN between and around them. `order` names the axes from the outermost in memory."""

    def __init__(self, dtype, shape, order=None, values=None):
        order = list(order or range(len(shape)))
        item = 4 if dtype == tj.F32 else 2
        extent = [shape[axis] for axis in order]
        extent[-1] = -(-extent[-1] * item // 16) * 16 // item
        self.dtype, size = dtype, int(np.prod(extent)) * item
        self.space = np.full(size + 512, 0xff, dtype=np.uint8)
        begin = -self.space.ctypes.data % 256
        whole = self.space[begin:begin + size].view(np.float32 if dtype == tj.F32 else np.uint16).reshape(extent)
        self.words = whole.transpose(np.argsort(order))[tuple(slice(0, length) for length in shape)]
        if values is not None:
            self.words[...] = to_words(values, dtype)
        self.memory = (self.space.ctypes.data + begin, size)
        self.view = tj.tensor(self.words.ctypes.data, HIP0, dtype, list(shape), [step // item for step in self.words.strides])

    def values(self):
        return to_values(self.words, self.dtype)

    def untouched(self):
        """Everything but the words themselves is as it was."""
        kept, before = self.space.copy(), self.words.copy()
        self.words[...] = np.full_like(before, np.nan if self.dtype == tj.F32 else 0xffff)
        if self.dtype == tj.F32:
            self.words.view(np.uint32)[...] = 0xffffffff
        clean = bool((self.space == 0xff).all())
        self.space[:], _ = kept, before
        return clean


def compiled(source, processor, folder):
    """The code object of a unit that the library has dumped, or of a changed one, by the library's own options."""
    unit, code = Path(folder) / "unit.hip", Path(folder) / "unit.co"
    unit.write_text(source)
    mode = [] if processor.startswith("gfx9") else ["-mcumode"]
    options = ["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc", "-O3", "-std=c++17"]
    subprocess.run([amd_code.tool("clang"), *options, *mode, f"--offload-arch={processor}", "-I", str(ROOT / "kernel_templates"), "-o", str(code), str(unit)], check=True)
    return code.read_bytes()


def normal(chance, dtype, shape, order=None):
    return Tensor(dtype, shape, order, chance.standard_normal(shape))


def distance(got, wanted):
    """The error of the whole, relative to what was wanted."""
    return np.linalg.norm(got - wanted) / max(np.linalg.norm(wanted), 1e-30)
