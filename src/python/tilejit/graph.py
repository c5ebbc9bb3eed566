"""Dependence graphs: build one in code or read it from JSON, schedule it, look at what came out.

Members are called as the keys of the JSON form, and mean the same; src/graph/README.md explains each. `async` and `namespace` are words of
languages: they are async_ and namespace here. Times are cycles of the graph's own, sizes are bytes. Needs no device and no compiler.

Numbers of instructions, edges, values and the graph may be texts, too: expressions over facts of the target and the graph's parameters,
{"cycles": "16384 / matrix_flops_per_cycle"}; so may texts of Code.config that begin with "=".

Decides how a graph stands in Python. What is legal, and every text, is the library's.
"""
from __future__ import annotations

import ctypes
import dataclasses
import json as _json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Union

from ._error import Error
from ._library import check, encoded, library, shown
from ._schedule import Node, Overlap, Ring, Role, Tile, Turn, Turns, Unit

_MANY = {"instructions", "edges", "values", "candidates"}
Number = Union[int, str]  # or an expression


def _key(name: str) -> str:
    return name.rstrip("_")


def _document(thing) -> dict:
    """What is not as usual, under the names of the JSON form."""
    out = {}
    for each in dataclasses.fields(thing):
        value = getattr(thing, each.name)
        usual = each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
        if type(value) is type(usual) and value == usual:
            continue
        if isinstance(value, (list, tuple)) and each.name in _MANY:
            value = [_document(one) if dataclasses.is_dataclass(one) else one for one in value]
        elif dataclasses.is_dataclass(value):
            value = _document(value)
        out[_key(each.name)] = value
    return out


def _plain(value):
    """numpy's numbers and arrays, and what is like them, as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _written(document, what: str, stage: str) -> str:
    try:
        return _json.dumps(document, default=_plain)
    except (TypeError, ValueError) as error:
        raise Error(f"{what} no JSON: {error}; allowed: texts, numbers, flags, lists and dictionaries", stage) from None


def _from(kind, document: dict):
    names = {_key(each.name): each.name for each in dataclasses.fields(kind)}
    return kind(**{names[key]: value for key, value in document.items() if key in names})


@dataclass
class Machine:
    """A machine that is described. One that has a name is that name: Graph.machine = "hopper", "blackwell", "sm_90a"."""

    functional_units: Dict[str, int] = field(default_factory=dict)
    memory: Optional[Dict[str, int]] = None
    warps_per_group: int = 4
    warp_size: int = 32
    registers: int = 65536
    max_registers_per_thread: int = 255
    register_step: int = 8
    register_roles: bool = False
    shared_barriers: bool = True
    overlapped_launch: bool = True
    max_cluster: int = 1

    @classmethod
    def described(cls, name: str) -> "Machine":
        """The description of a machine that has a name.

        >>> import tilejit
        >>> tilejit.graph.Machine.described("hopper").functional_units["TC"]
        1
        """
        probe = {"name": "machine", "machine": name, "instructions": [{"name": "none", "cycles": 1}]}
        return _from(cls, _json.loads(_text(library().tj_graph, _written(probe, f"name is {shown(name)}, which is", "graph"), "machine")))


@dataclass
class Instruction:
    """What runs once an iteration, or once a tile. fu: the unit that it holds for `cycles`; rrt: rows in the place of both. variant: the tag of a
    cheaper body, right in the iterations from what the device function variant_begin says until what variant_end says."""

    name: str
    cycles: Optional[Number] = None
    fu: Optional[str] = None
    rrt: Optional[Dict[str, List[int]]] = None
    latency: Optional[Number] = None
    issue_cycles: Optional[Number] = None
    variable_latency: bool = False
    streaming: bool = False
    memory: Dict[str, Number] = field(default_factory=dict)
    registers: Number = 0
    warp_cycles: Number = 0
    scope: str = "iteration"
    async_: Optional[str] = None
    drains: bool = False
    warps: Optional[Number] = None
    body: Optional[str] = None
    context: Optional[str] = None
    copy: Number = 0
    merges: bool = False
    variant: Optional[str] = None
    variant_begin: Optional[str] = None
    variant_end: Optional[str] = None
    max_variant_begin: Optional[Number] = None
    cache_hint: str = "none"


@dataclass
class Edge:
    """t_dst + delta * II >= t_src + delay."""

    src: str
    dst: str
    delay: Number
    delta: Number = 0
    blocking: bool = False
    value: Optional[str] = None
    spill_cycles: Number = 0
    same_role: Optional[bool] = None
    updates: bool = False


@dataclass
class Value:
    """What roles exchange through memory: it becomes a ring of slots."""

    name: str
    slot_bytes: Number = 0
    copied_bytes: Optional[Number] = None
    alignment: Number = 1024
    scope: str = "iteration"
    min_slots: Number = 1
    max_slots: Optional[Number] = None
    shared_by: Number = 1
    shared_stride: Number = 1
    within_warp: bool = False
    space: str = "shared"
    lies_in: str = ""  # the name of another value, in whose place in shared memory this one lies


@dataclass
class Code:
    """The texts of a kernel's unit. config: flags, numbers and names of types. definitions: preprocessor names, "WIDE", "PARTS=4"."""

    namespace: str = ""
    includes: List[str] = field(default_factory=list)
    params_type: str = ""
    config: Dict[str, Union[bool, int, str]] = field(default_factory=dict)
    definitions: List[str] = field(default_factory=list)


