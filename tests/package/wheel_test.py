"""Protects the Python wheel: pip builds it from what is built, its tag is what auditwheel grants, it is small, it needs no libstdc++, and with it alone
a new environment has the package, the tools, and folders for C++. The CPU model gives a checked result there in four lines.

Nothing is compiled but a consumer in C++, nothing is fetched, and nothing is left behind.
"""
import os
import platform
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from installed import BUILD, REPO, cached, elf_files, run, skips, version  # noqa: E402

MAX_BYTES = 10 * 1000 * 1000
PARTS = REPO / ".deps/python"  # tests/setup.sh puts it there
FOUR_LINES = """
import numpy, tilejit
q, k, v = numpy.random.default_rng(1).standard_normal((3, 1, 2, 100, 64)).astype(numpy.float16)
o = tilejit.fmha(q, k, v)
weights = numpy.exp(q.astype(float) @ k.astype(float).swapaxes(-1, -2) / 8)
print("error", numpy.abs(o - weights / weights.sum(-1, keepdims=True) @ v.astype(float)).max() < 2e-3)
"""
CONSUMER = """
#include <cstdio>
#include <tilejit/tilejit.hpp>

int main() {
  for (int i = 0; i < 2; ++i) {
    try {
      tj::Options options;
      options.target = "sm_1";
      tj::Runtime runtime(options);
    } catch (const std::exception& error) {
      if (i == 1) std::printf("caught by its base: %s\\n", error.what());
      if (i == 0 && dynamic_cast<const tj::Error*>(&error) == nullptr) return 1;
    }
  }
  try {
    tj::Graph::parse("{");
  } catch (const tj::Error& error) {
    std::printf("caught: %s\\n", to_string(error.stage));
  }
  return std::fflush(stdout);
}
"""


def module(name):
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True).returncode == 0


