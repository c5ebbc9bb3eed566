"""Protects what an installed tree has besides programs: a man page for each tool, each document that a header, a help text or an error
names, the samples as a project that builds, and the licence of each library that is compiled or linked in.
"""
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from installed import BUILD, REPO, Installed, cached, run, skips, version  # noqa: E402

DOCUMENT = re.compile(r"(?<![\w./-])((?:[\w-]+/)*[\w-]+\.md)\b")
PLACE = re.compile(r"(?<![\w./$~-])((?:src|samples|kernel_templates|tests|cache)/[\w./-]*\w)")  # in words that a user reads
REQUESTS = {".TH", ".SH", ".TP", ".B", ".I", ".PP", ".br", ".nh", ".ad"}
# The first folder of a header, or an archive, and the licence that goes with it. Others that are not the compiler's own fail the test.
LIBRARIES = {"fmt": "fmt", "spdlog": "spdlog", "nlohmann": "nlohmann-json", "boost": "boost-context", "libboost_context.a": "boost-context",
             "openssl": "openssl", "libcrypto.a": "openssl", "CLI": "cli11", "sodium": "libsodium", "libsodium.a": "libsodium"}
# Symbols of frameworks, where the build has found their headers.
LIBRARIES.update({"tvm": "tvm-ffi", "dlpack": "dlpack"} if cached("TJ_TVM_FFI_INCLUDE_DIR").startswith("/") else {})
LIBRARIES.update({"nvtx3": "nvtx"} if cached("TJ_NVTX_INCLUDE_DIR").startswith("/") else {})
LIBRARIES.update({"xla": "xla"} if cached("TJ_XLA_INCLUDE_DIR").startswith("/") else {})
OF_THE_SYSTEM = {"c++", "bits", "sys", "gnu", "asm", "asm-generic", "linux"}  # and files of /usr/include itself
OF_TESTS = {"doctest", "z3", "libz3.so"}
DECLARED_ALONE = {"cuda.h", "cudaTypedefs.h", "nvrtc.h", "cuda_runtime_api.h"}  # no code of theirs ends up in the library


def long_flags(text):
    return set(re.findall(r"--[a-z][a-z-]+", text))


