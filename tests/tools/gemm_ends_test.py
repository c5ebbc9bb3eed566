"""Protects what tests/gpu/gemm_ends.py makes of times: ratios over the plain product, apart by waves of tiles, beside what they should be; and which calls it
compares."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

ROOT = os.environ["TJ_TEST_REPO_DIR"]
sys.path.insert(0, os.path.join(ROOT, "tests", "gpu"))
import gemm_ends  # noqa: E402
import timing  # noqa: E402

NAMES = ("plain", *gemm_ends.ENDS)
KERNELS = {name: "gemm_f16_kk_128x256x64" + ("" if name == "plain" else "_" + name) for name in NAMES}


def row(size, plain_us, factors, kernels=None):
    times = {way: {name: [plain_us * factor * 1e-3 for _ in range(3)] for name, factor in zip(NAMES, (1.0, *factors))} for way in gemm_ends.WAYS}
    return gemm_ends.row_of(size, "f16", kernels or KERNELS, 132, times)


class Rows(unittest.TestCase):
    def test_waves_are_those_of_the_tile_in_the_name(self):
        self.assertAlmostEqual(gemm_ends.waves_of((4096, 4096, 64), "gemm_f16_kk_128x256x64c2x1", 132), 512 / 132)
        self.assertAlmostEqual(gemm_ends.waves_of((130, 65, 64), "gemm_f16_kk_128x64x64s_bias_gelu", 132), 4 / 132)
        with self.assertRaisesRegex(ValueError, "kernel own names no tile"):
            gemm_ends.waves_of((1, 1, 1), "own", 132)

    def test_ratios_are_over_the_plain_product(self):
        made = row((4096, 4096, 4096), 200.0, (1.01, 1.02, 1.05))
        self.assertEqual([round(value, 6) for value in made["ratios"]["flushed"].values()], [1.01, 1.02, 1.05])
        self.assertIn("flushed gelu_tanh 1.010 silu 1.020 gelu 1.050", gemm_ends.line(made))
        self.assertIn("3.88 waves", gemm_ends.line(made))
        other = row((4096, 4096, 4096), 200.0, (1, 1, 1), {**KERNELS, "bias_gelu": "gemm_f16_kk_128x128x64_bias_gelu"})
        self.assertIn("other tiles: gemm_f16_kk_128x128x64_bias_gelu", gemm_ends.line(other))

    def test_the_summary_is_apart_by_waves(self):
        text = "\n".join(gemm_ends.summary([row((4096, 4096, 64), 100.0, (1.02, 1.04, 1.05)), row((128, 256, 64), 10.0, (1.1, 1.0, 1.14))]))
        self.assertIn("3 waves and more: bias_silu over plain, graph: mean 1.040, worst 1.040 of 1 (wanted 1.03), 1 beyond", text)
        self.assertIn("fewer waves: bias_gelu_tanh over plain, flushed: mean 1.100, worst 1.100 of 1 (wanted 1.08), 1 beyond", text)
        self.assertIn("fewer waves: bias_gelu over plain, graph: mean 1.140, worst 1.140 of 1 (wanted 1.15), 0 beyond", text)
        self.assertEqual(gemm_ends.summary([]), ["no product was timed"])

    def test_sizes_have_both_classes(self):
        waves = [gemm_ends.waves_of(size, "gemm_f16_kk_128x256x64", 132) for size in gemm_ends.SIZES]
        self.assertGreaterEqual(sum(each >= gemm_ends.MANY for each in waves), 3)
        self.assertGreaterEqual(sum(each < gemm_ends.MANY for each in waves), 3)


class FakeRuntime:
    def __init__(self, *_, **__):
        self.calls = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def prepare(self, _device, op, **fields):
        end = "" if "activation" not in fields else "_bias_" + gemm_ends.gemm_check.ACTIVATIONS[fields["activation"]]
        return types.SimpleNamespace(name=f"gemm_f16_kk_128x256x64{end}".encode())

    def gemm(self, *bound, stream, **more):
        self.calls.append(more)


class FakeTensor:
    def __init__(self, shape):
        self.shape = shape

    def to(self, _kind):
        return self

    def data_ptr(self):
        return 256


class FakeTorch(types.SimpleNamespace):
    """As much of PyTorch as the script asks for."""

    def __init__(self):
        stream = types.SimpleNamespace(cuda_stream=0)
        cuda = types.SimpleNamespace(get_device_name=lambda: "Fake H200", synchronize=lambda: None, current_stream=lambda: stream)
        make = lambda shape, **_: FakeTensor(shape)  # noqa: E731
        super().__init__(float16="f16", bfloat16="bf16", cuda=cuda, randn=make, empty=make)


class Runs(unittest.TestCase):
    def test_all_ends_take_turns_with_the_plain_product(self):
        seen, runtime = [], FakeRuntime()

        def side_by_side(_torch, candidates, _rounds, _runs):
            for enqueue in candidates.values():
                enqueue()
            seen.append(list(candidates))
            return {name: [0.1] for name in candidates}
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as patches:
            written = os.path.join(folder, "ends.json")
            for place, name, value in ((timing, "time_side_by_side", side_by_side), (timing, "graph_of", lambda _torch, enqueue, calls: calls),
                                       (timing, "time_graphs", lambda _torch, graphs, *_: {name: [0.2] for name in graphs}),
                                       (gemm_ends.binding, "Runtime", lambda *_, **__: runtime), (gemm_ends.binding, "Library", lambda _path: None)):
                patches.enter_context(unittest.mock.patch.object(place, name, value))
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                options = gemm_ends.parse(["--library", "lib.so", "--sizes", "4096x4096x512,64x64x64", "--json", written])
                self.assertEqual(gemm_ends.run(FakeTorch(), options), 0)
                self.assertEqual(gemm_ends.main(["--report", written]), 0)
            with open(written, encoding="utf-8") as file:
                rows = json.load(file)["rows"]
        self.assertEqual(seen, [list(NAMES)] * 2)
        self.assertEqual([sorted(call) for call in runtime.calls[:4]], [[], *[["activation", "bias"]] * 3])
        self.assertEqual([call.get("activation") for call in runtime.calls[:4]], [None, 4, 3, 2])
        self.assertEqual([made["size"] for made in rows], [[4096, 4096, 512], [64, 64, 64]])
        self.assertEqual(out.getvalue().count("fewer waves: bias_gelu over plain, graph: mean 1.000"), 2)

    def test_bad_words_are_refused(self):
        for words in ([], ["--library", "x", "--sizes", "4096x4096"], ["--library", "x", "--dtype", "f32"], ["--library", "x", "--rounds", "0"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                gemm_ends.parse(words)

    def test_what_is_missing_is_named(self):
        done = subprocess.run([sys.executable, "-B", "-c", "import sys; sys.modules['torch'] = None; sys.path.insert(0, sys.argv[1]); import gemm_ends; "
                               "sys.exit(gemm_ends.main(['--library', 'lib.so']))", os.path.join(ROOT, "tests", "gpu")], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (77, "gemm_ends.py: PyTorch is not installed\n"))


if __name__ == "__main__":
    unittest.main()
