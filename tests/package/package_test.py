"""Protects the installed tree: it works after it was moved, for CMake and pkg-config users, in C and C++, needs no
library that is not on every Linux, contains no path of the machine that built it, and stays small.

Installs what is built into a temporary folder; nothing is left behind.
"""
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from installed import BUILD, REPO, Installed, cached, elf_files, run, skips, version  # noqa: E402

MAX_BYTES = 40 * 1000 * 1000
SONAME = "libtilejit.so.0.2"  # of 0.2.0 and every later 0.<minor>: programs that were built against one of them load the next
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0",
                    "librt.so.1", "ld-linux-x86-64.so.2"}


class Package(Installed):
    def test_tree_is_complete(self):
        for name in ("include/tilejit/tilejit.hpp", "include/tilejit/tilejit.h", "include/tilejit/custom.hpp", "include/tilejit/graph.hpp", "lib/libtilejit.so", f"lib/{SONAME}", f"lib/libtilejit.so.{version()}",
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
            needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text)) - {SONAME}
            self.assertLessEqual(needed, SYSTEM_LIBRARIES, path)
            for runpath in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", text):
                self.assertTrue(all(part.startswith("$ORIGIN") for part in runpath.split(":")), f"{path}: {runpath}")

    def test_exports_only_the_public_names(self):
        names = [line.split(maxsplit=2)[2] for line in
                 run("nm", "-DC", "--defined-only", self.prefix / "lib" / SONAME).splitlines()]
        allowed = re.compile(r"tj_\w+$|__tvm_ffi_[a-z]\w*$|(typeinfo for |typeinfo name for |vtable for )?tj::"
                             r"(?!(support|arch|graph|ops|sched|codegen|compile|ffi|launch|cache)::)")
        self.assertTrue(any(name.startswith("tj::Runtime::run(") for name in names))
        self.assertTrue(any(name == "tj_run" for name in names))
        self.assertEqual([], [n for n in names if not allowed.match(n)])

    def test_soname(self):
        self.assertIn(f"soname: [{SONAME}]", run("readelf", "-dW", self.prefix / "lib" / SONAME))

    def test_versions_that_are_found(self):
        """A program that asks for the version of the last break, or a later one up to this, gets this; one that asks for an older one, or a newer one, does not."""
        script = self.work / "find.cmake"
        script.write_text('foreach(part MAJOR MINOR PATCH)\nset(PACKAGE_FIND_VERSION_${part} 0)\nendforeach()\n'
                          'if(PACKAGE_FIND_VERSION MATCHES "^([0-9]+)")\nset(PACKAGE_FIND_VERSION_MAJOR ${CMAKE_MATCH_1})\nendif()\n'
                          'set(CMAKE_SIZEOF_VOID_P 8)\ninclude("${FILE}")\nmessage("found: ${PACKAGE_VERSION_COMPATIBLE}, not for this: ${PACKAGE_VERSION_UNSUITABLE}")\n')
        file = self.prefix / "lib/cmake/tilejit/tilejitConfigVersion.cmake"
        for asked, found in (("", True), ("0.2", True), (version(), True), ("0.1", False), ("0.99", False), ("1.0", False)):
            said = run("cmake", f"-DPACKAGE_FIND_VERSION={asked}", f"-DFILE={file}", "-P", script)
            self.assertEqual(found, "found: TRUE, not for this: \n" in said, f"{asked}: {said}")

    def test_a_program_in_cxx_is_compiled_again(self):
        """Classes may have grown where only sources are stable: a program of another minor version's headers and this library do not go together, and the
        loader says so."""
        name = "compiled_with_tilejit_" + "_".join(version().split(".")[:2])
        header = (self.prefix / "include/tilejit/version.hpp").read_text()
        self.assertIn(name, header)
        for other, runs in ((name, True), ("compiled_with_tilejit_0_1", False)):
            folder = self.work / other
            include = folder / "tilejit"
            include.mkdir(parents=True)
            (include / "version.hpp").write_text(header.replace(name, other))
            shutil.copy(self.prefix / "include/tilejit/export.hpp", include)
            (folder / "library.cpp").write_text(f"#include <tilejit/version.hpp>\nconst char tj::detail::{other} = 0;\n")
            (folder / "main.cpp").write_text("#include <tilejit/version.hpp>\nint main() {}\n")
            compile_ = [cached("CMAKE_CXX_COMPILER"), "-std=c++20", "-O2", "-I", folder]
            run(*compile_, "-shared", "-fPIC", folder / "library.cpp", f"-Wl,-soname,{SONAME}", "-o", folder / SONAME)
            run(*compile_, folder / "main.cpp", "-Wl,--no-as-needed", folder / SONAME, "-o", folder / "program")
            done = subprocess.run([folder / "program"], env=dict(self.clean, LD_LIBRARY_PATH=str(self.prefix / "lib")), capture_output=True, text=True)
            self.assertEqual(runs, done.returncode == 0, done.stderr)
            if not runs:
                self.assertRegex(done.stderr, f"undefined symbol: .*{other}")

    def test_find_package(self):
        build = self.work / "cmake"
        run("cmake", "-S", REPO / "tests/package/consumer", "-B", build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={cached('CMAKE_CXX_COMPILER')}",
            f"-DSAMPLES={self.docs / 'samples'}", env=self.clean)
        run("cmake", "--build", build, env=self.clean)
        self.assertIn("as expected", run(build / "consumer", env=self.clean))
        self.assertIn("as expected", run(build / "consumer_c", env=self.clean))
        graphs = run(build / "graphs", "--output-dir", self.work / "schedules", env=self.clean)
        for interval in ("simplified_fa on hopper", "II 4 (proven); units allow 4, recurrences 2", "fa_blackwell on blackwell", "simple_gemm on hopper"):
            self.assertIn(interval, graphs)
        self.assertEqual(6, len(list((self.work / "schedules").glob("*.svg"))))
        self.assertIn("II 4 (proven), length 9 (proven)", run(build / "graphs_c", 1, 2, 2, self.work / "c.svg", env=self.clean))
        self.assertEqual((self.work / "schedules" / "fa_hopper.svg").read_text(), (self.work / "c.svg").read_text())

    def test_pkg_config(self):
        env = dict(self.clean, PKG_CONFIG_PATH=str(self.prefix / "lib/pkgconfig"))
        # pkg-config escapes the space of the folder's name for a shell.
        source, program = REPO / "tests/package/consumer/main.cpp", self.work / "by_pkg_config"
        run("bash", "-c", f"eval {cached('CMAKE_CXX_COMPILER')} -std=c++20 '{source}' -o '{program}' "
            "$(pkg-config --cflags --libs tilejit)", env=env)
        self.assertEqual(version(), run("pkg-config", "--modversion", "tilejit", env=env).strip())
        self.assertIn("as expected", run(program, env=dict(env, LD_LIBRARY_PATH=str(self.prefix / "lib"))))
        source, program = REPO / "tests/package/consumer/main.c", self.work / "by_pkg_config_c"
        run("bash", "-c", f"eval cc -std=c99 '{source}' -o '{program}' $(pkg-config --cflags --libs tilejit)", env=env)
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
