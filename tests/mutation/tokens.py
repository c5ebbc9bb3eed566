"""C++ host code as tokens: enough to find places that can be mutated, no more.

Decides what is code (comments, preprocessor lines and the inside of literals are not), which function a token belongs to, and which
tokens are text for people or checked at compile time. Does not parse: it goes by the layout that .clang-format gives.
Invariant: text[token.begin:token.end] is the token, in any text that compiles.
"""
import re
from typing import NamedTuple

LEXEMES = re.compile(r"""
    (?P<space>\s+|//[^\n]*(?:\\\n[^\n]*)*|/\*[\s\S]*?\*/|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)
  | (?P<string>(?:u8|[uUL])?R"(?P<mark>[^(\s]*)\([\s\S]*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
  | (?P<char>'(?:\\.|[^'\\\n])+')
  | (?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[-+])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign><=>|->\*|\.\.\.|::|->|\+\+|--|&&|\|\||<<=|>>=|[-+*/%&|^=!<>]=|<<|\[\[|\]\]|[^\s\w])
""", re.X | re.M)

# Code that only builds a message, or holds at compile time: a change in its arguments is no change of behaviour.
TEXT_CALLS = {"fail", "static_assert", "Error", "warn", "info", "debug", "error", "trace"}
TYPE_HEADS = {"namespace", "class", "struct", "union", "enum", "extern"}


class Token(NamedTuple):
    kind: str
    text: str
    begin: int
    end: int


class Function(NamedTuple):
    name: str
    head: tuple   # indices of the tokens before its brace
    body: tuple   # indices of its braces


class Code:
    """A file's tokens; for each of them its function, or None, and whether it is text."""

    def __init__(self, text):
        self.text = text
        self.tokens = [Token(found.lastgroup if found.lastgroup != "mark" else "string", found.group(), found.start(), found.end())
                       for found in LEXEMES.finditer(text) if found.lastgroup != "space"]
        self.places = {}  # of each word
        for index, token in enumerate(self.tokens):
            self.places.setdefault(token.text, []).append(index)
        self.partner = {}
        self.functions = []
        self.function_of = [None] * len(self.tokens)
        self._match()
        self._find_functions()
        self.is_text = self._text_ranges()

    def __len__(self):
        return len(self.tokens)

    def word(self, index):
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def line_of(self, index):
        return self.text.count("\n", 0, self.tokens[index].begin) + 1

    def spaced(self, index):
        """Whether white space stands on both sides, as around an operator of two operands."""
        token = self.tokens[index]
        return self.text[token.begin - 1:token.begin].isspace() and self.text[token.end:token.end + 1].isspace()

    def gap(self, index):
        """Whether something stands between this token and the one before it."""
        return 0 < index < len(self) and self.tokens[index].begin > self.tokens[index - 1].end

    def source(self, first, last):
        """The tokens from first to last, on one line and without comments."""
        parts = []
        for index in range(first, last + 1):
            if index > first and self.gap(index):
                parts.append(" ")
            parts.append(self.tokens[index].text)
        return "".join(parts)

    def _match(self):
        closing = {")": "(", "]": "[", "}": "{", "]]": "[["}
        open_ones = []
        for index, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text in closing.values():
                open_ones.append(index)
            elif token.kind == "sign" and token.text in closing:
                if token.text == "]]" and open_ones and self.word(open_ones[-1]) == "[":
                    continue  # a[b[c]]: two brackets in one; nothing asks for their partners
                while open_ones and self.word(open_ones[-1]) != closing[token.text]:
                    open_ones.pop()
                if open_ones:
                    self.partner[index] = open_ones[-1]
                    self.partner[open_ones.pop()] = index

    def _is_function(self, first, brace):
        """Whether the head that begins at first and ends before the brace is a function's."""
        words = [self.word(i) for i in range(first, brace)]
        if words and words[0] == "template":
            words = words[1:]
        if "(" not in words or (set(words[:words.index("(")]) & (TYPE_HEADS | {"="})):
            return False
        return True

    def _find_functions(self):
        start, index = 0, 0
        while index < len(self.tokens):
            text = self.tokens[index].text
            if text == "{" and self._is_function(start, index) and index in self.partner:
                end = self.partner[index]
                if self.word(end + 1) in (",", "{"):  # of a constructor's list: its body comes later
                    index = end + 1
                    continue
                self._add_function(start, index, end)
                start = index = end + 1
                continue
            if text in ("{", "}", ";"):
                start = index + 1
            index += 1

    def _add_function(self, start, brace, end):
        opening = next(i for i in range(start, brace) if self.word(i) == "(")
        function = Function(self.word(opening - 1), (start, brace - 1), (brace, end))
        self.functions.append(function)
        for inside in range(start, end + 1):
            self.function_of[inside] = function

    def _text_ranges(self):
        is_text = [False] * len(self.tokens)
        for index, token in enumerate(self.tokens):
            if token.text in TEXT_CALLS and self.word(index + 1) == "(" and self.word(index - 1) != "std::":
                if token.text not in ("fail", "static_assert", "Error") and self.word(index - 1) not in (".", "->"):
                    continue
                for inside in range(index + 1, self.partner.get(index + 1, index)):
                    is_text[inside] = True
        return is_text
