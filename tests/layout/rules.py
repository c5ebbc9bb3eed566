"""The layout's rules as data and checks: which folder may include what, and which words belong where.

Decides nothing that the design does not say. Each check yields "path:line: what is wrong", so that a failing test reads like a compiler's
message. Texts are read without comments unless a rule is about every word of a file. variables.py has the rule of the environment's variables.
"""
import functools
import re
from pathlib import Path
from variables import check_variables

# Arrows between folders: who may include what, besides itself, the public headers and the standard library.
# "" is src/*.cpp and src/*.hpp themselves: the runtime, which puts the parts together.
ARROWS = {
    "support": set(),
    "arch": {"support"},
    "graph": {"support"},
    "ops": {"support", "arch", "graph", "templates"},
    "sched": {"support", "arch", "graph"},
    "codegen": {"support", "graph", "sched"},
    "compile": {"support"},
    "launch": {"support"},
    "model": {"support", "launch", "templates"},
    "cache": {"support"},
    "custom": {"support", "graph", "ops", "sched", "codegen"},
    "tuning": {"support", "arch", "ops", "launch", "cache"},
    "": {"support", "arch", "graph", "ops", "sched", "codegen", "compile", "launch", "model", "cache", "custom", "tuning"},
    "dist": {"support", "arch", "ops", "launch", ""}, "api": {"support", "ops", "", "dist"}, "ffi": {"support", "ops", "", "api"},
    "check": {"support", "arch", "graph", "ops", "sched", "codegen", "compile", "launch", "model", "cache", "tuning", ""},
    "tools": {"support", "arch", "graph", "ops", "sched", "codegen", "compile", "launch", "model", "cache", "tuning", "", "check", "templates"},
}

# Arrows between the parts of a folder: what else of the folder each may include. "" is the folder's own files.
PARTS = {
    "sched": {"modulo": {""}, "joint": {"", "modulo"}, "picture": {""}, "tile": {""}},
    "launch": {"cuda": {""}, "hip": {""}},
}

# Files of kernel_templates for host code: launch parameters; the agreement of a unit of the model with the library.
HOST_VIEW = {"ops": ("/params.cuh", "types.cuh"), "model": ("model/abi.h",), "tools": ("calibrate/params.cuh",)}

# Third-party headers and the only folders that may know them.
THIRD_PARTY = {
    r"(spdlog|fmt|openssl|sodium)/.*": {"support"},
    r"CLI/.*": {"tools"},
    r"cuda.*\.h": {"launch"},
    r"nvrtc\.h": {"compile"},
    r"hip/.*": {"compile", "launch"},
    r"boost/.*": {"model"},
    r"(tvm|dlpack|xla)/.*": {"ffi"},
    r"nlohmann/.*": {"support"},  # whose json.hpp has trees that can be dropped while memory is out
}

TOP_FOLDERS = {"include", "src", "cache", "kernel_templates", "tests", "samples"}
OWN_FOLDERS = ["include", "src", "cache", "kernel_templates", "tests", "samples", ".cmake", ".ci"]
SUFFIXES = {".cpp", ".hpp", ".h", ".cuh", ".py", ".sh", ".cmake", ".c"}
LOCALES = r"\bstd::([io]?stringstream|to(upper|lower)|is(alnum|alpha|digit|graph|print|space)|strto[df]|sto[df])\b"
MADE = {".whl", ".zip", ".gz", ".tgz", ".xz", ".so", ".a", ".o", ".cubin", ".hsaco", ".ptx"}
MAX_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_TEMPLATE_PARAMETERS = 4

# Names that the kernel contract gives to every op's templates; codegen writes them.
CONTRACT = {"begin", "complete_tile", "fast_begin", "first_tile", "next_tile", "tile_at", "tile_count"}
HARDWARE = (r"(?<![A-Za-z0-9])(sm_?\d{2,3}[af]?|gfx\d+\w*|compute_\d+|hopper|blackwell|ampere|rdna\d?|cdna\d?|"
            r"w?gmma|wmma|mfma|mma|tcgen\d*|tma|ldmatrix|setmaxnreg)(?![a-z0-9])")


