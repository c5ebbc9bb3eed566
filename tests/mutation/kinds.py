"""The kinds of mutants, and a random choice of them.

Decides what can be changed at which token, and which of these are taken for a seed. Invariant: the same files, seed and bounds give the
same mutants, and no file gives more than its share.
"""
import random
from typing import NamedTuple

from mutation import patches
from mutation.tokens import Code

COMPARISONS = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "++": "--", "--": "++",
              "&": "|", "|": "&"}
NOT_DROPPED = {"return", "case", "default", "using", "goto", "else", "delete", "co_return", "public", "private", "if", "for", "while", "switch", "do"}
LOGS = {"log", "log_", "debug", "info", "warn", "trace"}
NO_VALUE = {"auto", "constexpr", "consteval", "operator", "&", "~", "virtual"}


class Mutant(NamedTuple):
    kind: str
    patch: patches.Patch


class Place(NamedTuple):
    kind: str
    first: int
    last: int
    text: str


def comparisons(code):
    for i, token in enumerate(code.tokens):
        if token.text in COMPARISONS and code.spaced(i) and code.word(i - 1) not in ("template", "operator"):
            for other in COMPARISONS[token.text]:
                yield Place("comparison", i, i, other)


def arithmetic(code):
    for i, token in enumerate(code.tokens):
        before, after = code.tokens[i - 1] if i else None, code.tokens[i + 1] if i + 1 < len(code) else None
        if token.kind != "sign" or before is None or after is None:
            continue
        if token.text in ("++", "--") or (token.text in ARITHMETIC and code.spaced(i)):
            if token.text in ("+", "+=") and (before.kind == "string" or after.kind in ("string", "char")):
                continue  # of texts: no other sign compiles
            yield Place("arithmetic", i, i, ARITHMETIC[token.text])
        elif token.text == "-" and after.begin == token.end and (before.kind == "sign" or before.text == "return") and before.text not in (")", "]"):
            yield Place("arithmetic", i, i, "")


def logic(code):
    for i, token in enumerate(code.tokens):
        if token.text in ("&&", "||") and code.spaced(i):
            yield Place("and-or", i, i, "||" if token.text == "&&" else "&&")


def constants(code):
    for i, token in enumerate(code.tokens):
        if token.text in ("true", "false"):
            yield Place("constant", i, i, "false" if token.text == "true" else "true")
        if token.kind != "number" or code.word(i - 1) in ("<", "case") or code.word(i + 1) == ">":
            continue
        digits = token.text.replace("'", "").rstrip("uUlLzZ")
        suffix = token.text[len(token.text.rstrip("uUlLzZ")):]
        try:
            value = int(digits, 0)
        except ValueError:
            continue  # 0.5, 017
        write = hex if digits[:2].lower() == "0x" else str
        yield Place("constant", i, i, write(value + 1) + suffix)
        if value > 0:
            yield Place("constant", i, i, write(value - 1) + suffix)


def extremes(code):
    for i, token in enumerate(code.tokens):
        if token.text in ("min", "max") and code.word(i - 1) == "::" and code.word(i - 2) == "std" and code.word(i + 1) in ("(", "<", "{"):
            yield Place("min-max", i, i, "max" if token.text == "min" else "min")


def conditions(code):
    for i, token in enumerate(code.tokens):
        opening = i + 1
        if token.text not in ("if", "while") or code.word(opening) != "(" or opening not in code.partner:
            continue
        closing = code.partner[opening]
        inside = {code.word(k) for k in range(opening + 1, closing)}
        if not inside & {"=", ";", "auto"}:
            yield Place("condition", opening + 1, closing - 1, f"!({code.source(opening + 1, closing - 1)})")


def chain_end(code, index):
    """The token behind a::b->c[d].e(f), where index is a; index itself where there is none."""
    while code.word(index) in ("*", "++", "--", "::"):
        index += 1
    while index < len(code):
        if code.tokens[index].kind != "word":
            return index
        index += 1
        while code.word(index) in ("(", "[") and index in code.partner:
            index = code.partner[index] + 1
        if code.word(index) not in (".", "->", "::"):
            return index
        index += 1
    return index


