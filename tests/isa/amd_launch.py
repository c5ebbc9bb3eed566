"""Runs a code object for AMD without a GPU: blocks one after the other, a block's waves in an order drawn from a seed.

Decides what a wave finds in its registers when it begins, which the kernel's descriptor says, and who runs next. Source: LLVM, user guide
of the AMDGPU backend, "Initial Kernel Execution State". Invariant: equal seeds give equal runs.
"""
import random

import numpy as np

from amd_code import read_kernel
from amd_execute import step
from amd_memory import GlobalMemory, SharedMemory
from amd_wave import ALL, Fault, U, Wave

USER_REGISTERS = ((0, 4), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (6, 1))  # property's bit, scalar registers
KERNARG = 3
GROUP_IDS = (7, 8, 9)  # bits of the resources: x, y, z


def begin(wave, block_index, kernarg):
    kernel = wave.kernel
    wave.vectors["v"][0] = np.arange(wave.index * wave.lanes, (wave.index + 1) * wave.lanes, dtype=U)
    at = 0
    for bit, count in USER_REGISTERS:
        if kernel.properties >> bit & 1:
            if bit == KERNARG:
                wave.scalars[at], wave.scalars[at + 1] = kernarg & ALL, kernarg >> 32
            at += count
    at = kernel.resources >> 1 & 31
    if kernel.generation == 12:
        wave.trap_registers = {7: 0, 9: block_index}
        return
    for bit, value in zip(GROUP_IDS, (block_index, 0, 0)):
        if kernel.resources >> bit & 1:
            wave.scalars[at] = value
            at += 1


class Block:
    def __init__(self, kernel, memory, shared_bytes):
        self.kernel, self.memory, self.shared = kernel, memory, SharedMemory(kernel.lds_bytes + shared_bytes)

    def run(self, index, threads, kernarg, chance):
        waves = [Wave(self, i, self.kernel) for i in range((threads + self.kernel.wave - 1) // self.kernel.wave)]
        for wave in waves:
            begin(wave, index, kernarg)
        while any(not wave.ended for wave in waves):
            ready = [wave for wave in waves if not wave.ended and not wave.at_barrier]
            if not ready:
                self.shared.epoch += 1
                for wave in waves:
                    wave.at_barrier = False
                continue
            wave = chance.choice(ready)
            for _ in range(chance.choice([1, 20, 500, 100000])):
                step(wave)
                if wave.ended or wave.at_barrier:
                    break


def launch(path, processor, name, blocks, threads, shared_bytes, params, memory, seed=1):
    """`params` are the bytes of the kernel's argument, `memory` pairs of address and size that it may reach."""
    kernel = read_kernel(path, processor, name)
    if kernel.scratch_bytes:
        raise Fault(f"{name} needs {kernel.scratch_bytes} bytes of scratch memory")
    if threads % kernel.wave:
        raise Fault(f"{threads} threads are no whole waves of {kernel.wave}")
    space = np.zeros(len(params) + 128, dtype=np.uint8)
    begin_at = -space.ctypes.data % 64
    space[begin_at:begin_at + len(params)] = np.frombuffer(bytes(params), dtype=np.uint8)
    reached = GlobalMemory()
    reached.add(space.ctypes.data + begin_at, kernel.kernarg_bytes)
    for address, size in memory:
        reached.add(address, size)
    chance = random.Random(seed)
    with np.errstate(all="ignore"):
        for index in range(blocks):
            Block(kernel, reached, shared_bytes).run(index, threads, space.ctypes.data + begin_at, chance)
