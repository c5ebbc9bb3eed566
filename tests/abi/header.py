"""The declarations of a copy of tilejit.h, read from its text: functions, structures with their fields, constants, types of callbacks.

Decides that the parts which it includes belong to it, and how it is written: one `typedef struct tj_x { ... } tj_x;` a structure, one declarator a field but for lists of names, TJ_C_API before
each function. Invariant: a declaration that it cannot read is an error, not a gap.
"""
import re


PART = r"^#include (?:<tilejit/|\")(\w+\.h)[>\"](.*\n)"  # of a copy: by its name alone


def parts(path, seen=()):
    """The header and the files beside it that it includes, in the order in which they are read; each once."""
    found = [*seen, path]
    for match in re.finditer(PART, path.read_text(encoding="utf-8"), re.M):
        if path.parent / match.group(1) not in found:
            found = parts(path.parent / match.group(1), found)
    return found


class Header:
    def __init__(self, path):
        text = re.sub(r"/\*.*?\*/", " ", "".join(part.read_text(encoding="utf-8") for part in parts(path)), flags=re.S)
        self.path = path
        # Name -> the whole prototype, without its mark.
        self.functions = {name: f"{result} {name}({parameters});" for result, name, parameters in
                          re.findall(r"^TJ_C_API\s+([^;(]*?)\s*\b(tj_\w+)\(([^;]*)\);", text, re.M)}
        self.callbacks = {name: whole for whole, name in re.findall(r"(typedef [^;{}]*\(\*(tj_\w+)\)\([^;]*\);)", text)}
        self.constants = [name for body in re.findall(r"\benum\s*{(.*?)}", text, re.S) for name in re.findall(r"\b(TJ_\w+)\s*=", body)]
        self.constants += re.findall(r"^#define (TJ_\w+) [-0-9(]", text, re.M)
        self.structures = {}
        for name, body in re.findall(r"typedef struct (tj_\w+) {(.*?)}\s*\1;", text, re.S):
            self.structures[name] = dict(field for line in body.split(";") if line.strip() for field in self.fields(name, " ".join(line.split())))
        marks = len(re.findall(r"\bTJ_C_API\s+(?!__)", text)) - len(re.findall(r"define TJ_C_API\s*$", text, re.M))
        bodies = len(re.findall(r"typedef struct tj_\w+ {", text))
        if len(self.functions) < marks or len(self.structures) != bodies or not self.functions or not self.constants:
            raise ValueError(f"{path}: {len(self.functions)} functions of {marks} and {len(self.structures)} structures of {bodies} could be read")

    @staticmethod
    def fields(structure, line):
        """(name, type) of a line such as "int64_t m, n" or "int64_t shape[TJ_MAX_RANK]"."""
        found = re.fullmatch(r"((?:const )?(?:struct )?\w+(?: const)?[\s*]*(?:const\s*\**)?)\s*(\w+(?:\[\w+\])?(?:, \w+(?:\[\w+\])?)*)", line)
        if not found:
            raise ValueError(f"the field '{line}' of {structure} cannot be read; write its type, then its names")
        for name in found.group(2).split(", "):
            name, bracket, length = name.partition("[")
            yield name, found.group(1).strip() + bracket + length