@functools.lru_cache(maxsize=None)  # the self-test looks at the same files many times
def strip(text, strings=False):
    """Blanks comments (and the inside of string literals), keeping every line where it is."""
    def blank(match):
        found = match.group(0)
        if found.startswith(("/*", "//")):
            return re.sub(r"[^\n]", " ", found)
        return '""' + "\n" * found.count("\n") if strings else found
    return re.sub(r'R"(\w*)\([\s\S]*?\)\1"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*[\s\S]*?\*/', blank, text)


def files(root, folder, suffixes=frozenset({".cpp", ".hpp", ".h", ".cuh"})):
    return sorted(p for p in (root / folder).rglob("*") if p.is_file() and p.suffix in suffixes)


@functools.lru_cache(maxsize=None)
def places(text, pattern):
    """(line, what matches) of each match within one line."""
    return [(number, match.group(0).strip()) for number, line in enumerate(text.split("\n"), 1) for match in re.finditer(pattern, line)]


def find(root, path, text, pattern, message):
    for number, found in places(text, pattern):
        yield f"{path.relative_to(root)}:{number}: {message.format(found)}"


@functools.lru_cache(maxsize=None)
def includes(text):
    """(line, quote or bracket, what is included) of each include."""
    matches = ((number, re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line))
               for number, line in enumerate(strip(text).split("\n"), 1))
    return [(number, match.group(1), match.group(2)) for number, match in matches if match]


def folder_of(root, path):
    parts = path.relative_to(root).parts
    if parts[0] == "src":
        return parts[1] if len(parts) > 2 else ""
    return parts[0]


def target_of(root, name):
    """The folder that an include names, None when it is neither ours nor known."""
    first = name.split("/")[0]
    if name.startswith("tilejit/"):
        return "public"
    if name.startswith("samples/") or name.startswith("tests/"):
        return first
    if (root / "src" / name).is_file():
        return first if "/" in name else ""
    if (root / name).is_file():
        return "templates" if first == "kernel_templates" else first
    if (root / "kernel_templates" / name).is_file():
        return "templates"
    return None


def check_arrows(root):
    """src/, cache/ and the public headers: only the arrows of the design."""
    for path in files(root, "src") + files(root, "cache") + files(root, "include"):
        folder = folder_of(root, path)
        place = path.relative_to(root)
        for number, kind, name in includes(path.read_text()):
            target = target_of(root, name)
            if target is None and kind == '"' and (path.parent / name).is_file():
                target = folder
            if folder == "include":
                if target != "public" and (kind == '"' or "/" in name):
                    yield f"{place}:{number}: a public header includes {name}; only tilejit/ and the standard library are allowed"
                continue
            if target is None:
                yield from check_third_party(place, number, folder, kind, name)
            elif target not in ("public", folder) and target not in ARROWS.get(folder, set()):
                yield f"{place}:{number}: {folder or 'runtime'} includes {name}, an arrow to {target or 'runtime'} that the design does not have"
            elif target == "templates" and not name.endswith(HOST_VIEW[folder]):
                yield f"{place}:{number}: {name} is device code; {folder} may read {', '.join(HOST_VIEW[folder])} only"


def check_parts(root):
    """A folder's parts: the search for cycles knows nothing of the joint one, and neither knows how a schedule is drawn."""
    for folder, part, allowed in ((folder, *row) for folder, rows in PARTS.items() for row in rows.items()):
        for path in files(root, f"src/{folder}/{part}"):
            for number, _, name in includes(path.read_text()):
                parts = name.split("/")
                if parts[0] == folder and "".join(parts[1:-1]) not in allowed | {part}:
                    yield f"{path.relative_to(root)}:{number}: {folder}/{part} includes {name}, an arrow that the design does not have"


def check_third_party(place, number, folder, kind, name):
    if kind == '"':
        yield f"{place}:{number}: {name} names no file of the project"
    for pattern, allowed in THIRD_PARTY.items():
        if re.fullmatch(pattern, name) and folder not in allowed:
            yield f"{place}:{number}: {name} may be included in {', '.join(sorted(a or 'src' for a in allowed))} only"