@dataclass
class Candidate:
    """A form of a graph: parameters with other values. The form that does most useful flops in a cycle is taken."""

    name: str
    parameters: Dict[str, Union[int, float, str]] = field(default_factory=dict)


def _text(call, *arguments, names=None) -> str:
    out = ctypes.c_char_p()
    names = names or (("graph", "options", "format") if len(arguments) == 3 else ("graph", "format"))
    check(call(*(encoded(each, name) for each, name in zip(arguments, names)), ctypes.byref(out)))
    return out.value.decode("utf-8", "replace")


def _resolved(graph: str, target: str, candidate: str) -> str:
    return _text(library().tj_graph_resolved, graph, target, candidate, names=("graph", "target", "candidate"))


@dataclass
class Graph:
    """A loop and the machine that it is for. Plain data: nothing is checked before it is used.

    values: None where each result in SMEM is one; a list, also an empty one, is all that there are. walk: how tiles come to blocks,
    "one_tile", "persistent", "dynamic", "split" or "sliced". ranges: "peeled" or "guarded" loops of instructions with a variant. options: how it
    is scheduled where a call says nothing else, as schedule() has them. targets: further machines, by name, that it serves. parameters: names
    for expressions. candidates: forms with other parameters, compared by useful_flops of a tile of typical_iterations. trials: launches by
    which tj-check and tj-warm try its kernel, as dictionaries of the JSON form.

    >>> import tilejit
    >>> graph = tilejit.Graph("product", "hopper", [
    ...     tilejit.graph.Instruction("load", 1, "TMA", variable_latency=True), tilejit.graph.Instruction("mma", 2, "TC")],
    ...     [tilejit.graph.Edge("load", "mma", 1), tilejit.graph.Edge("mma", "mma", 2, delta=1)])
    >>> schedule = tilejit.schedule(graph)
    >>> schedule.ii, schedule.proven_ii
    (2, True)
    """

    name: str = "graph"
    machine: Union[str, Machine] = "hopper"
    instructions: List[Instruction] = field(default_factory=list)
    edges: List[Edge] = field(default_factory=list)
    values: Optional[List[Value]] = None
    code: Optional[Code] = None
    cluster: Number = 1
    pairs: bool = False
    blocks_per_sm: Number = 1
    walk: str = "persistent"
    grids: str = "ordered"
    ranges: str = "peeled"
    piece_bytes: Number = 0
    slices: Number = 0
    most_iterations: Number = 0
    least_smem_bytes: Number = 0
    flops_per_iteration: Union[float, str] = 0
    overhead_cycles: Union[float, str] = 0
    options: Dict[str, Union[int, bool]] = field(default_factory=dict)
    targets: List[str] = field(default_factory=list)
    parameters: Dict[str, Union[int, float, str]] = field(default_factory=dict)
    candidates: List[Candidate] = field(default_factory=list)
    trials: List[Dict[str, object]] = field(default_factory=list)
    typical_iterations: Union[float, str] = 1
    useful_flops: Union[float, str] = 0

    @classmethod
    def parse(cls, text: str, name: str = "graph") -> "Graph":
        """The graph of a JSON text, which may say its name itself. Raises tilejit.Error that names the place, its value and what is
        allowed.

        >>> import tilejit
        >>> tilejit.Graph.parse('{"machine": "hopper", "instructions": [{"name": "a", "cycles": 1, "fu": "TC"}]}').instructions[0].fu
        'TC'
        """
        _text(library().tj_graph, text, "json")  # what is not legal is said by the reader
        document = _json.loads(text)
        document.setdefault("name", name)
        graph = _from(cls, document)
        if isinstance(graph.machine, dict):
            graph.machine = _from(Machine, graph.machine)
        graph.instructions = [_from(Instruction, each) for each in graph.instructions]
        graph.edges = [_from(Edge, each) for each in graph.edges]
        graph.candidates = [_from(Candidate, each) for each in graph.candidates]
        if graph.values is not None:
            graph.values = [_from(Value, each) for each in graph.values]
        if graph.code is not None:
            graph.code = _from(Code, graph.code)
        return graph

    def _given(self) -> str:
        document = {"machine": None, "instructions": [], **_document(self)}
        document["machine"] = _document(self.machine) if dataclasses.is_dataclass(self.machine) else self.machine
        return _written(document, f"graph '{self.name}' holds what is", "graph")

    def json(self) -> str:
        """The JSON text, without what is as usual: one line for each instruction, value and edge. Raises as check() does."""
        return _text(library().tj_graph, self._given(), "json")

    def resolved(self, target: str = "", candidate: str = "") -> "Graph":
        """The graph for one machine ("": its own) and in one form ("": the parameters as they stand), without expressions, parameters and
        candidates. Raises tilejit.Error that lists the graph's machines or forms where it has no such one."""
        return Graph.parse(_resolved(self._given(), target, candidate))

    def check(self) -> None:
        """Raises tilejit.Error where this is no legal graph."""
        self.json()

    def text(self) -> str:
        """A listing to read: machine, instructions, edges, values."""
        return _text(library().tj_graph, self._given(), "text")

    def schedule(self, **options) -> "Schedule":
        """tilejit.schedule(self, **options)."""
        return schedule(self, **options)


