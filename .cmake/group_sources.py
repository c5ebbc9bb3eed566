"""Says which sources can be compiled as one, as headers take most of a file's time.

group_sources.py FILE...                    prints a line for each group of two or more: its files, with semicolons between
group_sources.py --enclose PREFIX FILE...   prints what is to be compiled instead of the files, a line each; PREFIX begins the written files' names

Decides by names alone: files are compiled as one where none of them reads a name that another keeps to itself, in an unnamed namespace, as a
static function or as a macro, and where all of them have the same using-directives. Does not parse C++: a name too many only costs a group.
With --enclose each file of a group stands in a namespace of its own, below all that the group includes, so that only macros can meet. That suits
tests, which define nothing for other files. Invariant: the same files give the same groups, and a group's files stand in the order in which they
were given.
"""
import re
import sys
from pathlib import Path

MOST_FILES, MOST_BYTES = 8, 64 << 10  # of a group: two cores have work until the end, and a change compiles little
MOST_ENCLOSED = 16, 96 << 10

TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(?P<end>[^(\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
                   r"""|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*|[A-Za-z_]\w*|\d[\w.']*|::|\S""", re.DOTALL | re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]")
MACRO = re.compile(r"\s*#\s*define\s+(\w+)")
INCLUDE = re.compile(r'\s*#\s*include\s+([<"])([^>"]+)[>"]')
FOLLOWS_A_NAME = set("(={;[,:")
NO_NAMES = {"TEST_CASE", "alignas", "noexcept", "nullptr", "decltype", "void", "bool", "char", "int", "unsigned", "float", "double"}


class Source:
    """own: the names that a file keeps to itself; read: all that it mentions; using: its directives outside of functions. macros, includes: as they
    are written; closed: whether it may stand in a namespace."""

    def __init__(self, path):
        text = Path(path).read_text(encoding="utf-8")
        tokens = [match[0] for match in TOKEN.finditer(text)]
        self.path, self.size = path, len(text)
        self.macros = {found[1] for token in tokens if (found := MACRO.match(token))}
        self.own = set(self.macros)
        directives = [token.strip() for token in tokens if token.lstrip().startswith("#")]
        self.includes = [self._place(*found.groups()) for each in directives if (found := INCLUDE.match(each))]
        # An included file that asks for a macro, or is asked for in some builds alone, could not stand above all others.
        last = max((place for place, each in enumerate(directives) if INCLUDE.match(each)), default=-1)
        self.closed = all(INCLUDE.match(each) for each in directives[:last])
        tokens = [token for token in tokens if not token.startswith(("//", "/*")) and not token.lstrip().startswith("#")]
        self.read = {token for token in tokens if WORD.match(token)}
        self.using, self.brought = set(), set()
        self._walk(tokens)

    def _place(self, mark, name):
        """An include that means the same from any folder."""
        beside = Path(self.path).resolve().parent / name
        return f'"{beside}"' if mark == '"' and beside.is_file() else f"<{name}>" if mark == "<" else f'"{name}"'

    def _walk(self, tokens):
        scopes, parentheses = [], 0
        for at, token in enumerate(tokens):
            if token == "{":
                scopes.append(kind_of_scope(tokens, at))
                self.closed &= "named" not in scopes  # others may mean what it defines there
            elif token == "}":
                del scopes[-1:]
            elif token in "([":
                parentheses += 1
            elif token in ")]":
                parentheses -= 1
            elif WORD.match(token) and parentheses == 0 and "body" not in scopes:
                self._outside(tokens, at, "unnamed" in scopes)

    def _outside(self, tokens, at, unnamed):
        """A word outside of all functions and types."""
        following = tokens[at + 1] if at + 1 < len(tokens) else ";"
        if tokens[at:at + 3] == ["template", "<", ">"] and not unnamed:
            self.closed = False
        if tokens[at] == "using" and following == "namespace":
            self.using.add(" ".join(tokens[at:tokens.index(";", at)]))
        elif tokens[at] == "using" and "=" not in tokens[at:at + 3]:
            self.brought.add(tokens[tokens.index(";", at) - 1])
        elif tokens[at] == "static":
            self.own.add(next((tokens[place - 1] for place in range(at, len(tokens)) if tokens[place] in FOLLOWS_A_NAME), "static"))
        elif unnamed and following in FOLLOWS_A_NAME and tokens[at - 1] not in ("::", ".", "namespace") and tokens[at] not in NO_NAMES:
            self.own.add(tokens[at])
        elif tokens[at - 1] in ("using", "namespace") and following == "=":  # the same ones in many files, and then they mean the same
            self.brought.add(tokens[at])

    def goes_with(self, other):
        return (self.using == other.using and not self.own & (other.read | other.brought) and not other.own & (self.read | self.brought))

    def goes_beside(self, other):
        return self.closed and other.closed and not self.macros & other.read and not other.macros & self.read


def kind_of_scope(tokens, at):
    """What the brace at this place opens."""
    if tokens[at - 1] == "namespace":
        return "unnamed"
    start = at
    while start > 0 and (WORD.match(tokens[start - 1]) or tokens[start - 1] == "::") and tokens[start] != "namespace":
        start -= 1
    return "named" if tokens[start] == "namespace" or tokens[start:start + 1] == ["extern"] else "body"


def grouped(paths, goes, most_files, most_bytes):
    """Lists of sources; one that goes with no other is alone in its list."""
    groups = []
    for source in map(Source, paths):
        for group in groups:
            if (len(group) < most_files and sum(each.size for each in group) + source.size <= most_bytes
                    and all(goes(source, each) for each in group)):
                group.append(source)
                break
        else:
            groups.append([source])
    return groups


def groups_of(paths):
    """Lists of paths."""
    return [[source.path for source in group] for group in grouped(paths, Source.goes_with, MOST_FILES, MOST_BYTES)]


def enclosed(group):
    """The text of a file that is compiled instead of these."""
    includes = dict.fromkeys(include for source in group for include in source.includes)
    text = "// All that the files below include: there it would stand in their namespaces.\n"
    text += "".join(f"#include {include}\n" for include in includes)
    for number, source in enumerate(group):
        text += f'namespace tj_file_{number} {{\n#include "{Path(source.path).resolve()}"\n}}\n'
    return text


def write_enclosed(prefix, paths):
    """What is to be compiled; a file that has its text already stays as old as it is."""
    for number, group in enumerate(grouped(paths, Source.goes_beside, *MOST_ENCLOSED)):
        if len(group) == 1:
            yield group[0].path
            continue
        written, text = Path(f"{prefix}_{number}.cpp"), enclosed(group)
        written.parent.mkdir(parents=True, exist_ok=True)
        if not written.is_file() or written.read_text(encoding="utf-8") != text:
            written.write_text(text, encoding="utf-8")
        yield str(written)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--enclose"]:
        print(*write_enclosed(sys.argv[2], sys.argv[3:]), sep="\n")
    else:
        for listed in groups_of(sys.argv[1:]):
            if len(listed) > 1:
                print(";".join(listed))