def check_templates(root):
    """kernel_templates/: self-contained, lean, and machine code in one place. The model's files have their names below model/."""
    base = root / "kernel_templates"
    for path in files(root, "kernel_templates"):
        place = path.relative_to(root)
        part = path.relative_to(base).parts[0] if path.parent != base else ""
        text = path.read_text()
        for number, kind, name in includes(text):
            if kind == "<" and part != "model":
                yield f"{place}:{number}: <{name}>: device code includes no header of the system or of a library"
            if kind == '"' and not any((each / name).is_file() for each in (base, path.parent, base / part if part == "model" else base)):
                yield f"{place}:{number}: {name} is no file of kernel_templates/"
            target = name.split("/")[0] if "/" in name else ""
            if kind == '"' and part == "arch" and target in ("ops", "model"):
                yield f"{place}:{number}: arch includes {name}; primitives know no op and no model"
            if kind == '"' and part in ("", "ops") and target == "model":
                yield f"{place}:{number}: {name}: only the build of a unit chooses between device and model"
        if part != "arch":
            code = strip(text, strings=True)
            yield from find(root, path, code, r"\b(__asm__|__asm|asm)\b", "{} belongs in kernel_templates/arch")
            yield from find(root, path, code, r"\b__(builtin|nv|nvvm|amdgcn|shfl|syncthreads|syncwarp)\w*",
                            "{} belongs in kernel_templates/arch") if part != "model" else ()
            yield from find(root, path, code, r"#\s*(el)?if.*(__CUDA_ARCH|__gfx|__HIP_|__AMDGCN)\w*",
                            "{}: an arch condition belongs in kernel_templates/arch")


def codegen_words(root):
    """(ops, node bodies), as the registry and the templates name them; a body is what takes a tile."""
    ops, bodies = set(), set()
    for path in files(root, "kernel_templates/ops"):
        if path.parent.name != "ops":
            ops.add(path.parent.name)
        bodies |= set(re.findall(r"^(?:TJ_DEVICE|__device__)[^;{(=]*?\b(\w+)\s*\([^){;]*\bTile&", strip(path.read_text()), re.M))
    for path in files(root, "src/ops"):
        if path.parent.name not in ("ops", "common"):
            ops.add(path.parent.name)
        ops |= set(re.findall(r'(?<!\{\.)name\w*\s*=\s*"(\w+)"', path.read_text()))  # "{.name": a kernel's field
    return ops, {word for word in bodies if len(word) > 1} - CONTRACT


def check_codegen(root):
    ops, bodies = ("|".join(sorted(map(re.escape, words), key=len, reverse=True)) or "(?!)" for words in codegen_words(root))
    for path in files(root, "src/codegen"):
        text = re.sub(r"\bAsync::\w+", "", path.read_text())  # how a node ends is the graph's word, whatever an op calls its nodes
        yield from find(root, path, text, rf"(?<![A-Za-z0-9])({ops})(?![A-Za-z0-9])|\b({bodies})\b", "codegen names an op or a node: {}")
        yield from find(root, path, text, "(?i)" + HARDWARE, "codegen names an arch or its instructions: {}")


def check_scheduler_and_cache(root):
    """An arch is data to what schedules and what keeps kernels: neither knows one by name, comments included."""
    roles = HARDWARE.replace("|mma|", "|")  # a role may be called mma
    for folder, name, pattern in (("src/sched", "sched", roles), ("cache", "cache", HARDWARE)):
        for path in files(root, folder):
            yield from find(root, path, path.read_text(), "(?i)" + pattern, name + " names an arch or its instructions: {}")


def check_families(root):
    """One file of an op, its list of families, decides which family serves an arch; all else asks a row of the list."""
    for path in files(root, "src/ops"):
        if path.name != "family.cpp":
            yield from find(root, path, strip(path.read_text()), r"(\.|->)family\s*[=!]=|[=!]=\s*\w+(\.|->)family\b",
                            "{}: only family.cpp of an op decides by an arch's family")


def check_runtime(root):
    """The runtime serves each op alike: what is one op's alone is in the op's folder, and no public call is one op's."""
    ops = "|".join(sorted(map(re.escape, codegen_words(root)[0]), key=len, reverse=True)) or "(?!)"
    for path in [each for name in ("src/runtime*", "src/plan*", "src/placement*", "src/relocation*", "src/api/calls*") for each in sorted(root.glob(name + ".?pp"))]:
        yield from find(root, path, path.read_text(), rf"(?<![A-Za-z0-9])((?i:{ops}))(?![a-z0-9])", "the runtime names an op: {}")


