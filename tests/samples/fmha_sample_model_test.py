"""Protects sample 01_fmha as a user runs it on the CPU model: .npy files in and out, random data, what it prints, exit
codes, and mistakes named."""
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TJ_TEST_REPO_DIR"], "tests", "support"))
import skips  # noqa: E402

PROGRAM = os.path.join(os.environ["TJ_TEST_BUILD_DIR"], "samples", "01_fmha")


def write_npy(path, shape, values, descr="<f2"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(values)}{'e' if descr == '<f2' else 'f'}", *values))


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    start = 10 + struct.unpack_from("<H", data, 8)[0]
    return data[10:start].decode(), struct.unpack_from(f"<{(len(data) - start) // 2}e", data, start)


@unittest.skipUnless(os.path.exists(PROGRAM), "the samples are not built (TJ_SAMPLES)")
class Sample(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def file(self, name):
        return os.path.join(self.folder.name, name)

    def run_sample(self, *words):
        environment = {**os.environ, "TJ_TARGET": "model:sm_90a", "TJ_CACHE_DIR": self.file("cache")}
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment)

    def test_files(self):
        generator = random.Random(3)
        heads, seq_q, seq_k, dim = 2, 5, 9, 64
        v = [generator.gauss(0, 1) for _ in range(seq_k * dim)]
        write_npy(self.file("q.npy"), (1, heads, seq_q, dim), [generator.gauss(0, 1) for _ in range(heads * seq_q * dim)])
        write_npy(self.file("k.npy"), (1, 1, seq_k, dim), [0.0] * (seq_k * dim))  # all keys weigh alike
        write_npy(self.file("v.npy"), (1, 1, seq_k, dim), v)
        done = self.run_sample(*(self.file(n + ".npy") for n in "qkvo"), "--causal")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for part in ("model:sm_90a", "made in", "II ", "TFLOP/s", "ok: against f64", "H 2, Hkv 1, Sq 5, Sk 9, D 64, f16, causal"):
            self.assertIn(part, done.stdout)
        header, o = read_npy(self.file("o.npy"))
        self.assertIn("(1,2,5,64,)", header.replace(" ", ""))
        for row in range(seq_q):
            keys = row + seq_k - seq_q + 1
            mean = sum(v[j * dim + 7] for j in range(keys)) / keys
            self.assertLess(abs(o[row * dim + 7] - mean), 2e-3)

        again = self.run_sample("--causal", "--head-dim", "64", "--heads", "1", "--seq-q", "3", "--seq-k", "70", "--seed", "5")
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertIn("cache hit (disk)", again.stdout)
        self.assertIn("seed 5", again.stdout)

    def test_best_unchecked_and_wide(self):
        size = ("--head-dim", "64", "--heads", "1", "--seq-q", "3", "--seq-k", "70")
        best = self.run_sample(*size, "--best-of", "2", "--verify", "off")
        self.assertEqual(best.returncode, 0, best.stdout + best.stderr)
        self.assertRegex(best.stdout, r"best +[0-9.]+ ms, .* best of 2 runs timed one by one")
        self.assertIn("check    none: --verify is off", best.stdout)
        self.assertNotIn("against f64", best.stdout)
        write_npy(self.file("x.npy"), (1, 1, 4, 64), [0.25] * 256)
        wide = self.run_sample(*[self.file("x.npy")] * 3, self.file("o.npy"), "--out", "f32")
        self.assertEqual(wide.returncode, 0, wide.stdout + wide.stderr)
        self.assertIn("o in f32", wide.stdout)
        self.assertRegex(wide.stdout, "ok: against f64, .*; mean squared error [0-9.e+-]+")
        with open(self.file("o.npy"), "rb") as file:
            data = file.read()
        self.assertIn(b"'<f4'", data[:80])
        self.assertEqual(struct.unpack("<256f", data[-1024:]), (0.25,) * 256)

    def test_mistakes(self):
        write_npy(self.file("q.npy"), (1, 1, 1, 64), [0.0] * 64)
        write_npy(self.file("f4.npy"), (1, 1, 1, 64), [0.0] * 64, "<f4")
        write_npy(self.file("flat.npy"), (64,), [0.0] * 64)
        q, out = self.file("q.npy"), self.file("o.npy")
        for words, part in ((["--head-dim", "81", "--seq-q", "4"], "81"), (["--dtype", "f32"], "f16, bf16"), (["--colour"], "--colour"), (["--out", "bf16"], "same, f32"), (["--verify", "no"], "on, off"),
                            ([q, q, q], "four files"), ([q, q, self.file("absent.npy"), out], "absent.npy"), ([q, q, q, out, "--seed", "1"], "--seed"),
                            ([self.file("f4.npy"), q, q, out], "f32"), ([self.file("flat.npy"), q, q, out], "4, [B, H, S, D]"),
                            (["--heads", "3", "--kv-heads", "2", "--seq-q", "4"], "multiple")):
            done = self.run_sample(*words)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(part, done.stderr)
        self.assertFalse(os.path.exists(out))

    def test_help(self):
        done = self.run_sample("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--causal", done.stdout)


if __name__ == "__main__":
    skips.main()
