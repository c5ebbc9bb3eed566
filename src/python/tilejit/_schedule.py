"""The parts of a schedule, as tilejit.Schedule has them. Decides their names in Python."""
from __future__ import annotations

from dataclasses import dataclass
from typing import List


@dataclass(frozen=True)
class Node:
    """stage: cycle / II; so many iterations behind the newest it runs. role: its role's name. variant: the cheaper body of some iterations, ""
    where there is none; variant_begin, variant_end: the device functions that say which, "" for the tile's first and last one."""

    name: str
    cycle: int
    stage: int
    role: str
    scope: str
    variant: str = ""
    variant_begin: str = ""
    variant_end: str = ""


@dataclass(frozen=True)
class Role:
    """Warps that run the same instructions. registers: a thread's, 0 as compiled. nodes: names, in the order of their issue."""

    name: str
    warps: int
    registers: int
    nodes: List[str]


@dataclass(frozen=True)
class Ring:
    """The slots of a value, with the names of the roles that fill and read them."""

    value: str
    slots: int
    slot_bytes: int
    shared_by: int
    producer: str
    consumers: List[str]
    lies_in: str = ""  # the value in whose place it lies


@dataclass(frozen=True)
class Turn:
    role: str
    nodes: List[str]


@dataclass(frozen=True)
class Turns:
    """Roles that alternate on a unit: before its nodes each waits for the role before it, the first for the last."""

    unit: str
    turns: List[Turn]


@dataclass(frozen=True)
class Overlap:
    """cycles: the role issues its first node of a tile so long before the tile before it ends."""

    role: str
    cycles: int


@dataclass(frozen=True)
class Tile:
    """Tiles that follow each other: a block takes n * ii + c cycles for each, where it has n >= n0 iterations.

    periods: cycles for 0, 1, ... iterations, up to n0 and at least to 2. proven: c is least for all n >= n0. walks: a block does tile after
    tile; else one, and the next block begins when it ends. alone: cycles beside n * ii of a tile that no other comes before or after,
    where it has n >= alone_n0 iterations. certificate: the waits that set c.
    """

    ii: int
    c: int
    n0: int
    proven: bool
    walks: bool
    periods: List[int]
    alone: int
    alone_n0: int
    certificate: str
    overlaps: List[Overlap]


@dataclass(frozen=True)
class Unit:
    """cycles: that an iteration holds, times instances."""

    name: str
    capacity: int
    cycles: int
