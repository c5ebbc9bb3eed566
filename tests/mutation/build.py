"""A build folder seen from outside: what is compiled into what, and the same with a mutated source.

Decides how one object is compiled and one program linked for a mutant, from the commands of the build itself. Does not write into that folder
or the source tree. Invariant: what it links differs from the build's own file only by objects of the mutated source.
"""
import json
import shlex
import shutil
import subprocess
import threading
from pathlib import Path

COMPILE_LIMIT_S = 600


def run(command, folder, limit_s=COMPILE_LIMIT_S):
    """(status, output); a status of None where it took too long."""
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit_s)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        return None, f"took more than {limit_s} s"


class Build:
    def __init__(self, root, folder):
        self.root, self.folder = Path(root).resolve(), Path(folder).resolve()
        listed = self.folder / "compile_commands.json"
        if not listed.is_file() or not (self.folder / "build.ninja").is_file():
            raise SystemExit(f"error: {folder} is no build folder of Ninja; make one: cmake --preset release && cmake --build build/release")
        self.commands, self.objects_of_source = {}, {}
        for entry in json.loads(listed.read_text()):
            words = shlex.split(entry["command"]) if "command" in entry else list(entry["arguments"])
            made = words[words.index("-o") + 1]
            self.commands[made] = (words, Path(entry["file"]))
            self.objects_of_source.setdefault(Path(entry["file"]).resolve(), []).append(made)
        self.lld = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []
        self._links, self._inputs, self._readers = {}, {}, None
        self._lock, self._reading = threading.Lock(), threading.Lock()

    def ninja(self, *words):
        status, output = run(["ninja", *words], self.folder)
        if status != 0:
            raise SystemExit(f"error: ninja {' '.join(words)[:200]}: {output[-2000:]}")
        return output

    def make(self, targets, jobs):
        """Brings these files of the build folder up to date."""
        done = subprocess.run(["ninja", "-C", str(self.folder), f"-j{jobs}", *targets], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise SystemExit(f"error: {self.folder} does not build:\n{done.stdout[-4000:]}")

    # --- what goes into what -----------------------------------------------------------------------------------------

    def link_command(self, target):
        """The words that link a file of the build folder, None where nothing does."""
        with self._lock:
            if target not in self._links:
                lines = self.ninja("-t", "commands", "-s", target).strip().splitlines()
                parts = [shlex.split(part.replace("\\$", "$")) for part in (lines[-1] if lines else "").split(" && ")]
                self._links[target] = next((words for words in parts if "-o" in words and words[words.index("-o") + 1] == target), None)
            return self._links[target]

    def objects(self, target):
        """Every object in a linked file, those of its archives included."""
        words = self.link_command(target) or []
        found = [word for word in words if word.endswith(".o")]
        for archive in (word for word in words if word.endswith(".a") and not word.startswith("/")):
            found += self.members(archive)
        return found

    def members(self, archive):
        with self._lock:
            if archive not in self._inputs:
                words = self.ninja("-t", "commands", "-s", archive).split()
                self._inputs[archive] = [word for word in words if word.endswith(".o")]
            return self._inputs[archive]

    def objects_reading(self, path):
        """Objects of a source; for a header, and for a source that is compiled with others, those of all that include it."""
        own = self.objects_of_source.get((self.root / path).resolve())
        if own:
            return own
        with self._reading:  # several mutants ask at once, and a part of the list would be taken for the whole
            if self._readers is None:
                self._readers = self._read_readers()
        return self._readers.get((self.root / path).resolve(), [])

    def _read_readers(self):
        readers, made = {}, ""
        for line in self.ninja("-t", "deps").splitlines():
            if line and not line.startswith(" "):
                made = line.split(":")[0]
            elif line.strip():
                readers.setdefault((self.folder / line.strip()).resolve(), []).append(made)
        return readers

    # --- with a mutant -----------------------------------------------------------------------------------------------

    def compile(self, made, path, tree, output, extra=("-O1", "-w")):
        """Compiles an object again with the file at path taken from tree. "" or why it does not compile."""
        words, source = self.commands[made]
        words = list(words)
        precompiled = any(word.endswith((".hxx", ".pch")) for word in words)
        mutated = (self.root / path).resolve()
        if source.resolve() == mutated:
            words[words.index("-c") + 1] = str(tree / path)
            extra = (*extra, "-iquote", str(source.parent))
        elif f'"{mutated}"' in source.read_text():  # several sources in one, which names them by their whole paths
            several = tree / f"several_{source.name}"
            several.write_text(source.read_text().replace(f'"{mutated}"', f'"{tree / path}"'))
            words[words.index("-c") + 1] = str(several)
            extra = (*extra, "-iquote", str(mutated.parent))
        words[words.index("-o") + 1] = str(output)
        first = [f"-I{tree / folder}" for folder in ("include", "src", ".", "kernel_templates")]
        if precompiled:
            extra = [word for word in extra if not word.startswith("-O")]  # what is precompiled goes with its own options alone
        read = output.with_suffix(".d")
        status, text = run([words[0], *(words[1:2] if words[0].endswith("ccache") else []), *first, *words[(2 if words[0].endswith("ccache") else 1):],
                            *extra, "-MMD", "-MF", str(read)], self.folder)
        if status != 0:
            return text or "does not compile"
        if str(tree / path) not in read.read_text():
            return f"{source} reads another {path} than the mutated one"
        return ""

    def link(self, target, objects, output):
        """Links a file again with other objects, {of the build: other}. "" or why it does not link."""
        words = list(self.link_command(target))
        words[words.index("-o") + 1] = str(output)
        direct = {word for word in words if word in objects}
        words = [str(objects.get(word, word)) for word in words]
        # An archive's member is not taken where an object in front of it has all that it defines.
        added = [str(other) for made, other in objects.items() if made not in direct]
        at = next(i for i, word in enumerate(words) if word.endswith((".o", ".a")))
        status, text = run([*words[:at], *added, *words[at:], *self.lld], self.folder)
        return "" if status == 0 else text or "does not link"
