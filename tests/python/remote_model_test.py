"""Protects remote stores from Python: samples/08_remote over HTTP and Redis as its user runs it, and a store whose functions raise, lie, hang or end
early, beside which calls go on."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import here
import tilejit

SAMPLE = os.path.join(here.ROOT, "samples", "08_remote", "main.py")
REDIS = shutil.which("redis-server")
QUERIES = tilejit.Spec((1, 2, 256, 64), "f16", "cpu")


def run(*words):
    env = dict(os.environ, PYTHONPATH=os.path.join(here.ROOT, "src", "python"), LD_LIBRARY_PATH=os.path.dirname(os.environ["TJ_TEST_LIBRARY"]))
    return subprocess.run([sys.executable, "-B", SAMPLE, "--time-limit", "60", *words], capture_output=True, text=True, env=env)


class Sample(unittest.TestCase):
    def right(self, done, first):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 2, done.stdout)
        self.assertIn(first, lines[0])
        self.assertRegex(lines[1], r": [1-9]\d* from the store, 0 compiled, 0 put, 0 failures, 0 values refused")

    def test_http(self):
        self.right(run(), ": 0 from the store, ")

    @unittest.skipUnless(REDIS, "no redis-server here")
    def test_redis(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")
            with subprocess.Popen([REDIS, "--port", "0", "--unixsocket", path, "--dir", folder, "--save", "", "--appendonly", "no"],
                                  stdout=subprocess.DEVNULL) as server:
                try:
                    self.wait_for(path)
                    self.right(run("--redis", path), ": 0 from the store, ")
                    self.right(run("--redis", path), ", 0 compiled, 0 put")  # what one process put, another finds
                finally:
                    server.terminate()

    def wait_for(self, path):
        for _ in range(1200):
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                    connection.connect(path)
                    return
            except OSError:
                time.sleep(0.05)
        self.fail(f"redis-server did not open {path}")

    def test_no_server(self):
        done = run("--redis", "/nonexistent/socket")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)  # the kernels are compiled all the same
        self.assertRegex(done.stdout.splitlines()[1], r": 0 from the store, [1-9]\d* compiled, 0 put, [1-9]\d* failures")
        self.assertIn("08_remote: --http is 'ftp://x'", run("--http", "ftp://x").stderr)


class Functions(unittest.TestCase):
    def counted(self, *functions, **options):
        lines = []
        with tempfile.TemporaryDirectory() as folder:
            remote = tilejit.Remote(*functions, trusted=True, **options)
            with tilejit.Runtime(cache_dir=folder, target="model:sm_90a", remote=remote, log_sink=lambda _, text: lines.append(text)) as runtime:
                report = runtime.prepare("fmha", QUERIES, QUERIES, QUERIES, causal=True)
                counted = runtime.counters()
        self.assertGreaterEqual(counted["compiles"] + counted["remote_hits"], 1, report)
        return counted, lines

    def test_a_store_of_ones_own(self):
        values = {}
        store = (values.get, values.__setitem__, values.__contains__)
        counted, lines = self.counted(*store, time_limit_s=60)
        self.assertEqual(counted["remote_puts"], counted["compiles"])
        self.assertEqual(len(values), counted["compiles"])
        again, more = self.counted(*store, time_limit_s=60)
        self.assertEqual((again["compiles"], again["remote_hits"]), (0, counted["compiles"]))
        self.assertEqual(lines + more, [])
        for name, value in values.items():
            values[name] = value[:-1] + bytes([value[-1] ^ 1])
        damaged, lines = self.counted(*store, time_limit_s=60)
        self.assertEqual(damaged["remote_hits"], 0)
        self.assertGreaterEqual(damaged["remote_rejected"], 1)
        self.assertGreaterEqual(damaged["compiles"], 1)
        self.assertIn("is not used", lines[0])

    def test_functions_that_raise_or_give_something_else(self):
        def fail(*_):
            raise RuntimeError("no")
        for get in (fail, lambda name: "text", lambda name: 7.5):
            counted, _ = self.counted(get, fail, fail, time_limit_s=60)
            self.assertEqual((counted["remote_hits"], counted["remote_puts"]), (0, 0))
            self.assertGreaterEqual(counted["remote_failures"] + counted["remote_rejected"], 1)

    def test_a_store_that_hangs(self):
        go = threading.Event()
        timer = threading.Timer(30, go.set)
        timer.start()

        def hang(name):
            go.wait()

        try:
            with tempfile.TemporaryDirectory() as folder:
                remote = tilejit.Remote(hang, trusted=True, time_limit_s=0.1)
                runtime = tilejit.Runtime(cache_dir=folder, target="model:sm_90a", remote=remote, log_level="off")
                runtime.prepare("fmha", QUERIES, QUERIES, QUERIES, causal=True)
                self.assertGreaterEqual(runtime.counters()["remote_failures"], 1)
                go.set()
                runtime.close()
        finally:
            timer.cancel()

    def test_bad_options(self):
        for given, said in (((3,), "get is 3"), ((None, "x"), "put is 'x'")):
            with self.assertRaisesRegex(tilejit.Error, said):
                tilejit.Remote(*given)
        for seconds in (0, -1):
            with self.assertRaisesRegex(tilejit.Error, "time_limit_s is"):
                tilejit.Remote({}.get, time_limit_s=seconds)
        with self.assertRaisesRegex(tilejit.Error, "remote is 3; allowed: a tilejit.Remote"):
            tilejit.Runtime(remote=3)
        with self.assertRaisesRegex(tilejit.Error, "get and put are empty"):
            tilejit.Runtime(remote=tilejit.Remote())
        with self.assertRaisesRegex(tilejit.Error, "give Options::pack_keys"):
            tilejit.Runtime(remote=tilejit.Remote({}.get))


if __name__ == "__main__":
    here.skips.main()
