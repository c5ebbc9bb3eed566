"""A mutant as text that survives shifts of lines and changes of layout.

Decides how a mutant is written down and found again: by its file, its function and the tokens around it, not by a line.
Invariant: a patch of a file that has not changed applies, and gives exactly the mutant that it was made of.
"""
import hashlib
from typing import NamedTuple

from mutation.tokens import Code

AROUND = 8  # tokens on each side of what changes, within its statement


class Patch(NamedTuple):
    file: str        # below the repository's root
    function: str    # "" outside of any
    before: str
    after: str
    nth: int = 1     # of the places in that function that read so

    @property
    def id(self):
        words = [self.file, self.function, *words_of(self.before), "\0", *words_of(self.after), str(self.nth)]
        return hashlib.sha256("\n".join(words).encode()).hexdigest()[:10]


class Stale(Exception):
    """The place that a patch names is not in the file any more."""


def words_of(text):
    return [token.text for token in Code(text).tokens]


def places(code, words, function):
    """Indices at which these tokens stand: in that function, else anywhere."""
    found = [at for at in code.places.get(words[0], ()) if all(code.word(at + i) == word for i, word in enumerate(words))]
    own = [at for at in found if name_of(code, at + len(words) // 2) == function]
    return own or found


def name_of(code, index):
    function = code.function_of[index]
    return function.name if function else ""


def make(path, code, first, last, replacement):
    """The patch that puts a text in place of the tokens from first to last (none, before first, where last < first)."""
    begin, end = max(0, first - AROUND), min(len(code) - 1, last + AROUND)
    for index in range(first - 1, begin - 1, -1):
        if code.word(index) in (";", "}") or (code.word(index) == "{" and index < first - 1):
            begin = index + 1
            break
    for index in range(max(first, last), end + 1):
        if code.word(index) in (";", "{", "}"):
            end = index
            break
    before = code.source(begin, end)
    head, tail = code.source(begin, first - 1) if first > begin else "", code.source(last + 1, end) if last < end else ""
    inserted = last < first
    after = head + (" " if inserted or code.gap(first) else "") + replacement + (" " if inserted or code.gap(last + 1) else "") + tail
    after = " ".join(after.split())
    words = words_of(before)
    function = name_of(code, begin + len(words) // 2)
    return Patch(path, function, before, after, places(code, words, function).index(begin) + 1)


def span(patch, code):
    """(begin, end, text): what of the file is replaced by what, and no more of it than differs."""
    before, after = Code(patch.before), Code(patch.after)
    words = [token.text for token in before.tokens]
    found = places(code, words, patch.function) if words else []
    if len(found) < patch.nth:
        raise Stale(f"{patch.file}: \"{patch.before}\" is not in {patch.function or 'it'}" + (f" {patch.nth} times" if found else ""))
    at = found[patch.nth - 1]
    new = [token.text for token in after.tokens]
    head = 0
    while head < min(len(words), len(new)) and words[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(words), len(new)) - head and words[-1 - tail] == new[-1 - tail]:
        tail += 1
    text = after.source(head, len(new) - 1 - tail) if len(new) - tail > head else ""
    if len(words) - tail > head:
        return code.tokens[at + head].begin, code.tokens[at + len(words) - 1 - tail].end, text
    place = code.tokens[at + head].begin if at + head < len(code) else len(code.text)
    return place, place, text + " "


def apply(patch, text):
    """The file's text with the mutant in it. Throws Stale."""
    begin, end, new = span(patch, Code(text))
    return text[:begin] + new + text[end:]


def line_of(patch, text):
    return text.count("\n", 0, span(patch, Code(text))[0]) + 1
