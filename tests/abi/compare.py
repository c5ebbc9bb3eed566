"""Says what a header breaks for programs in C that were built against an older copy of it, and still load today's library.

Decides what a break is: a function, field or constant that is gone or has another type, place or value; a structure without `size` that grew; a new
field in what was padding, which older callers do not fill. New functions, constants, and fields at the end of a structure with `size` are none.
Invariant: sizes, places, values and types are a compiler's, never guessed from the text.
"""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from header import Header


def compiler():
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def compiled(source, folder, include, *flags):
    """The compiler's complaints about a source; "" when there are none."""
    file = Path(folder) / "t.c"
    file.write_text(source)
    done = subprocess.run([compiler(), "-std=gnu11", "-I", str(include), "-I", str(include.parent), str(file), "-o", str(Path(folder) / "t"), *flags],
                          capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
    return done.stderr if done.returncode else ""


def measured(header, types):
    """Lines that a program prints about the header that it includes: sizes, places, values. `types`, {(structure, field): type}, are compared, too."""
    lines = ["#include <stddef.h>", "#include <stdio.h>", f'#include "{header.path.name}"', "int main(void) {"]
    for structure, fields in header.structures.items():
        lines.append(f'  printf("size {structure} %zu\\n", sizeof({structure}));')
        for field in fields:
            member = f"(({structure}*)0)->{field}"
            lines.append(f'  printf("field {structure} {field} %zu %zu\\n", offsetof({structure}, {field}), sizeof({member}));')
            if (structure, field) in types:
                lines.append(f'  printf("type {structure} {field} %d\\n", __builtin_types_compatible_p(__typeof__({member}), {types[structure, field]}));')
    lines += [f'  printf("value {name} %lld\\n", (long long)({name}));' for name in header.constants]
    with tempfile.TemporaryDirectory() as folder:
        problem = compiled("\n".join(lines) + "\n  return 0;\n}\n", folder, header.path.parent)
        if problem:
            raise ValueError(f"{header.path} does not compile with what an older copy declares:\n{problem}")
        printed = subprocess.run([os.path.join(folder, "t")], check=True, capture_output=True, text=True).stdout
    facts = {"size": {}, "field": {}, "type": {}, "value": {}}
    for line in printed.splitlines():
        kind, *words = line.split()
        if kind in ("size", "value"):
            facts[kind][words[0]] = int(words[1])
        else:
            facts[kind][words[0], words[1]] = tuple(map(int, words[2:]))
    return facts


def changed_calls(old, new):
    """Functions and callbacks whose types differ: today's declarations are read behind the older header."""
    later = [new.callbacks[name] for name in old.callbacks if name in new.callbacks] + [new.functions[name] for name in old.functions if name in new.functions]
    with tempfile.TemporaryDirectory() as folder:
        problem = compiled(f'#include "{old.path.name}"\n' + "\n".join(later) + "\n", folder, old.path.parent, "-fsyntax-only")
    names = sorted(set(re.findall(r"(?:conflicting types for|redefinition with different types \('[^']*' vs|redefinition of typedef) '(\w+)'", problem)))
    return names if names or not problem else ["(" + problem.strip().splitlines()[0] + ")"]


def broken_structure(name, old, new, before, after):
    fields = {field: place for (structure, field), place in before["field"].items() if structure == name}
    today = {field: place for (structure, field), place in after["field"].items() if structure == name}
    free = [place for field, place in fields.items() if field.startswith("reserved")]  # may have got a meaning
    for field, place in fields.items():
        if field not in today:
            if place not in free or place not in today.values():
                yield f"{name}.{field} is gone"
        elif place != today[field]:
            yield f"{name}.{field} was at byte {place[0]} with {place[1]} bytes, and is at {today[field][0]} with {today[field][1]}"
        elif after["type"].get((name, field)) == (0,):
            yield f"{name}.{field} was a {old.structures[name][field]}, and is a {new.structures[name][field]}"
    sizes = before["size"][name], after["size"][name]
    if "size" not in fields and sizes[0] != sizes[1]:
        yield f"{name} had {sizes[0]} bytes, and has {sizes[1]}; it has no `size`, so it cannot grow"
    for field, place in today.items():
        if field not in fields and place[0] < sizes[0] and place not in free:
            yield f"{name}.{field} is new, and lies among the {sizes[0]} bytes of before, where older callers leave anything"


def breaks(old_path, new_path):
    """One sentence for each break; an empty list when programs of before still run."""
    old, new = Header(Path(old_path)), Header(Path(new_path))
    found = [f"{name}() is gone" for name in old.functions if name not in new.functions]
    found += [f"{name} is gone" for kind in ("structures", "callbacks", "constants") for name in getattr(old, kind) if name not in getattr(new, kind)]
    found += [f"{name} has another type" for name in changed_calls(old, new)]
    types = {(structure, field): type_ for structure, fields in old.structures.items() for field, type_ in fields.items()}
    before, after = measured(old, {}), measured(new, types)
    for name in old.structures:
        if name in new.structures:
            found += broken_structure(name, old, new, before, after)
    found += [f"{name} was {value}, and is {after['value'][name]}" for name, value in before["value"].items() if after["value"].get(name, value) != value]
    return found
