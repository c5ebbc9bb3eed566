"""Says which files use a name without the header that declares it.

A build of many files as one compiles such a file all the same, and so does a library whose headers include each other; another may not. Two kinds of
names are looked at: those of the standard library that STANDARD lists, and classes and enumerations that exactly one header of the project
defines. A header counts however it is reached: the includes of a file's includes are read as well. Decides by words, so a type that shares its
name with another entity is left out.
"""
import functools
import re
from collections import Counter, defaultdict

import rules

# Header -> names of namespace std that need it. A name with several headers needs any of them.
STANDARD = {
    "algorithm": "all_of any_of clamp copy copy_if count count_if equal fill find find_if find_if_not for_each generate is_sorted "
                 "lower_bound max_element min_element minmax mismatch next_permutation none_of nth_element partition remove remove_if "
                 "reverse rotate search sort stable_partition stable_sort transform unique upper_bound binary_search ranges::sort",
    "array": "array",
    "atomic": "atomic atomic_thread_fence",
    "barrier": "barrier",
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero has_single_bit popcount",
    "bitset": "bitset",
    "cctype": "isalnum isalpha isdigit isspace isxdigit tolower toupper",
    "charconv": "from_chars to_chars",
    "chrono": "chrono::",
    "cmath": "ceil exp exp2 floor fma fmod frexp isfinite isinf isnan ldexp lround llround log log2 nextafter pow round signbit sqrt "
             "trunc",
    "condition_variable": "condition_variable",
    "csignal": "signal raise",
    "cstdint": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t intptr_t",
    "cstdio": "fclose fflush fopen fprintf fputs fread fwrite printf putchar puts snprintf FILE",
    "cstdlib": "abort atexit exit getenv malloc free strtol strtoul strtod strtoull calloc",
    "cstring": "memchr memcmp memcpy memmove memset strcmp strlen strncmp strstr strchr",
    "deque": "deque",
    "exception": "exception_ptr current_exception rethrow_exception terminate uncaught_exceptions",
    "filesystem": "filesystem::",
    "fstream": "ifstream ofstream fstream",
    "functional": "function hash less greater plus bind invoke reference_wrapper",
    "future": "future promise async packaged_task",
    "iostream": "cout cerr cin",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared enable_shared_from_this construct_at",
    "mutex": "mutex lock_guard unique_lock scoped_lock once_flag call_once recursive_mutex",
    "new": "bad_alloc nothrow align_val_t launder",
    "numbers": "numbers::",
    "numeric": "accumulate gcd lcm iota inner_product partial_sum reduce",
    "optional": "optional nullopt make_optional",
    "random": "mt19937 mt19937_64 uniform_int_distribution uniform_real_distribution random_device normal_distribution",
    "ranges": "views:: ranges::subrange",
    "regex": "regex smatch regex_search regex_match regex_replace",
    "set": "set multiset",
    "shared_mutex": "shared_mutex shared_lock",
    "span": "span as_bytes",
    "sstream": "ostringstream istringstream stringstream",
    "stdexcept": "runtime_error logic_error invalid_argument out_of_range",
    "string": "string to_string stoi stol stoul stod getline",
    "string_view": "string_view",
    "system_error": "error_code system_error generic_category errc",
    "thread": "thread this_thread:: jthread",
    "tuple": "tuple make_tuple tie tuple_size apply",
    "type_traits": "is_same_v is_base_of_v decay_t remove_cvref_t enable_if_t conditional_t is_trivially_copyable_v is_integral_v "
                   "is_enum_v underlying_type_t is_standard_layout_v invoke_result_t is_invocable_v",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "utility": "exchange swap move forward pair make_pair as_const",
    "variant": "variant visit holds_alternative monostate get_if",
    "vector": "vector",
}
# Headers that the standard says declare a name, too, or bring another header along.
ALSO = {
    "bad_alloc": "memory",
    "errc": "charconv filesystem",
    "error_code": "filesystem",
    "forward": "memory",
    "hash": "string string_view memory",
    "less": "map set",
    "move": "algorithm memory vector string",
    "nothrow": "memory",
    "pair": "map",
    "remove": "cstdio",
    "swap": "algorithm string_view array",
}

# Files that another includes inside of a block, below all headers.
FRAGMENTS = {"fake_cuda_memory.hpp"}


def standard_headers():
    """Pattern's name -> headers that declare it. "chrono::" stands for each name below it."""
    found = defaultdict(set)
    for header, names in STANDARD.items():
        for name in names.split():
            found[name].add(header)
    for name, headers in ALSO.items():
        found[name].update(headers.split())
    return found


@functools.lru_cache(maxsize=None)
def resolve(root, folder, name):
    tests = [root / "tests", root / "samples"] if root / "tests" in folder.parents else []  # they search their own folder first
    places = [folder, *tests, *(root / each for each in ("include", "src", "", "kernel_templates", "samples"))]
    return next((place / name for place in places if (place / name).is_file()), None)


@functools.lru_cache(maxsize=None)
def reached(root, path):
    """(files of the project, other headers) that a file reads, itself among them."""
    own, other, waiting = set(), set(), [path]
    while waiting:
        at = waiting.pop()
        if at in own:
            continue
        own.add(at)
        for _, kind, name in rules.includes(at.read_text(encoding="utf-8")):
            found = resolve(root, at.parent, name)
            if found:
                waiting.append(found)
            elif kind == "<":
                other.add(name)
    return own, other


def texts(root):
    """Path -> its code without comments and literals. Recipes are edits of another tree."""
    folders = ("include", "src", "cache", "tests", "samples")
    return {path: rules.strip(path.read_text(encoding="utf-8"), True)
            for folder in folders for path in rules.files(root, folder) if path.suffix != ".cuh" and "recipes" not in path.parts}


TYPE = re.compile(r"\b(?:struct|class|enum(?: class)?|using|namespace) (?:\[\[\w+\]\] |alignas\(\w+\) |TJ_API )?(\w+)")


def defined_once(code):
    """Type -> the header of the library that defines it, where nothing else of the project has its name."""
    times, places = Counter(), {}
    for path, text in code.items():
        for found in TYPE.finditer(text):
            times[found[1]] += 1
            if path.suffix != ".cpp" and text[found.end():found.end() + 200].split(";")[0].split("(")[0].find("{") >= 0:
                places[found[1]] = path
    return {name: path for name, path in places.items() if times[name] == 1}


def check_includes(root):
    """Each file of C++ reaches the header of every name that it uses."""
    code, standard = texts(root), standard_headers()
    types = defined_once(code)
    for path, text in code.items():
        if path.name in FRAGMENTS:
            continue
        own, other = reached(root, path)
        for name in sorted(set(re.findall(r"\bstd::((?:chrono|filesystem|numbers|this_thread|views)::|\w+)", text))):
            wanted = standard.get(name, set())
            if wanted and not wanted & other:
                yield f"{path.relative_to(root)}: std::{name} without <{sorted(wanted)[0]}>"
        for name in sorted(set(re.findall(r"(?<![\w.>])[A-Z][a-z0-9]+[A-Z]\w+", text))):  # of two words or more, as names of members may have one
            if name in types and types[name] not in own:
                yield f"{path.relative_to(root)}: {name} without {types[name].relative_to(root)}"
