"""Protects calls on arrays of CuPy, which is not installed here: its current stream is asked for, its own function allocates results on the arrays' device,
and types that it lacks are refused. A module of that name, the driver and the compiler are stand-ins."""
import contextlib
import sys
import types
from unittest import mock

import here
from framework import Array
from known_calls import Case, Launch, parameter_bytes, tilejit


class ndarray(Array):
    """CuPy's arrays offer no exchange API yet."""
    __dlpack_c_exchange_api__ = None


ndarray.__module__ = "cupy"


class CuPy(Case):
    def setUp(self):
        super().setUp()
        self.stream, self.devices = 0x5000, []
        module, current = types.ModuleType("cupy"), lambda: types.SimpleNamespace(ptr=self.stream)
        module.cuda = types.SimpleNamespace(Device=self.device, get_current_stream=current)
        module.empty = lambda shape, dtype: ndarray(shape, {"float16": "f16", "float32": "f32", "int32": "i32"}[dtype], device=self.devices[-1])
        patch = mock.patch.dict(sys.modules, {"cupy": module})
        patch.start()
        self.addCleanup(patch.stop)

    @contextlib.contextmanager
    def device(self, index):
        self.devices.append(index)
        yield

    def test_results(self):
        a, b = ndarray((64, 128)), ndarray((32, 128))
        size = parameter_bytes(lambda runtime: runtime.gemm(a, b), self.folder)
        for dtype, name in ((None, "f16"), ("f32", "f32")):
            with Launch(size) as launch:
                d = self.runtime.gemm(a, b, dtype=dtype)
            self.assertEqual((type(d), d.shape, d.dtype, self.devices[-1]), (ndarray, (64, 32), name, 0))
            self.assertIn(d.address.to_bytes(8, "little"), launch.params[0])
        rows, total = self.runtime.chunk_indices(ndarray((3,), "i32"), tokens=100)
        self.assertEqual((rows.shape, rows.dtype, total.shape), ((3, 2), "i32", (1,)))
        self.assertIs(self.runtime.gemm(a, b, out=d), d)
        given = [ndarray((1, 2, 96, 64), "bf16") for _ in range(4)]
        with self.assertRaisesRegex(tilejit.Error, "bfloat16, which CuPy does not have; give out="):
            self.runtime.fmha(*given[:3])
        self.assertIs(self.runtime.fmha(*given[:3], out=given[3]), given[3])

    def test_streams(self):
        """The stream is CuPy's current one in each call, and its arrays need not wait for another."""
        a, b, d = ndarray((64, 128)), ndarray((32, 128)), ndarray((64, 32))
        plan, seen = self.runtime.plan("gemm", a, b), []
        for call in (lambda **named: self.runtime.gemm(a, b, out=d, **named), lambda **named: plan.run(a, b, d, **named)):
            call()
            for stream, named in ((0, {}), (0x5000, {}), (0x6000, {"stream": types.SimpleNamespace(ptr=0)}), (0, {"stream": types.SimpleNamespace(ptr=0x6000)})):
                self.stream = stream
                with Launch() as launch:
                    call(**named)
                seen.append([line.endswith(" in another") for line in launch.lines])
        self.assertEqual(seen, [[False], [True], [False], [True]] * 2)


if __name__ == "__main__":
    here.skips.main()
