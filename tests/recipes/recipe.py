"""Adds files to a copy of the project the way a user would, builds only what changed, and tells what was touched.

A recipe's folder mirrors the project: its files are new ones. What it changes in existing files is said by the test, line
by line, so that a recipe that grows is seen. Linked are the new objects before the archives of the build under test.
"""
import difflib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = Path(os.environ.get("TJ_TEST_REPO_DIR", HERE.parents[1]))
sys.path.insert(0, str(REPO / ".cmake"))
from group_sources import groups_of  # noqa: E402
BUILD = Path(os.environ.get("TJ_TEST_BUILD_DIR", REPO / "build" / "release"))
COPIED = ["include", "src", "cache", "kernel_templates"]
SKIPPED = 77


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def run(command, **settings):
    command = [str(part) for part in command]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **settings)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(command)} exited with {done.returncode}:\n{done.stdout}")
    return done.stdout


def cached(name):
    found = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return found.group(1) if found else ""


class Recipe:
    def __init__(self, name):
        for archive in ("tilejit_core", "tilejit_cache", "tilejit_support", "tj_test_main", "tj_sample_common"):
            if not (BUILD / "lib" / f"lib{archive}.a").is_file():
                skip(f"the build has no lib{archive}.a; build everything first")
        self.source = HERE / name
        self.folder = tempfile.TemporaryDirectory(prefix="tilejit_recipe_")
        self.copy = Path(self.folder.name)
        for part in COPIED:
            shutil.copytree(REPO / part, self.copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        # The copy has the build's id and other texts: in the cache of other tests its requests would lead to their kernels.
        os.environ["TJ_CACHE_DIR"] = str(self.copy / "kernels")
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        self.commands = {Path(entry["file"]): shlex.split(entry["command"]) for entry in commands}
        self.objects = []

    def close(self):
        self.folder.cleanup()

    # ---- what a user does -------------------------------------------------------------------------------------------
    def add_files(self, *folders, replaces=()):
        """Copies the recipe's files below these folders; but for `replaces`, none may be in the project. Returns their names."""
        names = []
        for folder in folders:
            for path in sorted((self.source / folder).rglob("*")):
                if not path.is_file():
                    continue
                name = path.relative_to(self.source)
                if (REPO / name).exists() and str(name) not in replaces:
                    raise AssertionError(f"{name} is in the project already: a recipe only adds files")
                (self.copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, self.copy / name)
                names.append(str(name))
        return names

    def insert(self, name, before, text):
        """Puts text in front of the line that matches; the last such line counts."""
        path = self.copy / name
        lines = path.read_text().splitlines(keepends=True)
        places = [i for i, line in enumerate(lines) if re.search(before, line)]
        if not places:
            raise AssertionError(f"{name} has no line {before!r}")
        lines[places[-1]:places[-1]] = [text if text.endswith("\n") else text + "\n"]
        path.write_text("".join(lines))

    def replace(self, name, text, by):
        """Puts other text in the place of one that stands once."""
        path = self.copy / name
        old = path.read_text()
        if old.count(text) != 1:
            raise AssertionError(f"{name} has {old.count(text)} times {text!r}")
        path.write_text(old.replace(text, by))

    def changed(self):
        """Existing files that differ from the project's: name -> (lines added, lines removed)."""
        result = {}
        for part in COPIED:
            for path in sorted((REPO / part).rglob("*")):
                name = path.relative_to(REPO)
                if not path.is_file() or "__pycache__" in path.parts or path.read_bytes() == (self.copy / name).read_bytes():
                    continue
                lines = list(difflib.ndiff(path.read_text().splitlines(), (self.copy / name).read_text().splitlines()))
                result[str(name)] = (sum(l.startswith("+ ") for l in lines), sum(l.startswith("- ") for l in lines))
        return result

    # ---- what the build does ----------------------------------------------------------------------------------------
    def command_of(self, like):
        """The build's compiler and flags for one of its sources, with the project's folders replaced by the copy's."""
        command = self.commands[like]
        flags, at = [], 0
        while at < len(command):
            if command[at] in ("-o", "-c"):
                at += 2
                continue
            part = command[at]
            for folder in ("", "/include", "/src", "/kernel_templates"):
                if part == f"-I{REPO}{folder}":
                    part = f"-I{self.copy}{folder}"
            flags.append(part)
            at += 1
        return flags + ["-Werror"]

    def compile_all(self, folder):
        """The sources of a folder of the copy, as many as one as go together: headers take most of the time."""
        for number, paths in enumerate(groups_of(sorted((self.copy / folder).glob("*.cpp")))):
            name = f"{folder}/together_{number}.cpp"
            (self.copy / name).write_text("".join(f'#include "{path}"\n' for path in paths))
            self.compile(name)

    def compile(self, name, like=None):
        """One source of the copy, with the flags of `like` (default: of a registry); not optimised, as it runs for milliseconds."""
        source = self.copy / name
        output = self.copy / "objects" / (name.replace("/", "_") + ".o")
        output.parent.mkdir(exist_ok=True)
        run(self.command_of(like or REPO / "src/ops/registry.cpp") + ["-O0", "-c", source, "-o", output])
        self.objects.append(output)

    def compile_test(self, name, **definitions):
        """A test of the copy, or with its whole path one of the project's helpers, with the flags of one that may use everything."""
        flags = self.command_of(REPO / "tests/main.cpp")
        output = self.copy / "objects" / f"tests_{Path(name).parent.name}_{Path(name).name}.o"
        output.parent.mkdir(exist_ok=True)
        run(flags + [f'-D{key}="{value}"' for key, value in definitions.items()] + ["-c", self.copy / name, "-o", output])
        self.objects.append(output)

    def embed_templates(self):
        """The generated source of the templates, made by the build's own script."""
        names = sorted(str(path.relative_to(self.copy / "kernel_templates")) for path in (self.copy / "kernel_templates").rglob("*")
                       if path.suffix in (".cuh", ".h", ".hpp"))
        run(["cmake", f"-DROOT={self.copy / 'kernel_templates'}", f"-DFILES={';'.join(names)}", f"-DOUTPUT={self.copy / 'templates.cpp'}",
             "-P", REPO / ".cmake" / "EmbedTemplates.cmake"])
        self.compile("templates.cpp")

    def link(self, output="program", objects=None, parts=("tj_test_main", "tj_sample_common")):
        archives = [BUILD / "lib" / f"lib{part}.a" for part in (*parts, "tilejit_core", "tilejit_cache", "tilejit_support")]
        program = self.copy / output
        linker = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []
        run([cached("CMAKE_CXX_COMPILER"), *linker, *(objects or self.objects), *archives, cached("tj_boost_context_ARCHIVE"), cached("tj_crypto_ARCHIVE"), cached("tj_sodium_ARCHIVE"), "-pthread", "-ldl", "-o", program])
        return program

    def link_tool(self, tool):
        """A tool of the project with what the recipe adds; None where the build has no tools."""
        if not (BUILD / "lib" / "libtj_tools.a").is_file():
            return None
        added = [path for path in self.objects if not path.name.startswith("tests_")]
        self.compile(f"src/tools/{tool}_main.cpp")
        return self.link(tool, added + self.objects[-1:], ("tj_tools",))
