"""Protects programs under limits of their own: a limit is told as an error with its next step, and ends no process."""
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPO = Path(os.environ["TJ_TEST_REPO_DIR"])
sys.path.insert(0, str(REPO / "tests" / "support"))
import skips  # noqa: E402

LIBRARY = Path(os.environ["TJ_TEST_LIBRARY"])
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
HANGS = 120  # seconds after which something does not end at all

PROGRAM = r"""
#include <cstdint>
#include <cstdio>
#include <tilejit/tilejit.hpp>

int main() {
  std::int32_t ends[2] = {0, 100}, list[16] = {}, total[1] = {};
  const tj::Device cpu{tj::DeviceKind::cpu, 0};
  tj::ChunkIndicesArgs args;
  args.cu_seqlens = tj::Tensor::contiguous(ends, cpu, tj::DType::i32, {2});
  args.chunk_indices = tj::Tensor::contiguous(list, cpu, tj::DType::i32, {8, 2});
  args.total_chunks = tj::Tensor::contiguous(total, cpu, tj::DType::i32, {1});
  try {
    tj::Runtime::instance().run(args);
    return total[0] == 2 ? 0 : 1;
  } catch (const tj::Error& error) {
    std::fputs(error.what(), stderr);
    return 3;
  }
}
"""


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it


class Limits(unittest.TestCase):
    def test_a_limit_on_the_size_of_files_is_told(self):
        """Also where the kernel is in the cache: the model loads it from a file in memory."""
        with tempfile.TemporaryDirectory(prefix="tilejit_limits_") as name:
            folder = Path(name)
            (folder / "tmp").mkdir()
            source, program = folder / "program.cpp", folder / "program"
            source.write_text(PROGRAM)
            subprocess.run([COMPILER, "-std=c++20", "-O0", "-I", REPO / "include", source, "-o", program, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"], check=True)
            environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "TJ_CACHE_DIR": str(folder / "cache"), "TJ_TARGET": "model:sm_80"}

            def run(limit=None):
                return subprocess.run([program], env=environment, timeout=HANGS, capture_output=True, text=True, preexec_fn=limit)

            for cached in (False, True):
                with self.subTest(cached=cached):
                    limited = run(small_files)
                    self.assertEqual(3, limited.returncode, limited.stderr)
                    self.assertIn("raise the limit on the size of files (ulimit -f)", limited.stderr)
                    self.assertEqual([], os.listdir(folder / "tmp"))
                    self.assertEqual(0, run().returncode)


if __name__ == "__main__":
    skips.main()