def check_habits(root):
    """The environment has one reader; the library neither prints nor ends the process (an exit() under way goes on); nothing is left half done."""
    for path in files(root, "src") + files(root, "cache") + files(root, "include"):
        code = strip(path.read_text(), strings=True)
        folder = folder_of(root, path)
        if folder != "support":
            yield from find(root, path, code, r"\b(secure_)?getenv\b|\b(un)?setenv\b|\bputenv\b|\benviron\b", "{}: the environment is read in src/support only")
        if folder != "tools":
            yield from find(root, path, code, r"\bstd::(cout|cerr|clog)\b|(?<![\w.>])(std::)?(printf|puts|abort|exit|quick_exit)\s*\((?!\*ends_with\))", "{}: the library never prints, exits or aborts")
        if folder != "tools" and path.name != "text_stream.hpp":
            yield from find(root, path, code, LOCALES, "{}: a program's locale changes what it does, and want of memory cuts a text; see src/support/text_stream.hpp and text.hpp")
        yield from find(root, path, code, r"\b(asm|__asm__)\b", "{} belongs in kernel_templates/arch")
    for folder in OWN_FOLDERS:
        for path in files(root, folder, SUFFIXES):
            text = path.read_text()
            lines = text.count("\n")
            if lines > MAX_LINES:
                yield f"{path.relative_to(root)}:{MAX_LINES}: {lines} lines; at most {MAX_LINES}"
            if path.parent.name != "layout":
                yield from find(root, path, text, r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b", "{}: finish it or leave it out")


def bare(text):
    """Code alone: no comments, no characters or strings that could hold braces, no preprocessor lines."""
    code = re.sub(r"'(\\.|[^'\\\n])'", "' '", strip(text, strings=True))
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda found: "\n" * found.group(0).count("\n"), code, flags=re.M)


def functions(code):
    """(first line, last line, what it opens with) of each function; one inside another function is a part of that."""
    scopes, start, first = [], 0, 0  # scopes: for each open brace what it is
    for at in re.finditer(r"[{};]", code):
        sign, head = at.group(0), code[start:at.start()].strip()
        start = at.end()
        if sign == "{":
            inside = any(kind == "function" for kind, _ in scopes)
            outer = re.sub(r"\([^()]*\)|<[^<>]*>", "", re.sub(r"\boperator\s*\S+?(?=\s*\()", "", head))
            kind = ("scope" if re.match(r"(template\s*<[\s\S]*>\s*)?(inline\s+)?((namespace|class|struct|union|enum)\b|extern\s*\"\")", head)
                    else "block" if inside or "(" not in head or "=" in outer else "function")
            first = code.count("\n", 0, at.start()) + 1 - head.count("\n")
            scopes.append((kind, (first, head)))
        elif sign == "}" and scopes:
            kind, (first, head) = scopes.pop()
            if kind == "function":
                yield first, code.count("\n", 0, at.start()) + 1, " ".join(head.split())


def template_lists(code):
    """(line, number of parameters) of each template's list."""
    for found in re.finditer(r"\btemplate\s*<", code):
        depth, count, at = 1, 1, found.end()
        while depth > 0 and at < len(code):
            depth += {"<": 1, "(": 1, "{": 1, ">": -1, ")": -1, "}": -1}.get(code[at], 0)
            count += code[at] == "," and depth == 1
            at += 1
        yield code.count("\n", 0, found.start()) + 1, count


@functools.lru_cache(maxsize=None)
def oversized(text):
    """(line, what is too large) in one file."""
    code = bare(text)
    found = [(first, f"a function of {last - first + 1} lines, at most {MAX_FUNCTION_LINES}: {head[:80]}")
             for first, last, head in functions(code) if last - first + 1 > MAX_FUNCTION_LINES]
    return found + [(line, f"{count} template parameters, at most {MAX_TEMPLATE_PARAMETERS}; gather them in a type")
                    for line, count in template_lists(code) if count > MAX_TEMPLATE_PARAMETERS]


# Types whose objects a static one would destroy at the process's end; in a namespace also any type of ours that is no reference.
OWNING = r"std::(string|vector|map|set|unordered_\w+|deque|list|function|shared_ptr|unique_ptr|optional|any|thread|\w*stringstream)\b"


def static_places(code):
    """(line, variable) of each object of a function that C++ makes at first use and destroys at the process's end."""
    lines = code.split("\n")
    for first, last, _ in functions(code):
        body = "\n".join(lines[first - 1:last])
        opened = body.find("{")
        for found in re.finditer(r"\bstatic\s+(?!constexpr\b|constinit\b|inline\b)([^;{(=]*)", body[opened:] if opened >= 0 else ""):
            yield first + body.count("\n", 0, opened + found.start()), " ".join(found.group(0).split())


