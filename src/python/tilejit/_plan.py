"""Plans: calls that were validated and resolved once."""
from __future__ import annotations

import ctypes

from . import _c
from ._device import Device
from ._error import Error
from ._exchange import api_of
from ._library import check, keeping, library, number
from ._ready import NOTHING, Short, host, records_of, serving
from ._tensors import address_of, handle_of, module, stream_for


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Union

    from ._types import StreamLike, SupportsDLPack


_MOST_KINDS = 64


class Plan:
    """Made by tilejit.plan(). Any thread may run it at any time, also after its runtime was closed.

    tensors: names of what run() takes, in order; those that were absent are left out. device; kernel and target: names; registers: a
    thread's, 0 when unknown. workspace_bytes, workspace_alignment, workspace_zeroed: of memory that a caller may give to run().
    """

    def __init__(self, runtime, call):
        from ._runtime import Handle
        handle, info, owner = ctypes.c_void_p(), _c.PlanInfo(), runtime.handle()
        check(library().tj_plan_create(owner.value, call.op, ctypes.addressof(call.args), ctypes.byref(handle)))
        # A plan needs nothing of its runtime but what the runtime's options call back.
        self._handle = Handle(handle, library().tj_plan_destroy, owner.kept)
        check(library().tj_plan_get_info(handle, ctypes.byref(info)))
        self.tensors = tuple(info.tensors[i].decode() for i in range(info.tensor_count))
        self.workspace_bytes, self.workspace_alignment = info.workspace_bytes, info.workspace_alignment
        self.workspace_zeroed, self.registers = bool(info.workspace_zeroed), info.registers
        self.device, self.kernel, self.target = Device.from_c(info.device), info.kernel.decode(), info.target.decode()
        self._written = call.written()
        self._addresses = ctypes.c_void_p * len(self.tensors)
        self._known: dict = {}  # servers of the short way, by the types of tensors
        self._last = NOTHING  # the one that served last; it looks at the types itself

    @property
    def current(self) -> bool:
        """False once tune() has measured, or prepare() has read, other choices for the device: a new plan may have another kernel. The plan
        stays right."""
        return keeping().tj_plan_is_current(self._handle.value) != 0

    def run(self, *tensors: Union[SupportsDLPack, int], stream: Optional[StreamLike] = None,
            workspace: Union[SupportsDLPack, int, None] = None) -> None:
        """Enqueues the call: a tensor, or an address, for each of `tensors`. Their device, shapes and strides are those of the plan; nobody
        looks at them again. stream as everywhere. workspace: a tensor of workspace_bytes or more, or an address, which nothing else uses until
        the run has ended; None: memory that is taken anew. Raises tilejit.Error."""
        if workspace is None:
            last = self._last  # which lives until it returns, whatever another thread learns
            if (last.run(tensors) if stream is None else last.run(tensors, handle_of(stream))) is not None:
                return
            other = self._known.get(tuple(map(type, tensors)), last)
            if other is not last and (other.run(tensors) if stream is None else other.run(tensors, handle_of(stream))) is not None:
                self._last = other
                return
        if len(tensors) != len(self.tensors):
            raise Error(f"{len(tensors)} tensors are given; allowed: {len(self.tensors)} ({', '.join(self.tensors)})")
        addresses = self._addresses(*(address_of(name, x, name in self._written) for name, x in zip(self.tensors, tensors)))
        if stream is None:
            stream = 0
            if tensors:
                stream = stream_for(tensors[0], self.device.c.kind, self.device.index)
        else:
            stream = handle_of(stream)
        space = None if workspace is None else self._place(workspace)
        check(library().tj_plan_run(self._handle.value, ctypes.addressof(addresses), len(addresses), space, stream or None))
        self._learn(tensors)

    def _place(self, workspace) -> int:
        """The address of a workspace, whose elements may be of any type."""
        numpy = module("numpy")
        if isinstance(workspace, int) or numpy is not None and isinstance(workspace, numpy.generic):
            return number(workspace, "workspace", 0, 2**64 - 1)
        if getattr(workspace, "nbytes", self.workspace_bytes) < self.workspace_bytes:
            raise Error(f"workspace has {workspace.nbytes} bytes; allowed: {self.workspace_bytes} and more")
        if numpy is not None and isinstance(workspace, numpy.ndarray) and not workspace.flags.carray:
            raise Error("workspace is an array that is read only, or has gaps; allowed: one that is contiguous and may be written")
        for read in (lambda: workspace.data_ptr(), lambda: workspace.__array_interface__["data"][0], lambda: workspace.data.ptr):
            try:
                return int(read())
            except AttributeError:
                continue
        return address_of("workspace", workspace, True)

    def _learn(self, tensors) -> None:
        """Tensors of these types may take the short way from now on."""
        kinds = tuple(map(type, tensors))
        apis = {api_of(kind) for kind in kinds}
        if self.device.kind != "cpu" and len(kinds) <= _c.MAX_OBJECTS and len(apis) == 1 and None not in apis and len(self._known) < _MOST_KINDS:
            value, records, types = ctypes.c_void_p(), records_of(kinds), (ctypes.c_void_p * len(kinds))(*map(id, kinds))
            made = library().tj_object_plan_create(self._handle.value, types, apis.pop(), host(), records and id(records), ctypes.byref(value))
            if made == _c.OK:
                run = serving("tj_object_plan_serve", value.value)
                self._last = self._known[kinds] = Short(value, run, library().tj_object_plan_destroy, (kinds, records, self._handle.kept))

    def __repr__(self) -> str:
        return f"<tilejit.Plan of {self.kernel} on {self.device} ({self.target}): {', '.join(self.tensors)}>"
