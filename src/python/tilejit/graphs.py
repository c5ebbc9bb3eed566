"""Graphs with known schedules: loops of attention and of a product, with their costs as parameters, and a graph from plain dictionaries.

Costs are cycles, one an operation on a tile; machine is a name or a tilejit.graph.Machine. sub_tiles: 1 to 3 tiles of rows side by side; each
has instructions of its own ("S.0", "S.1"), and all share what is loaded for K and V, or B. Needs no device and no compiler.

Decides names and defaults of the parameters. The graphs are the library's (tj_graph_example).

>>> import tilejit
>>> schedule = tilejit.graphs.flash_attention_forward_hopper(gemm_cycles=1, exp_cycles=2, sub_tiles=2).schedule()
>>> schedule.ii, [turn.role for turn in schedule.turns[0].turns]
(4, ['compute0', 'compute1'])
"""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Dict, List, Optional, Union

from ._library import check, encoded, library
from .graph import Edge, Graph, Instruction, Machine, _document, _written

__all__ = ["custom_kernel", "flash_attention_forward_blackwell", "flash_attention_forward_hopper", "flash_attention_forward_simplified",
           "simple_gemm_pipeline"]

MachineLike = Union[str, Machine]


def _example(name: str, machine: Optional[MachineLike], sub_tiles: int, **costs: int) -> Graph:
    document: Dict[str, Any] = {"costs": costs, "sub_tiles": sub_tiles}
    if machine is not None:
        document["machine"] = _document(machine) if dataclasses.is_dataclass(machine) else machine
    text = _written(document, f"parameters of '{name}' hold what is", "graph")
    out = ctypes.c_char_p()
    check(library().tj_graph_example(encoded(name, "name"), encoded(text, "parameters"), ctypes.byref(out)))
    return Graph.parse(out.value.decode())


def flash_attention_forward_simplified(machine: Optional[MachineLike] = None, gemm_cycles: int = 1, exp_cycles: int = 1, *,
                                       sub_tiles: int = 1) -> Graph:
    """S = gemm(Q, K), P = exp(S), O += gemm(P, V), with everything in place already. machine: None for hopper."""
    return _example("simplified_fa", machine, sub_tiles, gemm=gemm_cycles, exp=exp_cycles)


def flash_attention_forward_hopper(tma_cycles: int = 1, gemm_cycles: int = 2, exp_cycles: int = 2, *, sub_tiles: int = 1,
                                   machine: Optional[MachineLike] = None) -> Graph:
    """The same with loads of K and V. With two sub-tiles, the exponentials of one run under the products of the other. Where they take longer
    than a product, the two roles take turns on TC."""
    return _example("fa_hopper", machine, sub_tiles, tma=tma_cycles, gemm=gemm_cycles, exp=exp_cycles)


def flash_attention_forward_blackwell(tma_cycles: int = 1, gemm_cycles: int = 1, exp_cycles: int = 2, tmem_cycles: int = 1, *,
                                      sub_tiles: int = 1, machine: Optional[MachineLike] = None) -> Graph:
    """Products twice as fast, with their results in tensor memory: scores are read from there, weights written back."""
    return _example("fa_blackwell", machine, sub_tiles, tma=tma_cycles, gemm=gemm_cycles, exp=exp_cycles, tmem=tmem_cycles)


def simple_gemm_pipeline(machine: Optional[MachineLike] = None, load_cycles: int = 1, compute_cycles: int = 2, *, sub_tiles: int = 1) -> Graph:
    """C += gemm(A, B) with loads of A and B. machine: None for hopper."""
    return _example("simple_gemm", machine, sub_tiles, load=load_cycles, compute=compute_cycles)


def custom_kernel(machine: MachineLike, instructions: List[Union[Instruction, Dict[str, Any]]], edges: List[Union[Edge, Dict[str, Any]]], *,
                  name: str = "custom") -> Graph:
    """A graph from dictionaries with the keys of src/graph/README.md: name, cycles, fu, variable_latency, streaming, memory; src, dst, delay,
    delta. Raises tilejit.Error that names the place, its value and what is allowed.

    >>> import tilejit
    >>> graph = tilejit.graphs.custom_kernel("hopper", [{"name": "S", "cycles": 2, "fu": "TC"}], [{"src": "S", "dst": "S", "delay": 3, "delta": 1}])
    >>> graph.schedule().ii
    3
    """
    return Graph.parse(Graph(name, machine, list(instructions), list(edges)).json())
