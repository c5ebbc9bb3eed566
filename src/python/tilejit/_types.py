"""Types of arguments, for type checkers alone: nothing imports this when a program runs.

A result has the type of the argument that it is made like. Invariant: what is written here is what _tensors.py and _device.py take.
"""
from __future__ import annotations

import os
from typing import Any, Protocol, Tuple, TypeVar, Union

from ._device import Device
from ._tensors import Spec


class SupportsDLPack(Protocol):
    """A tensor of torch, numpy, JAX, CuPy, ..."""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...

    def __dlpack_device__(self) -> Tuple[Any, Any]: ...


class Allocator(Protocol):
    """Memory for workspaces: at least so many bytes at a multiple of 256, for work on the stream; 0 where there is none."""

    def allocate(self, device: Device, bytes: int, stream: int) -> int: ...

    def deallocate(self, device: Device, address: int, bytes: int, stream: int) -> None: ...


Tensor = TypeVar("Tensor", bound=SupportsDLPack)
TensorLike = Union[SupportsDLPack, Spec]
DeviceLike = Union[Device, str, Any]  # torch.device, by its text
StreamLike = Union[int, Any]  # torch's, CuPy's, cuda.core's
Path = Union[str, "os.PathLike[str]"]
