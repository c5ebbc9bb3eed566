"""Protects what AMD's primitives compile to: the code objects of the model's own test units, executed instruction by instruction, give what
the model gives, without a race in LDS, a register used before its wait, or a barrier that leaves accesses under way.

Exit status 77: no clang with AMDGPU, or no llvm-objdump of LLVM 19 or newer.
"""
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))
SKIPPED = 77

try:
    import numpy as np
except ImportError:
    print("skipped: no numpy")
    sys.exit(SKIPPED)

import amd_code
from amd_launch import launch
from amd_wave import Fault

ARCHS = {"gfx1100": "gfx11", "gfx1151": "gfx11", "gfx1201": "gfx12", "gfx90a": "gfx90a", "gfx942": "gfx9"}
OPTIONS = ["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc", "-O3", "-std=c++17"]


def texts():
    source = (ROOT / "tests/model/wave_matrix_checks.cpp").read_text()
    return dict(re.findall(r'constexpr const char\* k(\w+) = R"\(([\s\S]*?)\)";', source))


class Primitives(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.texts = texts()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def compile(self, arch, name, text):
        unit, code = Path(self.folder.name) / f"{name}.hip", Path(self.folder.name) / f"{name}.{arch}.co"
        unit.write_text(f'#include "arch/{ARCHS[arch]}.cuh"\n#include "pipeline.cuh"\n#include "tiles.cuh"\nusing namespace tj::dev;\n{text}')
        mode = [] if arch.startswith("gfx9") else ["-mcumode"]
        subprocess.run([amd_code.tool("clang"), *OPTIONS, *mode, f"--offload-arch={arch}", "-I", str(ROOT / "kernel_templates"), "-o", str(code), str(unit)], check=True)
        return str(code)

    def run_text(self, arch, name, threads, params, arrays, seed=1, shared_bytes=65536):
        code = self.compile(arch, name, self.texts[name])
        launch(code, arch, "kernel", 1, threads, shared_bytes, params, [(each.ctypes.data, each.nbytes) for each in arrays], seed)

    def wave(self, arch):
        return 64 if arch.startswith("gfx9") else 32

    def test_products(self):
        i = np.arange(256)
        a, b = (i * 7 % 5 - 2).astype(np.float32), ((i * i + 3 * i) % 7 - 3).astype(np.float32)
        for arch in ARCHS:
            for bf16 in (False, True):
                def bits(values):
                    values = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
                    return (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16) if bf16 else values.astype(np.float16).view(np.uint16)
                left, right, out, own = bits(a), bits(b), np.full((4, 16, 16), np.nan, np.float32), np.full(256, 0xffff, np.uint16)
                params = struct.pack("<QQQQiiii", left.ctypes.data, right.ctypes.data, out.ctypes.data, own.ctypes.data, int(bf16), -1, 0, 0)
                with self.subTest(arch=arch, bf16=bf16):
                    self.run_text(arch, "Products", self.wave(arch), params, [left, right, out, own])
                    rows, columns = a.reshape(16, 16), b.reshape(16, 16)
                    product = rows @ columns.T
                    np.testing.assert_array_equal(out[0], product)
                    np.testing.assert_array_equal(out[1], rows @ product)
                    np.testing.assert_array_equal(out[2], product.T @ columns.T)
                    np.testing.assert_array_equal(out[3], out[1])
                    np.testing.assert_array_equal(own, bits(product.T))

    def test_subnormals(self):
        """Elements below the least normal number count as 0 on gfx90a alone; the least normal one never does."""
        for arch in ("gfx90a", "gfx942", "gfx1100", "gfx1201"):
            for bf16, left, right, kept in ((0, 0x0400, 0x3c00, 2.0 ** -10), (0, 0x0200, 0x3c00, None), (0, 0x3c00, 0x8200, None), (1, 0x0080, 0x3f80, 2.0 ** -122), (1, 0x0040, 0x4f80, None)):
                a, b = np.full(256, left, np.uint16), np.full(256, right, np.uint16)
                out, own = np.full((4, 16, 16), np.nan, np.float32), np.full(256, 0xffff, np.uint16)
                params = struct.pack("<QQQQiiii", a.ctypes.data, b.ctypes.data, out.ctypes.data, own.ctypes.data, bf16, -1, 0, 0)
                with self.subTest(arch=arch, bf16=bf16, left=left):
                    self.run_text(arch, "Products", self.wave(arch), params, [a, b, out, own])
                    wanted = kept or (0.0 if arch == "gfx90a" else {0x0200: 2.0 ** -11, 0x3c00: -2.0 ** -11, 0x0040: 2.0 ** -91}[left])
                    self.assertTrue((out[0] == np.float32(wanted)).all())

    def test_exchange(self):
        for arch in ARCHS:
            count = self.wave(arch)
            lane = np.arange(count)
            upper = (lane & 8) != 0
            for chosen in (-1, 0, count - 1):
                out = np.full((10, count), 0xffffffff, np.uint32)
                with self.subTest(arch=arch, chosen=chosen):
                    self.run_text(arch, "Exchange", count, struct.pack("<Qii", out.ctypes.data, chosen, 0), [out])
                    wanted = [1000 + (lane ^ 5), 1000 + (lane ^ 16), 1000 + (lane ^ count // 2), 1000 + count - 1 - lane, 0 * lane + int(chosen >= 0),
                              np.where(upper, 100 + (lane ^ 8), lane), np.where(upper, 100 + lane, lane ^ 8), 0 * lane, 0 * lane, 0 * lane + 1]
                    np.testing.assert_array_equal(out, np.array(wanted, dtype=np.uint32))

    def test_barriers(self):
        for arch in ARCHS:
            for seed in (1, 2):
                out = np.full(256, 7, np.uint32)
                with self.subTest(arch=arch, seed=seed):
                    self.run_text(arch, "Barriers", 256, struct.pack("<Qii", out.ctypes.data, 3, 0), [out], seed)
                    self.assertFalse(out.any())

    def test_a_missing_barrier_is_a_race(self):
        for arch in ("gfx1100", "gfx90a"):
            for site in (2, 3):
                text, out = re.sub(rf"block_sync<{site}>\(\);", "", self.texts["Barriers"]), np.zeros(256, np.uint32)
                code = self.compile(arch, f"without{site}", text)
                with self.subTest(arch=arch, site=site), self.assertRaisesRegex(Fault, "which another wave has used since the last barrier"):
                    launch(code, arch, "kernel", 1, 256, 65536, struct.pack("<Qii", out.ctypes.data, 3, 0), [(out.ctypes.data, out.nbytes)])


if __name__ == "__main__":
    if amd_code.tool("clang") is None or amd_code.tool("llvm-objdump") is None:
        print("skipped: no clang or no llvm-objdump of LLVM 19 or newer; install clang-19, lld-19 and llvm-19")
        sys.exit(SKIPPED)
    unittest.main()