class Schedule:
    """When and where each instruction of a graph runs; made by tilejit.schedule(). A notebook shows its picture.

    ii, length: cycles between iterations, and of one. resource_bound, recurrence_bound: no smaller interval serves the units (ResMII), the
    cycles of edges (RecMII). proven_ii, proven_length; certificate says why. stages: iterations in flight. joint: roles and cycles are from
    one search; search_nodes: that it visited. candidate: the form of the graph that was taken, or None. ranges: "peeled" or "guarded" where a
    node has a variant, else None. tile: how tiles follow each other, None where the graph has more than 128 instructions or a
    tile's last iterations cannot keep the interval. nodes, roles, rings, turns, units: as the classes of this module.
    """

    def __init__(self, graph: str, options: str):
        self._graph, self._options = graph, options
        self._json = self._as("json")
        found: Dict[str, Any] = _json.loads(self._json)
        self.graph, self.machine, self.candidate = found["graph"], found["machine"], found.get("candidate")
        self.ii, self.length = found["ii"], found["length"]
        self.stages = -(-self.length // self.ii)
        self.resource_bound, self.recurrence_bound = found["res_mii"], found["rec_mii"]
        self.proven_ii, self.proven_length, self.certificate = found["proven_ii"], found["proven_length"], found["certificate"]
        self.joint, self.search_nodes = found["joint"], found["search_nodes"]
        self.nodes = [Node(**each) for each in found["nodes"]]
        self.roles = [Role(**each) for each in found["roles"]]
        self.rings = [Ring(**each) for each in found["rings"]]
        self.turns = [Turns(each["unit"], [Turn(**turn) for turn in each["turns"]]) for each in found["order_barriers"]]
        self.units = [Unit(**each) for each in found["units"]]
        self.ranges, tile = found.get("ranges"), found["tile"]
        self.tile = tile and Tile(**{**tile, "overlaps": [Overlap(**each) for each in tile["overlaps"]]})
        self._blocks_per_sm, self._overhead_cycles = found["blocks_per_sm"], found["overhead_cycles"]

    def _as(self, form: str) -> str:
        return _text(library().tj_schedule, self._graph, self._options, form)

    def node(self, name: str) -> Node:
        """Raises tilejit.Error where no instruction has this name."""
        for each in self.nodes:
            if each.name == name:
                return each
        raise Error(f"name is {shown(name)}; allowed: {', '.join(each.name for each in self.nodes)}", "schedule")

    def verify(self) -> List[str]:
        """Checks it from the graph alone, by code that shares nothing with the search: one text a violation, none when it is right."""
        return self._as("verify").splitlines()

    def predicted_tflops(self, sm_count: int, clock_ghz: float, iterations: float) -> float:
        """TFLOP/s of a device whose blocks do tiles of so many iterations, from the graph's flops_per_iteration and overhead_cycles."""
        for name, value in (("sm_count", sm_count), ("iterations", iterations)):
            if not value >= 1:
                raise Error(f"{name} is {value}; allowed: 1 and up", "schedule")
        if not clock_ghz > 0:
            raise Error(f"clock_ghz is {clock_ghz}; allowed: above 0", "schedule")
        flops = _json.loads(_resolved(self._graph, "", self.candidate or "")).get("flops_per_iteration", 0)
        cycles = self._overhead_cycles + (iterations - 1) * self.ii + self.length
        return flops * iterations / cycles * clock_ghz * sm_count * self._blocks_per_sm / 1e3

    def text(self) -> str:
        """Bounds, roles with their nodes, rings, turns."""
        return self._as("text")

    def json(self) -> str:
        """The keys stand in src/sched/README.md."""
        return self._json

    def svg(self) -> str:
        """A picture: units in the steady state, roles over the first iterations."""
        return self._as("svg")

    def trace(self) -> str:
        """For Perfetto or chrome://tracing, one microsecond a cycle."""
        return self._as("trace")

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        proven = "proven" if self.proven_ii and self.proven_length else "not proven"
        return f"<tilejit.Schedule of {self.graph} on {self.machine}: II {self.ii}, length {self.length}, {proven}, {len(self.roles)} roles>"


def schedule(graph: Union[Graph, str], **options) -> Schedule:
    """The shortest interval, then the shortest iteration, then the fewest roles.

    graph: a Graph, or its JSON text. options go before the graph's: max_stages, min_ii, max_slots, max_roles, node_budget,
    streaming_latency_zero, turns, joint, mixed_roles, copies_apart; tj::ScheduleOptions (include/tilejit/graph.hpp) says what each means.
    Raises tilejit.Error: "graph" where the graph is not legal; "schedule" for an option, or with the code "unsupported" where no schedule
    fits, naming what is lacking.

    >>> import tilejit
    >>> text = '{"machine": "hopper", "instructions": [{"name": "a", "cycles": 3, "fu": "TC"}]}'
    >>> tilejit.schedule(text, min_ii=5).ii
    5
    """
    text = graph._given() if isinstance(graph, Graph) else graph
    given = {key: value for key, value in options.items() if value is not None}
    return Schedule(text, _written(given, f"options are {shown(given)}, which is", "schedule"))
