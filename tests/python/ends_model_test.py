"""Protects the interpreter's end while threads of the library call functions of the program: a log sink, a remote store, an allocator. The process ends
with the program's exit code, and behind the end none of the functions is called."""
import os
import subprocess
import sys
import tempfile
import unittest

import here

RUNS = 3  # each meets the end at another place

BACKGROUND_LOG = """
seen = []
rt = tilejit.Runtime(log_sink=lambda level, text: seen.append(text), log_level="debug")
work = tilejit.Preparation(threads=2, runtime=rt).add("combine", device="cpu").add("merge_states", device="cpu")
"""
BACKGROUND_REMOTE = """
values = {}
rt = tilejit.Runtime(remote=tilejit.Remote(values.get, values.__setitem__, values.__contains__, trusted=True))
work = tilejit.Preparation(threads=2, runtime=rt).add("combine", device="cpu").add("merge_states", device="cpu")
"""
SLOW_REMOTE = """
rt = tilejit.Runtime(remote=tilejit.Remote(lambda name: time.sleep(0.05), None, None, trusted=True, time_limit_s=5))
threading.Thread(target=lambda: rt.warm("chunk_indices", "sm_90a"), daemon=True).start()
time.sleep(0.02)
"""
DAEMON_LOG = """
seen = []
rt = tilejit.Runtime(log_sink=lambda level, text: seen.append(text), log_level="debug")
threading.Thread(target=lambda: rt.warm("chunk_indices", "sm_90a"), daemon=True).start()
time.sleep(0.02)
"""
LAST_CALL = """
begun, ended = [], []
def sink(level, text):
    begun.append(text)
    time.sleep(0.05)
    ended.append(text)
rt = tilejit.Runtime(log_sink=sink, log_level="debug")
work = tilejit.Preparation(threads=2, runtime=rt).add("combine", device="cpu").add("merge_states", device="cpu")
while not begun:
    time.sleep(0.001)
tilejit._library._end_callbacks()
count = len(begun)
assert len(ended) == count, (begun, ended)
work.wait()
assert len(begun) == count, begun[count:]
"""
NONE_BEHIND = """
calls = []
rt = tilejit.Runtime(log_sink=lambda level, text: calls.append(text), log_level="trace")
other = tilejit.Runtime(remote=tilejit.Remote(lambda name: calls.append(name), trusted=True), log_level="error")
rt.warm("chunk_indices", "sm_90a")
count = len(calls)
other.warm("merge_states", "sm_90a")
assert 0 < count < len(calls), calls
tilejit._library._end_callbacks()
calls.clear()
for each in rt, other:
    each.warm("combine", "sm_90a")
assert calls == [], calls
"""
ALLOCATOR = """
import ctypes, numpy
class Own:
    def allocate(self, device, size, stream):
        calls.append("allocate")
        self.block = ctypes.create_string_buffer(size + 256)
        return ctypes.addressof(self.block) + -ctypes.addressof(self.block) % 256
    def deallocate(self, *_):
        calls.append("deallocate")
calls = []
rt = tilejit.Runtime(allocator=Own(), log_level="error")
a = numpy.ones((33, 65), numpy.float16)[:, 1:]  # begins anywhere: it is copied into a workspace first
rt.gemm(a, a)
assert calls == ["allocate", "deallocate"], calls
tilejit._library._end_callbacks()
try:
    rt.gemm(a, a)
except tilejit.Error as error:
    assert error.code == "out_of_memory", error
else:
    assert False
assert calls == ["allocate", "deallocate"], calls
"""
LATE_REMOTE = """
tilejit._library._MOST_SECONDS = 0.05
rt = tilejit.Runtime(remote=tilejit.Remote(lambda name: time.sleep(1), None, None, trusted=True, time_limit_s=5))
threading.Thread(target=lambda: rt.warm("chunk_indices", "sm_90a"), daemon=True).start()
time.sleep(0.1)
"""
LATE_LOG = """
tilejit._library._MOST_SECONDS = 0.05
rt = tilejit.Runtime(log_sink=lambda level, text: time.sleep(0.5), log_level="debug")
work = tilejit.Preparation(threads=2, runtime=rt).add("combine", device="cpu").add("merge_states", device="cpu")
threading.Thread(target=lambda: rt.warm("chunk_indices", "sm_90a"), daemon=True).start()
time.sleep(0.1)
"""


def run(script):
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(here.ROOT, "src", "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
        libraries = [os.path.dirname(os.environ["TJ_TEST_LIBRARY"]), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        env = dict(os.environ, PYTHONPATH=":".join(paths), LD_LIBRARY_PATH=":".join(libraries), TJ_CACHE_DIR=folder, TJ_TARGET="model:sm_90a")
        text = "import sys, threading, time\nimport tilejit\n" + script + "\nsys.exit(42)\n"
        return subprocess.run([sys.executable, "-B", "-c", text], capture_output=True, text=True, env=env)


class End(unittest.TestCase):
    def ends(self, script, runs=RUNS):
        for _ in range(runs):
            done = run(script)
            self.assertEqual((done.returncode, done.stderr), (42, ""), done.stdout)

    def test_background_log(self):
        self.ends(BACKGROUND_LOG)

    def test_background_remote(self):
        self.ends(BACKGROUND_REMOTE)

    def test_slow_remote(self):
        self.ends(SLOW_REMOTE)

    def test_daemon_thread_logs(self):
        self.ends(DAEMON_LOG)

    def test_those_under_way_are_waited_for(self):
        self.ends(LAST_CALL, 1)

    def test_none_is_called_behind_the_end(self):
        self.ends(NONE_BEHIND, 1)

    @unittest.skipUnless(here.numpy, here.NO_NUMPY)
    def test_no_memory_is_asked_for_behind_the_end(self):
        self.ends(ALLOCATOR, 1)

    def test_functions_that_take_longer_end_with_their_threads(self):
        self.ends(LATE_REMOTE, 2)
        self.ends(LATE_LOG, 2)


if __name__ == "__main__":
    unittest.main()
