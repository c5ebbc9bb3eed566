"""Where tensors live: the names of devices."""
from __future__ import annotations

import collections

from . import _c
from ._error import Error
from ._library import number, shown


class Device(collections.namedtuple("Device", "kind index target", defaults=(0, ""))):
    """kind: "cpu" (the model), "cuda" or "hip"; index: the driver's ordinal; target: what kernels are made for, where it is known.

    >>> import tilejit
    >>> str(tilejit.Device("cuda", 1))
    'cuda:1'
    """

    __slots__ = ()

    def __str__(self) -> str:
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.index}"

    @property
    def c(self):
        return _c.Device(_c.DEVICES[self.kind], self.index)

    @classmethod
    def from_c(cls, device, target: str = "") -> "Device":
        return cls(_c.DEVICE_NAMES[device.kind], device.index, target)

    @classmethod
    def of(cls, given) -> "Device":
        """A device from its name ("cuda:1", "cpu"), a Device, or torch's."""
        if isinstance(given, cls):
            kind, index = given.kind, given.index
        else:
            kind, _, rest = str(given).partition(":")
            index = int(rest) if rest.isdecimal() and len(rest) <= 10 else 0 if rest == "" else -1
        if kind not in _c.DEVICES or isinstance(index, int) and index < 0:
            raise Error(f"device is {shown(given)}; allowed: cpu, or cuda or hip with a number, such as cuda:0")
        return cls(kind, number(index, "device", 0, 2**31 - 1), getattr(given, "target", ""))
