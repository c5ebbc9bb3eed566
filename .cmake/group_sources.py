"""Says which sources can be compiled as one, as headers take most of a file's time.

group_sources.py FILE...    prints a line for each group of two or more: its files, with semicolons between

Decides by names alone: files are compiled as one where none of them reads a name that another keeps to itself, in an unnamed namespace, as a
static function or as a macro, and where all of them have the same using-directives. Does not parse C++: a name too many only costs a group.
Invariant: the same files give the same groups, and a group's files stand in the order in which they were given.
"""
import re
import sys
from pathlib import Path

MOST_FILES, MOST_BYTES = 8, 64 << 10  # of a group: two cores have work until the end, and a change compiles little

TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(?P<end>[^(\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
                   r"""|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*|[A-Za-z_]\w*|\d[\w.']*|::|\S""", re.DOTALL | re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]")
MACRO = re.compile(r"\s*#\s*define\s+(\w+)")
FOLLOWS_A_NAME = set("(={;[,:")
NO_NAMES = {"TEST_CASE", "alignas", "noexcept", "nullptr", "decltype", "void", "bool", "char", "int", "unsigned", "float", "double"}


class Source:
    """own: the names that a file keeps to itself; read: all that it mentions; using: its directives outside of functions."""

    def __init__(self, path):
        text = Path(path).read_text(encoding="utf-8")
        tokens = [match[0] for match in TOKEN.finditer(text)]
        self.path, self.size = path, len(text)
        self.own = {found[1] for token in tokens if (found := MACRO.match(token))}
        tokens = [token for token in tokens if not token.startswith(("//", "/*")) and not token.lstrip().startswith("#")]
        self.read = {token for token in tokens if WORD.match(token)}
        self.using, self.brought = set(), set()
        self._walk(tokens)

    def _walk(self, tokens):
        scopes, parentheses = [], 0
        for at, token in enumerate(tokens):
            if token == "{":
                scopes.append(kind_of_scope(tokens, at))
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


def kind_of_scope(tokens, at):
    """What the brace at this place opens."""
    if tokens[at - 1] == "namespace":
        return "unnamed"
    start = at
    while start > 0 and (WORD.match(tokens[start - 1]) or tokens[start - 1] == "::") and tokens[start] != "namespace":
        start -= 1
    return "named" if tokens[start] == "namespace" or tokens[start:start + 1] == ["extern"] else "body"


def groups_of(paths):
    """Lists of paths; a file that goes with no other is alone in its list."""
    groups = []
    for source in map(Source, paths):
        for group in groups:
            if (len(group) < MOST_FILES and sum(each.size for each in group) + source.size <= MOST_BYTES
                    and all(source.goes_with(each) for each in group)):
                group.append(source)
                break
        else:
            groups.append([source])
    return [[source.path for source in group] for group in groups]


if __name__ == "__main__":
    for paths in groups_of(sys.argv[1:]):
        if len(paths) > 1:
            print(";".join(paths))
