"""Protects the interpreter of AMD's instructions where a compiler names halves of registers, as those of LLVM 22 do on gfx11: a half that is written
leaves the other one.

Exit status 77: no numpy.
"""
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import numpy as np
except ImportError:
    print("skipped: no numpy")
    sys.exit(77)

from amd_execute import vector_value
from amd_wave import U, Fault, Wave


class Halves(unittest.TestCase):
    def setUp(self):
        self.wave = Wave(None, 0, SimpleNamespace(wave=32))
        self.wave.vectors["v"][3][:] = U(0x11112222)

    def test_a_half_is_read_and_written_alone(self):
        self.assertTrue((self.wave.words("v3.h") == 0x1111).all() and (self.wave.words("v3.l") == 0x2222).all())
        self.wave.store("v3.h", np.full(32, 0xabcd, dtype=U))
        self.assertTrue((self.wave.words("v3") == 0xabcd2222).all())
        self.wave.store("v3.l", np.full(32, 0xffff5678, dtype=U))
        self.assertTrue((self.wave.words("v3") == 0xabcd5678).all())
        with self.assertRaises(Fault):
            self.wave.words("-v3.l")

    def test_conversions_and_choices_say_the_half_twice(self):
        self.wave.vectors["v"][4][:] = np.float32(1.5).view(U)
        self.wave.store("v3.h", vector_value(self.wave, "v_cvt_f16_f32_e64", ["v3.h", "v4"], {"op_sel": "[0,1]"}))
        self.assertTrue((self.wave.words("v3") == 0x3e002222).all())
        self.wave.scalars[0] = 0x0000ffff
        chosen = vector_value(self.wave, "v_cndmask_b16", ["v3.l", "0", "v3.h", "s0"], {})
        self.assertEqual([int(chosen[lane]) for lane in (0, 15, 16, 31)], [0x3e00, 0x3e00, 0, 0])


if __name__ == "__main__":
    unittest.main()
