"""Lists that torch turns into those of a kernel, on the device.

Decides how TJ_CHECK=1 reads them, as the kernel's own check sees other numbers. Invariant: a number that is not allowed becomes none that is. Nothing
waits for the host without TJ_CHECK=1, in a trace, and in a capture.
"""
from __future__ import annotations

import os

import torch

from ._error import Error

_LEAST, _MOST = -2 ** 31, 2 ** 31 - 1  # of i32; no list may have them


def narrowed(numbers: torch.Tensor) -> torch.Tensor:
    """In i32: a number beyond it becomes its nearest, which is as little allowed."""
    return numbers.clamp(_LEAST, _MOST).to(torch.int32) if numbers.dtype == torch.int64 else numbers.to(torch.int32)


def read(numbers: torch.Tensor):
    """The numbers, where TJ_CHECK=1 asks for them here; else None."""
    if torch.compiler.is_compiling() or os.environ.get("TJ_CHECK") != "1" or type(numbers) is not torch.Tensor or numbers.device.type == "meta":
        return None
    if numbers.is_cuda and torch.cuda.is_current_stream_capturing():
        return None
    return numbers.tolist()


def check(function: str, name: str, numbers: torch.Tensor, allowed) -> None:
    """Refuses the first number that is not allowed. allowed: (least, most, words) of the n-th, of the numbers before it."""
    numbers = read(numbers)
    for n, number in enumerate(numbers or ()):
        least, most, words = allowed(n, numbers)
        if not least <= number <= most:
            raise Error(f"{function}: {name}[{n}] is {number}; allowed: {least} to {most}{words}")


def check_ends(function: str, name: str, numbers: torch.Tensor, most: int, words: str, block: int = 1) -> None:
    """Ends that rise from 0 to `most`, of what begins at multiples of block: one that has no rows may end where it would begin."""
    def allowed(n, given):
        before = given[n - 1] if n else 0
        return before, max(most, -(-before // block) * block), words
    check(function, name, numbers, allowed)