class Contents(Installed):
    def tools(self):
        return sorted(p for p in (self.prefix / "bin").iterdir() if p.name.startswith("tj-"))

    def helps(self, tool):
        """The help texts of a tool: its own, and those of the modes that it names."""
        own = run(tool, "--help", env=self.clean)
        return [own] + [run(tool, mode, "--help", env=self.clean) for mode in re.findall(r"(--[a-z-]+) --help has its options", own)]

    def test_man_pages(self):
        self.assertTrue(self.tools())
        for tool in self.tools():
            page = (self.prefix / "share/man/man1" / f"{tool.name}.1").read_text()
            self.assertIn(version(), page)
            for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", '"EXIT STATUS"', "FILES", '"SEE ALSO"'):
                self.assertIn(f"\n.SH {section}\n", page, tool.name)
            for line in page.splitlines():
                if line.startswith((".", "'")) and not line.startswith('.\\"'):
                    self.assertIn(line.split()[0], REQUESTS, f"{tool.name}: {line}")
            said = page.replace("\\-", "-")
            for text in self.helps(tool):
                self.assertLessEqual(long_flags(text), long_flags(said), tool.name)

    def test_man_pages_as_shown(self):
        if not shutil.which("man"):
            return  # their requests are checked above
        for tool in self.tools():
            page = self.prefix / "share/man/man1" / f"{tool.name}.1"
            done = subprocess.run(["man", "--warnings", "-l", page], env=dict(self.clean, LC_ALL="C.UTF-8", MANWIDTH="80"), capture_output=True, text=True)
            self.assertEqual((0, ""), (done.returncode, done.stderr), tool.name)
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)

    def test_named_documents(self):
        texts = {p.name: p.read_text() for p in (self.prefix / "include").rglob("*.h*")}
        texts.update({p.name: p.read_text() for p in (self.prefix / "share/man").rglob("*.1")})
        for path in [self.prefix / "lib" / f"libtilejit.so.{version()}", *self.tools()]:  # errors, too
            texts[path.name] = "\n".join(re.findall(r"[ -~]{6,}", path.read_bytes().decode("latin-1")))
        named = {(name, document) for name, text in texts.items() for document in DOCUMENT.findall(text)}
        named |= {(name, place) for name, text in texts.items() if name.endswith((".h", ".hpp", ".1")) for place in PLACE.findall(text)}
        self.assertLessEqual({"src/graph/README.md", "src/arch/README.md", "kernel_templates/README.md"}, {document for _, document in named})
        missing = sorted((name, document) for name, document in named if not (self.docs / document).exists())
        self.assertEqual([], missing)

    def test_help_leads_to_documents(self):
        text = run(self.prefix / "bin/tj-schedule", "--help", env=self.clean)
        self.assertIn(str(self.docs / "src/graph/README.md"), text)
        done = subprocess.run([self.prefix / "bin/tj-bench", "--compile", "--op", "chunk_states", "--target", "gfx1100"], env=self.clean, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(self.docs / "src/arch/README.md"), done.stderr)

    def test_documents_lead_to_each_other(self):
        documents = sorted(self.docs.rglob("*.md"))
        self.assertIn(self.docs / "README.md", documents)
        for document in documents:
            for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text()):
                if link.endswith(".md") and "://" not in link:
                    self.assertTrue((document.parent / link).is_file(), f"{document.relative_to(self.docs)}: {link}")

    def test_samples_build(self):
        sources, build = self.docs / "samples", self.work / "samples"
        for sample in sources.glob("*/main.cpp"):
            self.assertTrue((REPO / "samples" / sample.relative_to(sources)).is_file())
        run("cmake", "-S", sources, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Debug",
            f"-DCMAKE_CXX_COMPILER={cached('CMAKE_CXX_COMPILER')}", env=self.clean)
        programs = {p.parent.name for p in (REPO / "samples").glob("*/main.cpp")}
        programs |= {f"{p.parent.name}_{p.stem}" for p in (REPO / "samples").glob("*/*.c")}
        listed = set(run("ninja", "-C", build, "-t", "targets", "all").split())
        self.assertLessEqual({f"samples/{name}:" for name in programs}, listed)
        run("ninja", "-C", build, "all" if os.environ.get("TJ_TEST_FULL") else "00_hello", env=self.clean)  # all take a minute
        self.assertIn("0x3c00", run(build / "samples/00_hello", env=dict(self.clean, TJ_TARGET="model:sm_90a")))

    def test_licences(self):
        installed = {p.name for p in (self.docs / "licences").iterdir()}
        self.assertTrue((self.docs / "LICENSE").is_file())
        for name in installed:
            self.assertRegex((self.docs / "licences" / name).read_text(), r"(?i)copyright", name)
            self.assertRegex((self.docs / "licences" / name).read_text(), r"(?i)permission is hereby granted|redistribution and use|apache license\s+version 2", name)
        self.assertEqual(installed, set(LIBRARIES.values()))

    @unittest.skipUnless((BUILD / "build.ninja").is_file(), "libraries are listed by ninja")
    def test_each_library_has_a_licence(self):
        shipped = [f"lib/libtilejit.so.{version()}"] + [f"bin/{tool.name}" for tool in self.tools()]
        inputs = run("ninja", "-C", BUILD, "-t", "inputs", *shipped).split("\n")
        objects = {name for name in inputs if name.endswith(".o")}
        used = {Path(name).name for name in inputs if name.endswith(".a") and name.startswith("/")}
        current = None
        for line in run("ninja", "-C", BUILD, "-t", "deps").splitlines():
            if line and not line.startswith(" "):
                current = line.split(":")[0]
            elif current in objects and line.strip().startswith("/"):
                header = Path(line.strip())
                if not header.is_relative_to(REPO) or "/.deps/" in line:
                    used.add(self.owner(header))
        used -= {None}
        self.assertLessEqual({"spdlog", "nlohmann", "boost", "openssl", "CLI", "libcrypto.a"}, used)
        self.assertEqual(set(), used - set(LIBRARIES), "no licence is known for these")

    @staticmethod
    def owner(header):
        """The library that a header belongs to; None for the compiler's, the system's and those that only declare."""
        text = str(header)
        if header.name in DECLARED_ALONE or "/gcc/" in text or "/clang/" in text or "/c++/" in text:
            return None
        inside = re.sub(r"^.*?/include/(?:[a-z0-9_]+-linux-gnu/)?", "", text)
        first = inside.split("/")[0]
        return None if first == inside or first in OF_THE_SYSTEM | OF_TESTS else first


if __name__ == "__main__":
    skips.main()