@unittest.skipUnless((PARTS / "scikit_build_core").is_dir(), "scikit-build-core is not in .deps/python: bash tests/run.sh --setup")
@unittest.skipUnless((BUILD / "wheel/tj-tools").is_file(), "a wheel is made from a release build")
@unittest.skipUnless(module("pip") and module("venv"), "no pip or venv")
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tilejit_wheel_")
        cls.work = Path(cls.folder.name)
        env = dict(os.environ, PYTHONPATH=str(PARTS), PIP_CONFIG_FILE=os.devnull)
        # This is `pip wheel .` with the build that is here; pip alone would fetch what pyproject.toml requires.
        run(sys.executable, "-m", "pip", "wheel", REPO, "--no-build-isolation", "--no-deps", "--no-index", "-w", cls.work,
            f"--config-settings=cmake.define.TJ_BUILD={BUILD}", env=env, cwd=cls.work)
        (cls.wheel,) = cls.work.glob("*.whl")
        cls.venv = cls.work / "some where" / "venv"
        run(sys.executable, "-m", "venv", "--without-pip", cls.venv)
        run(sys.executable, "-m", "pip", "--python", cls.venv / "bin/python", "install", "--no-deps", "--no-index", cls.wheel, env=env)
        (cls.package,) = cls.venv.glob("lib/python3*/site-packages/tilejit")
        cls.env = {k: v for k, v in os.environ.items() if k not in ("TJ_TARGET", "PYTHONPATH", "LD_LIBRARY_PATH")}
        cls.env["TJ_CACHE_DIR"] = str(cls.work / "cache")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def python(self, *words, **env):
        return run(self.venv / "bin/python", *words, env=dict(self.env, **env), cwd=self.work)

    def test_name_and_size(self):
        found = re.fullmatch(rf"tilejit-{re.escape(version())}-py3-none-manylinux_2_(\d+)_x86_64\.whl", self.wheel.name)
        self.assertTrue(found, self.wheel.name)
        here = int(platform.libc_ver()[1].split(".")[1])
        self.assertLessEqual(int(found.group(1)), here if here > 36 else 34)  # 2.34 brought dlopen into libc; later ones may bring more
        self.assertLess(self.wheel.stat().st_size, MAX_BYTES)

    def test_metadata_without_a_build(self):
        """pip asks for it first. Without an answer it builds the wheel for it, and minutes of compiling are called "Preparing metadata"."""
        folder = self.work / "metadata"
        folder.mkdir()
        said = run(sys.executable, "-c", f"import backend; print(backend.prepare_metadata_for_build_wheel({str(folder)!r}))", cwd=REPO,
                   env=dict(os.environ, PYTHONPATH=f"{PARTS}:{REPO / '.cmake/wheel'}"))
        self.assertEqual(said.splitlines()[-1], f"tilejit-{version()}.dist-info")
        self.assertIn(f"Version: {version()}", (folder / f"tilejit-{version()}.dist-info/METADATA").read_text())

    @unittest.skipUnless((BUILD / "build.ninja").is_file(), "the build is not ninja's")
    def test_target_builds_all_that_is_installed(self):
        """pip builds the target tj_wheel alone, in a new folder: what `cmake --install` takes must come of it."""
        commands = run("ninja", "-C", BUILD, "-t", "commands", "tj_wheel")
        installed = set(re.findall(rf'"{re.escape(str(BUILD))}/((?:bin|lib|man|wheel)/[^"]+)"', (BUILD / "cmake_install.cmake").read_text()))
        self.assertIn("wheel/tj-tools", installed)
        self.assertFalse({name for name in installed if name not in commands})

    def test_contents(self):
        with zipfile.ZipFile(self.wheel) as archive:
            names = set(archive.namelist())
        for name in ("py.typed", "lib/libtilejit.so.0.2", "lib/cmake/tilejit/tilejitConfig.cmake", "include/tilejit/tilejit.h", "bin/tj-tools",
                     "share/doc/tilejit/LICENSE", "share/doc/tilejit/licences/openssl", "share/doc/tilejit/samples/07_python/main.py"):
            self.assertIn("tilejit/" + name, names)
        self.assertFalse([name for name in names if "__pycache__" in name or name.endswith((".cpp.o", ".a"))])
        self.assertEqual({name.split("/")[0] for name in names}, {"tilejit", f"tilejit-{version()}.dist-info"})
        libraries = [name for name in names if "libtilejit.so" in name]
        self.assertEqual(len(libraries), 2, libraries)  # one is a line for linkers
        needles = [str(place).encode() for place in (REPO, BUILD, self.work)]
        for path in (p for p in self.package.rglob("*") if p.is_file() and p.suffix != ".pyc"):
            for needle in needles:
                self.assertNotIn(needle, path.read_bytes(), f"{path.relative_to(self.package)} contains {needle}")

    def test_libraries_that_are_needed(self):
        files = list(elf_files(self.package))
        self.assertEqual({path.name for path in files}, {"libtilejit.so.0.2", "tj-tools"})
        for path in files:
            self.assertNotIn("libstdc++", run("readelf", "-dW", path), path)

    def test_exports_no_more_than_the_library(self):
        def names(path):
            return {line.split(maxsplit=2)[2] for line in run("nm", "-D", "--defined-only", path).splitlines()}
        self.assertEqual(names(self.package / "lib/libtilejit.so.0.2"), names(BUILD / "lib/libtilejit.so"))

    def test_bare(self):
        self.assertIn(f"tilejit {version()}", self.python("-m", "tilejit"))
        self.assertIn(str(self.package / "lib"), self.python("-m", "tilejit"))
        self.assertEqual(self.python("-c", "import tilejit, sys; print(tilejit.__version__, 'numpy' in sys.modules)").split(), [version(), "False"])
        self.assertIn("II 5", self.python("-c", "import tilejit; print(tilejit.schedule('{\"machine\": \"hopper\", \"instructions\": "
                                          "[{\"name\": \"a\", \"cycles\": 5, \"fu\": \"TC\"}]}').text())"))

    def test_tools(self):
        for tool in ("tj-warm", "tj-schedule", "tj-check", "tj-bench"):
            self.assertIn("Usage: " + tool, run(self.venv / "bin" / tool, "--help", env=self.env).replace("\n", " "))
        help_text = run(self.venv / "bin/tj-schedule", "--help", env=self.env)
        self.assertIn(str(self.package / "share/doc/tilejit/src/graph/README.md"), help_text)
        failed = subprocess.run([self.package / "bin/tj-tools"], capture_output=True, text=True)
        self.assertEqual(failed.returncode, 2)
        self.assertIn("tj-warm", failed.stderr)

    @unittest.skipUnless(module("numpy"), "no numpy for this Python")
    def test_four_lines(self):
        where = subprocess.run([sys.executable, "-c", "import numpy; print(numpy.__path__[0])"], capture_output=True, text=True, check=True).stdout.strip()
        self.assertIn("error True", self.python("-c", FOUR_LINES, PYTHONPATH=os.path.dirname(where)))

    def test_nvrtc_beside_the_package(self):
        """As the wheel nvidia-cuda-nvrtc puts it."""
        folder = self.package.parent / "nvidia/cu13/lib"
        folder.mkdir(parents=True)
        (folder / "libnvrtc.so.13").write_bytes(b"")
        self.assertRegex(self.python("-m", "tilejit"), r"NVRTC .*site-packages/.*nvidia/cu13/lib/libnvrtc.so.13")

    def test_programs_in_cpp(self):
        source = self.work / "consumer.cpp"
        source.write_text(CONSUMER)
        include, cmake = self.python("-m", "tilejit", "--include-dir").strip(), self.python("-m", "tilejit", "--cmake-dir").strip()
        project = self.work / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(consumer LANGUAGES CXX)\nfind_package(tilejit REQUIRED)\n"
                                                f"add_executable(consumer {source})\ntarget_link_libraries(consumer tilejit::tilejit)\n")
        run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja", f"-Dtilejit_DIR={cmake}", f"-DCMAKE_CXX_COMPILER={cached('CMAKE_CXX_COMPILER')}",
            env=self.env)
        run("cmake", "--build", project / "build", env=self.env)
        by_flags = self.work / "by_flags"
        run(cached("CMAKE_CXX_COMPILER"), "-std=c++20", "-I", include, source, "-o", by_flags, "-L", self.package / "lib", "-ltilejit",
            f"-Wl,-rpath,{self.package / 'lib'}")
        for program in (project / "build/consumer", by_flags):
            said = run(program, env=self.env)
            self.assertIn("caught by its base: target: target 'sm_1'", said)
            self.assertIn("caught: graph", said)


if __name__ == "__main__":
    skips.main()