def statements(code):
    """Calls and assignments that stand alone, break, continue and throw: nothing that declares a name."""
    for i, token in enumerate(code.tokens):
        function = code.function_of[i]
        if function is None or i <= function.body[0] or token.text in NOT_DROPPED:
            continue
        if code.word(i - 1) not in (";", "{", "}", ")", "else") or (code.word(i - 1) == ")" and not after_condition(code, i - 1)):
            continue
        end = i
        while code.word(end) not in (";", "{", "}", "") or end in code.partner:
            if code.word(end) in ("(", "[", "{") and end in code.partner:
                end = code.partner[end]
            elif code.word(end) in (")", "}"):
                break  # of a for's head
            end += 1
        if code.word(end) != ";" or LOGS & {code.word(k) for k in range(i, min(i + 4, end))}:
            continue
        behind = chain_end(code, i)
        called = code.word(behind) == ";" and code.word(behind - 1) == ")"
        assigned = behind > i and (code.word(behind) in ("=", "++", "--") or (code.word(behind)[-1:] == "=" and code.word(behind) not in COMPARISONS))
        stepped = token.text in ("++", "--")
        if called or assigned or stepped or token.text in ("break", "continue", "throw"):
            yield Place("statement", i, end, ";")


def after_condition(code, closing):
    opening = code.partner.get(closing, 0)
    return code.word(opening - 1) in ("if", "for", "while", "constexpr")


def returns(code):
    for function in code.functions:
        opening = next(i for i in range(function.head[0], function.head[1] + 1) if code.word(i) == "(")
        closing = code.partner.get(opening, function.head[1])
        kinds = [code.word(i) for i in range(function.head[0], opening - 1)]
        if not kinds or ":" in [code.word(i) for i in range(closing, function.head[1] + 1)] or NO_VALUE & set(kinds + [function.name]):
            continue  # a constructor, or a type that cannot be made of nothing
        if "template" in kinds or function.body[1] - function.body[0] < 3:
            continue
        kind = next((k for k in ("void", "bool") if k in kinds and "<" not in kinds), "")
        for value in {"void": [""], "bool": ["true", "false"]}.get(kind, ["{}"]):
            text = f"return {value};" if value else "return;"
            if code.word(function.body[0] + 1) != "return" or kind == "bool":
                yield Place("return", function.body[0] + 1, function.body[0], text)


FINDERS = (comparisons, arithmetic, logic, constants, extremes, conditions, statements, returns)
CODE_OUTSIDE = {"constant", "arithmetic"}  # kinds that a file may hold outside of functions


def places(code):
    for finder in FINDERS:
        for place in finder(code):
            index = min(place.first, len(code) - 1)
            inside = code.function_of[index]
            text = code.is_text[index] and place.kind != "return"
            if not text and (inside is not None or place.kind in CODE_OUTSIDE):
                yield place


def mutants_of(path, text):
    """Each of a file's mutants, in its order."""
    code = Code(text)
    return [Mutant(place.kind, patches.make(path, code, place.first, place.last, place.text)) for place in places(code)]


def choose(texts, seed, count, per_file):
    """Patches of {path: text}: a kind at random, then one of its places, so that constants do not crowd out the rest."""
    chance = random.Random(f"{seed}")
    taken, files = [], sorted(texts)
    for _ in range(per_file):
        chance.shuffle(files)
        for path in files:
            if len(taken) >= count:
                return taken
            code = Code(texts[path])
            by_kind = {}
            for place in places(code):
                by_kind.setdefault(place.kind, []).append(place)
            if not by_kind:
                continue
            kind = chance.choice(sorted(by_kind))
            place = chance.choice(by_kind[kind])
            mutant = Mutant(kind, patches.make(path, code, place.first, place.last, place.text))
            if mutant not in taken:
                taken.append(mutant)
    return taken
