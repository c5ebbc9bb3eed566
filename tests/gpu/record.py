"""RESULTS.md: records of comparisons, newest first, as `compare.py --record` writes them; and parts put together to one document.

Decides the file's form. Invariant: a record that is in the file stays in it as it is, and one that was changed by hand is found: the last line of
each is a checksum of the others.
"""
import hashlib
import os
import re

import report

HEADER = """# Results

`python3 tests/gpu/compare.py ... --record` writes this file, never a hand: the checksum under each record says so. Newest records come first.
[README.md](README.md) says how figures are made. A record's seed and count repeat its problems.
"""
FIELDS = ("op", "sizes", "seed", "count", "digest", "tile", "tuned", "rounds", "runs")  # of a draw
CHECKSUM = re.compile(r"^Checksum ([0-9a-f]{16})$", re.M)


class RecordError(Exception):
    """Parts that do not belong together, or a file that is no file of results."""


# ---- parts -------------------------------------------------------------------------------------------------------------
def merge(documents, names):
    """One document of parts of the same problems on the same machine."""
    first = documents[0]
    for document, name in zip(documents[1:], names[1:]):
        for field in FIELDS:
            if document["draw"].get(field) != first["draw"].get(field):
                raise RecordError(f"--merge: '{name}' has {field} {document['draw'].get(field)}, '{names[0]}' {first['draw'].get(field)}; allowed: parts of one draw")
        for field in first["machine"]:
            if document["machine"].get(field) != first["machine"][field]:
                raise RecordError(f"--merge: '{name}' was made with {field} {document['machine'].get(field)}, '{names[0]}' with {first['machine'][field]}; "
                                  "allowed: parts of one machine and one build")
    rows, of = {}, {}
    for document, name in zip(documents, names):
        for row in document["rows"]:
            if row["number"] in rows:
                raise RecordError(f"--merge: problem {row['number']} is in '{of[row['number']]}' and in '{name}'; allowed: parts that share none")
            rows[row["number"]], of[row["number"]] = row, name
    merged = {**first, "rows": [rows[at] for at in sorted(rows)], "missing": [at for at in range(first["draw"]["count"]) if at not in rows],
              "date": max(document["date"] for document in documents), "parts": [part for document in documents for part in document["parts"]]}
    for section in ("correctness", "cold"):
        found = [document[section] for document in documents if section in document]
        if found:
            merged[section] = found[0]
    return merged


# ---- the file ----------------------------------------------------------------------------------------------------------
def checksum(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def entry(document):
    """A record as it stands in the file."""
    text = "\n".join([f"## {document['date']}: {report.title(document)}", "", *report.whole(document), ""]) + "\n"
    return text + f"Checksum {checksum(text)}\n"


def entries(text):
    """The records of a file's text, in its order."""
    if not text.startswith(HEADER):
        raise RecordError("the file does not begin with the header of a file of results; nothing was written")
    return [part for part in re.split(r"(?=^## )", text[len(HEADER):].lstrip("\n"), flags=re.M) if part]


def changed_by_hand(text):
    """Headings of records that are not as they were written."""
    found = []
    for part in entries(text):
        match = CHECKSUM.search(part)
        if not match or checksum(part[:match.start()]) != match.group(1) or part[match.end():].strip():
            found.append(part.splitlines()[0])
    return found


def insert(text, new):
    """The file's text with one record more, before the first that is not newer."""
    old = entries(text)
    if any(part.strip() == new.strip() for part in old):
        raise RecordError(f"this record is there already: {new.splitlines()[0][3:]}")
    date = lambda part: part[3:3 + len("2026-01-01 00:00")]  # noqa: E731
    at = next((place for place, part in enumerate(old) if date(part) <= date(new)), len(old))
    old.insert(at, new)
    return HEADER + "\n" + "\n".join(part.rstrip("\n") + "\n" for part in old)


def write(path, document):
    """Adds the document to the file, which appears whole or not at all."""
    text = HEADER
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        entries(text)  # refused before anything is made of the document
    text = insert(text, entry(document))
    part = f"{path}.{os.getpid()}"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, path)
