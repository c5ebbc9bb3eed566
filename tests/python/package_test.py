"""Protects the package itself: its structures are the header's, and importing it brings nothing in. Every public function has a docstring
with an example. The files that a type checker and a wheel need are there."""
import ctypes
import inspect
import os
import re
import subprocess
import sys
import tempfile
import unittest

import here
import binding
import binding_groups

PACKAGE = os.path.join(here.ROOT, "src", "python", "tilejit")
tilejit = here.tilejit
from tilejit import _c, _library  # noqa: E402


FORK = """
import ctypes, os, signal, sys, threading, time
ctypes.CDLL(sys.argv[2])  # which the loader then has under its name
sys.path[:0] = [sys.argv[1], None]
from tilejit import _library
inside, real = threading.Event(), _library._open
def slow():
    inside.set()
    time.sleep(0.2)
    return real()
_library._open = slow
thread = threading.Thread(target=_library.library)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    _library.library()
    os._exit(0)
thread.join()
print(os.waitpid(child, 0)[1])
"""

# The signal comes in the middle of the first call, wherever that is.
SIGNAL = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import tilejit
from tilejit import _library
signal.alarm(60)
done = []
def fork(*_):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        tilejit.counters()
        os._exit(0)
    done.append(os.waitpid(child, 0)[1])
def call(*_):
    done.append(tilejit.counters()["loads"])
    gates.append(_library.gate().value)
gates, sent, declare = [], [], _library._declare
def interrupted(*given):
    declare(*given)
    if not sent:
        sent.append(True)
        os.kill(os.getpid(), signal.SIGUSR1)
