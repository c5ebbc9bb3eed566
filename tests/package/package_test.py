"""Protects the installed tree: it works after it was moved, for CMake and pkg-config users, in C and C++, needs no
library that is not on every Linux, contains no path of the machine that built it, and stays small.

Installs what is built into a temporary folder; nothing is left behind.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPO = Path(os.environ["TJ_TEST_REPO_DIR"])
sys.path.insert(0, str(REPO / "tests" / "support"))
import skips  # noqa: E402

BUILD = Path(os.environ["TJ_TEST_BUILD_DIR"])
MAX_BYTES = 40 * 1000 * 1000
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0",
                    "librt.so.1", "ld-linux-x86-64.so.2"}


def run(*command, **settings):
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **settings)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stdout}")
    return done.stdout


def cached(name):
    found = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return found.group(1) if found else ""


def elf_files(folder):
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            yield path


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tilejit_package_")
        cls.work = Path(cls.folder.name)
        first = cls.work / "installed_here"
        for component in ("library", "tools", "samples"):
            run("cmake", "--install", BUILD, "--prefix", first, "--component", component)
        cls.prefix = cls.work / "moved" / "some where else"
        cls.prefix.parent.mkdir()
        shutil.move(first, cls.prefix)
        cls.clean = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "TJ_TARGET")}
        cls.clean["TJ_CACHE_DIR"] = str(cls.work / "cache")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_tree_is_complete(self):
        for name in ("include/tilejit/tilejit.hpp", "include/tilejit/tilejit.h", "include/tilejit/custom.hpp", "lib/libtilejit.so", "lib/libtilejit.so.0",
                     "lib/cmake/tilejit/tilejitConfig.cmake", "lib/cmake/tilejit/tilejitConfigVersion.cmake",
                     "lib/pkgconfig/tilejit.pc", "share/doc/tilejit/LICENSE", "share/tilejit/samples/05_custom_gemm/gemm_gelu.json"):
            self.assertTrue((self.prefix / name).exists(), name)

    def test_size(self):
        if cached("CMAKE_BUILD_TYPE") != "Release":
            self.skipTest("only a release build is stripped")
        total = sum(p.stat().st_size for p in self.prefix.rglob("*") if p.is_file() and not p.is_symlink())
        self.assertLess(total, MAX_BYTES)
        for path in elf_files(self.prefix):
            self.assertNotIn(".symtab", run("readelf", "-SW", path), path)

    def test_no_path_of_this_machine(self):
        if cached("CMAKE_BUILD_TYPE") != "Release":
            self.skipTest("debug information names the sources")
        needles = [str(place).encode() for place in (REPO, BUILD, self.work)]
        for path in (p for p in self.prefix.rglob("*") if p.is_file()):
            for needle in needles:
                self.assertNotIn(needle, path.read_bytes(), f"{path.relative_to(self.prefix)} contains {needle}")

    def test_needs_only_system_libraries(self):
        for path in elf_files(self.prefix):
            text = run("readelf", "-dW", path)
            needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text)) - {"libtilejit.so.0"}
            self.assertLessEqual(needed, SYSTEM_LIBRARIES, path)
            for runpath in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", text):
                self.assertTrue(all(part.startswith("$ORIGIN") for part in runpath.split(":")), f"{path}: {runpath}")

    def test_exports_only_the_public_names(self):
        names = [line.split(maxsplit=2)[2] for line in
                 run("nm", "-DC", "--defined-only", self.prefix / "lib/libtilejit.so.0").splitlines()]
        allowed = re.compile(r"tj_\w+$|(typeinfo for |typeinfo name for |vtable for )?tj::"
                             r"(?!(support|arch|graph|ops|sched|codegen|compile|launch|cache)::)")
        self.assertTrue(any(name.startswith("tj::Runtime::fmha(") for name in names))
        self.assertTrue(any(name == "tj_fmha" for name in names))
        self.assertEqual([], [n for n in names if not allowed.match(n)])

    def test_find_package(self):
        build = self.work / "cmake"
        run("cmake", "-S", REPO / "tests/package/consumer", "-B", build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={cached('CMAKE_CXX_COMPILER')}", env=self.clean)
        run("cmake", "--build", build, env=self.clean)
        self.assertIn("as expected", run(build / "consumer", env=self.clean))
        run(build / "consumer_c", env=self.clean)

    def test_pkg_config(self):
        env = dict(self.clean, PKG_CONFIG_PATH=str(self.prefix / "lib/pkgconfig"))
        # pkg-config escapes the space of the folder's name for a shell.
        source, program = REPO / "tests/package/consumer/main.cpp", self.work / "by_pkg_config"
        run("bash", "-c", f"eval {cached('CMAKE_CXX_COMPILER')} -std=c++20 '{source}' -o '{program}' "
            "$(pkg-config --cflags --libs tilejit)", env=env)
        self.assertEqual("0.1.0", run("pkg-config", "--modversion", "tilejit", env=env).strip())
        self.assertIn("as expected", run(program, env=dict(env, LD_LIBRARY_PATH=str(self.prefix / "lib"))))

    def test_programs_start(self):
        programs = sorted((self.prefix / "bin").iterdir())
        self.assertTrue(programs)
        for program in programs:
            if program.name.startswith("tj-"):
                run(program, "--help", env=self.clean)
            self.assertNotIn("not found", run("ldd", program, env=self.clean))


if __name__ == "__main__":
    skips.main()