@functools.lru_cache(maxsize=None)
def short_lived(text):
    """(line, what does not live as long as calls may come) in one file."""
    code = bare(text)
    found = [(line, f"{what}: destroyed at the process's end, and a fork may find it half made; use support::Lasting") for line, what in static_places(code)]
    for number, line in enumerate(code.split("\n"), 1):
        if re.match(rf"(static |inline |const )*({OWNING}|(\w+::)*[A-Z]\w*)(<[^;=]*>)?\s+\w+\s*(=|\{{|;)", line) and not re.search(r"\b(constexpr|constinit)\b", line):
            found.append((number, f"{line.split('=')[0].strip()[:60]}: destroyed at the process's end; make it constexpr, or a reference to support::lasting()"))
        if re.search(r"\bthread_local\b(?!\s+constinit\b)", line) or re.search(rf"\bthread_local\b.*({OWNING})\s+\w+\s*[;={{]", line):
            found.append((number, "thread_local: calls may come while the thread ends; make it constinit, and what has a destructor a support::PerThread"))
    return found


@functools.lru_cache(maxsize=None)
def forked_locks(text):
    return places(strip(text, strings=True), r"\bstd::(\w*mutex|once_flag|call_once|condition_variable\w*)\b")


def check_lives(root):
    """The library may be called while the process ends, and in a forked child: see src/support/lasting.hpp and fork_safe.hpp."""
    for path in files(root, "src") + files(root, "cache"):
        place = path.relative_to(root)
        text = path.read_text()
        for line, problem in short_lived(text):
            yield f"{place}:{line}: {problem}"
        if folder_of(root, path) in ("tools", "check") or str(place) == "src/support/fork_safe.hpp":
            continue  # programs
        for line, word in forked_locks(text):
            yield f"{place}:{line}: {word}: a forked child may find it taken; use support::Mutex or, for long work, support::Turn"


def check_sizes(root):
    for folder in ("src", "cache", "include", "kernel_templates"):
        for path in files(root, folder):
            for line, problem in oversized(path.read_text()):
                yield f"{path.relative_to(root)}:{line}: {problem}"


@functools.lru_cache(maxsize=None)
def shared_names(text):
    """(line, what it opens with) of each function and type of a test file that other files of its folder's executable could meet."""
    found, code, scopes, start = [], bare(text), [], 0  # scopes: for each open brace: is it a namespace with a name?
    for at in re.finditer(r"[{};]", code):
        sign, head = at.group(0), code[start:at.start()].strip()
        start = at.end()
        if sign == "{":
            named = re.match(r"(inline\s+)?namespace\s+\w", head) is not None
            own = named or head == "namespace" or "=" in head or re.match(r"TEST_CASE|static\b", head)
            if all(scopes) and not own:
                found.append((code.count("\n", 0, at.start()) + 1, " ".join(head.split())))
            scopes.append(named)
        elif sign == "}" and scopes:
            scopes.pop()
    return found


def check_tests(root):
    """The tests of a folder are one executable: two types of the same name would silently become one."""
    for path in files(root, "tests"):
        if path.name.endswith("_test.cpp"):
            for line, head in shared_names(path.read_text()):
                yield f"{path.relative_to(root)}:{line}: {head[:80]}: belongs in an unnamed namespace"


def check_top(root):
    for path in sorted(root.iterdir()):
        if path.is_dir() and not path.name.startswith(".") and path.name not in TOP_FOLDERS | {"build"}:
            yield f"{path.name}/: the design has no such folder"


def check_made(root):
    """Files that are fetched or built lie in build/ or .deps/."""
    listed = list(root.glob("*")) + [path for folder in OWN_FOLDERS for path in (root / folder).rglob("*")]
    for path in sorted(path for path in listed if path.suffix in MADE and path.is_file()):
        yield f"{path.relative_to(root)}: {path.suffix} is fetched or built; leave it in build/ or .deps/"


CHECKS = [check_arrows, check_parts, check_templates, check_codegen, check_scheduler_and_cache, check_families, check_runtime, check_habits, check_variables, check_lives, check_sizes, check_tests, check_top,
          check_made]


def violations(root):
    root = Path(root)
    return [line for check in CHECKS for line in check(root)]