_library._declare = interrupted
signal.signal(signal.SIGUSR1, {"fork": fork, "call": call}[sys.argv[2]])
tilejit.counters()
print(done, all(each == _library.gate().value for each in gates))
"""


class Package(unittest.TestCase):
    def test_structures_are_those_of_the_header(self):
        """The binding of tests/c_api is held against the header by a C compiler."""
        compared = 0
        for name, structure in vars(_c).items():
            other = getattr(binding, name, None) or getattr(binding_groups, name, None)
            if name != "ObjectHost" and inspect.isclass(structure) and issubclass(structure, ctypes.Structure) and structure is not _c.Sized:
                self.assertEqual(ctypes.sizeof(structure), ctypes.sizeof(other), name)
                self.assertEqual([(field, getattr(structure, field).offset) for field, _ in self.fields(structure)],
                                 [(field, getattr(other, field).offset) for field, _ in self.fields(other)], name)
                compared += 1
        self.assertGreaterEqual(compared, 12)

    @staticmethod
    def fields(structure):
        return [each[:2] for each in structure._fields_]

    def test_calls_are_those_of_the_header(self):
        declared = set()
        for header in ("include/tilejit/tilejit.h", "include/tilejit/custom.h", "include/tilejit/graphs.h", "include/tilejit/preparation.h", "include/tilejit/experts.h",
                       "include/tilejit/recurrence.h", "include/tilejit/dist.h", "include/tilejit/remote.h", "include/tilejit/trim.h", "src/api/objects.h"):
            with open(os.path.join(here.ROOT, header), encoding="utf-8") as file:
                declared |= set(re.findall(r"TJ_C_API [^;(]*?\b(tj_\w+)\(", file.read()))
        self.assertLessEqual(set(_c.CALLS) | set(_c.KEEPING), declared)
        self.assertEqual(_c.DTYPES, {name: number for number, name in binding.DTYPE_NAMES.items()})

    def test_the_librarys_name(self):
        with open(os.path.join(here.ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(_library.SONAME, "libtilejit.so." + re.search(r"set\(tj_last_break (\S+)\)", text).group(1))
        self.assertEqual(tilejit.__version__, re.search(r"VERSION (\S+)", text[text.index("project("):]).group(1))

    def test_import_brings_nothing_in(self):
        done = subprocess.run([sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules); import tilejit; "
                               "print(*sorted(set(sys.modules) - before))", os.path.dirname(PACKAGE)], capture_output=True, text=True, check=True)
        brought = {name.partition(".")[0] for name in done.stdout.split()}
        self.assertIn("tilejit", brought)
        self.assertFalse(brought & {"numpy", "torch", "jax", "cupy", "dataclasses", "inspect", "typing", "importlib", "subprocess"}, brought)

    def test_no_library(self):
        """Without a library the import succeeds, and the first use says what is missing."""
        done = subprocess.run([sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import tilejit\n"
                               "try: tilejit.devices()\nexcept tilejit.Error as error: print(error.stage, error.code, error)", os.path.dirname(PACKAGE)],
                              capture_output=True, text=True, env={k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"})
        self.assertIn("load not_found", done.stdout, done.stderr)
        self.assertIn("LD_LIBRARY_PATH", done.stdout)

    def test_a_fork_while_another_thread_opens_the_library(self):
        """The child neither waits for a thread that it does not have, nor finds the loader half done. sys.path may hold anything."""
        done = subprocess.run([sys.executable, "-c", FORK, os.path.dirname(PACKAGE), os.environ["TJ_TEST_LIBRARY"]], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "0\n"), done.stderr)

    def test_a_signals_handler_while_its_thread_opens_the_library(self):
        """The handler may fork, or call the library; whose gate it has given away then is the one that the interpreter's end closes."""
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(os.environ["TJ_TEST_LIBRARY"]))
        for act in ("fork", "call"):
            done = subprocess.run([sys.executable, "-c", SIGNAL, os.path.dirname(PACKAGE), act], capture_output=True, text=True, env=environment)
            self.assertEqual((done.returncode, done.stdout), (0, "[0] True\n"), f"{act}: {done.stderr}")

    def test_nvrtc_of_another_folder_of_packages(self):
        """A wheel of NVRTC in a folder of sys.path that is not the package's is found, where LD_LIBRARY_PATH names no other."""
        with tempfile.TemporaryDirectory() as folder:
            wheel = os.path.join(folder, "nvidia", "cu13", "lib", "libnvrtc.so.13")
            os.makedirs(os.path.dirname(wheel))
            with open(wheel, "w", encoding="utf-8") as file:
                file.write("x")
            environment = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH")}
            done = subprocess.run([sys.executable, "-c", "import ctypes, json, sys; ctypes.CDLL(sys.argv[1]); sys.path[:0] = sys.argv[2:]; "
                                   "from tilejit._library import library; out = ctypes.c_char_p(); library().tj_describe(ctypes.byref(out)); "
                                   "print(json.loads(out.value)['nvrtc'])", os.environ["TJ_TEST_LIBRARY"], os.path.dirname(PACKAGE), folder],
                                  capture_output=True, text=True, env=environment)
            self.assertEqual(done.stdout.strip(), wheel, done.stderr)

    def test_public_names(self):
        for name in tilejit.__all__:
            found = getattr(tilejit, name)
            self.assertTrue(inspect.getdoc(found), name)
        for found in (tilejit.fmha, tilejit.gemm, tilejit.chunk_indices, tilejit.chunk_o, tilejit.prepare, tilejit.warm, tilejit.tune, tilejit.plan,
                      tilejit.schedule, tilejit.devices, tilejit.Runtime, tilejit.custom.Kernel):
            self.assertIn(">>> ", inspect.getdoc(found), found)
            self.assertIn("Raises tilejit.Error", " ".join(inspect.getdoc(found).split()), found)
        for name in ("fmha", "gemm", "chunk_indices", "chunk_o", "prepare", "warm", "tune", "plan"):
            self.assertEqual(inspect.getdoc(getattr(tilejit.Runtime, name)), inspect.getdoc(getattr(tilejit, name)))
        self.assertTrue(os.path.exists(os.path.join(PACKAGE, "py.typed")))

    def test_type_hints(self):
        functions = [getattr(tilejit, name) for name in tilejit.__all__ if inspect.isfunction(getattr(tilejit, name))]
        for owner in (tilejit.Runtime, tilejit.Plan, tilejit.custom.Kernel, tilejit.Graph, tilejit.Schedule):
            functions += [found for name, found in vars(owner).items() if inspect.isfunction(found) and not name.startswith("_")]
        functions += [tilejit.Runtime.__init__, tilejit.custom.Kernel.__init__]
        for function in functions:
            signature = inspect.signature(function)
            for name, parameter in signature.parameters.items():
                if name not in ("self", "options"):
                    self.assertIsNot(parameter.annotation, inspect.Parameter.empty, f"{function.__qualname__}: {name}")
            self.assertIsNot(signature.return_annotation, inspect.Signature.empty, function.__qualname__)

    def test_size_of_files(self):
        for name in os.listdir(PACKAGE):
            if name.endswith(".py"):
                with open(os.path.join(PACKAGE, name), encoding="utf-8") as file:
                    lines = file.read().splitlines()
                self.assertLess(len(lines), 400, name)
                self.assertLess(max(map(len, lines), default=0), 155, name)

    def test_command(self):
        env = dict(os.environ, PYTHONPATH=os.path.dirname(PACKAGE), LD_LIBRARY_PATH=os.path.dirname(os.environ["TJ_TEST_LIBRARY"]), TJ_CACHE_DIR="/nowhere/kept",
                   TJ_TARGET="")
        done = subprocess.run([sys.executable, "-m", "tilejit"], capture_output=True, text=True, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in (tilejit.__version__, "/nowhere/kept", "sm_90a", "gfx942", "cpu: model:", os.environ["TJ_TEST_LIBRARY"].rpartition("/")[0]):
            self.assertIn(part, done.stdout)
        done = subprocess.run([sys.executable, "-m", "tilejit", "--cmake-dir"], capture_output=True, text=True, env=env)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no wheel", done.stderr)
        done = subprocess.run([sys.executable, "-m", "tilejit", "--help"], capture_output=True, text=True, env=env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for part in ("python -m tilejit", "--help", "--cmake-dir", "--include-dir"):
            self.assertIn(part, done.stdout)
        for words in ("", " --help"):
            for unbuffered in ("", " -u"):
                done = subprocess.run(f"'{sys.executable}'{unbuffered} -m tilejit{words} > /dev/full", shell=True, stderr=subprocess.PIPE, text=True, env=env)
                self.assertEqual((done.returncode, done.stderr), (1, "tilejit: standard output cannot be written: No space left on device\n"))
            done = subprocess.run(f"'{sys.executable}' -m tilejit{words} >&-", shell=True, stderr=subprocess.PIPE, text=True, env=env)
            self.assertEqual((done.returncode, done.stderr), (1, "tilejit: standard output is closed\n"))


if __name__ == "__main__":
    here.skips.main()
