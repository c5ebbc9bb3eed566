"""A wave: its registers, what it has under way, and how operands name them.

Decides that a register which a load has not brought yet may not be used before a wait for that load: whoever would read or write it is
reported. Does not decide what instructions do. Source: AMD RDNA 3 and 4, CDNA 2 and 3 ISA reference guides, "Wait counters".
Invariant: registers that nobody has written hold a pattern that is a NaN.
"""
import functools
import re

import numpy as np

U, WIDE = np.uint32, np.uint64
ALL = 0xffffffff
SHARED = ("shared",)  # stands among an access's registers for the access to LDS itself


class Fault(Exception):
    """A step that a program may not take, or that is not known here."""


@functools.lru_cache(maxsize=None)
def vector_name(text):
    """(file, first, count) of "v3", "a[4:7]"; None of anything else."""
    match = re.fullmatch(r"([va])(\d+)|([va])\[(\d+):(\d+)\]", text)
    if not match:
        return None
    if match.group(1):
        return match.group(1), int(match.group(2)), 1
    return match.group(3), int(match.group(4)), int(match.group(5)) - int(match.group(4)) + 1


@functools.lru_cache(maxsize=None)
def half_name(text):
    """("v3", 16) of "v3.h", ("v3", 0) of "v3.l": halves of registers, as newer compilers write them for gfx11 and gfx12; else None."""
    match = re.fullmatch(r"(v\d+)\.([lh])", text)
    return (match.group(1), 16 if match.group(2) == "h" else 0) if match else None


@functools.lru_cache(maxsize=None)
def scalar_name(text):
    match = re.fullmatch(r"s(\d+)|s\[(\d+):(\d+)\]", text)
    if not match:
        return None
    return (int(match.group(1)), 1) if match.group(1) else (int(match.group(2)), int(match.group(3)) - int(match.group(2)) + 1)


@functools.lru_cache(maxsize=None)
def constant(text):
    if re.fullmatch(r"-?(\d+|0x[0-9a-f]+)", text):
        return int(text, 0)
    if re.fullmatch(r"-?\d+\.\d+(e[+-]?\d+)?", text):
        return int(np.float32(float(text)).view(U))
    return None


class Wave:
    def __init__(self, block, index, kernel):
        self.block, self.index, self.kernel, self.lanes = block, index, kernel, kernel.wave
        self.vectors = {"v": np.full((512, self.lanes), 0x7fc0dead, dtype=U), "a": np.full((256, self.lanes), 0x7fc0dead, dtype=U)}
        self.scalars = [0xdead0000 + i for i in range(128)]
        self.trap_registers = {}
        self.vcc, self.exec, self.scc, self.m0 = 0, (1 << self.lanes) - 1, 0, 0
        self.at, self.ended, self.at_barrier = 0, False, False
        self.loads, self.shared = [], []  # registers of each access under way: of global memory; of LDS and of scalar loads
        self.under_way = {}  # register -> what brings it, how often

    # ---- scalar operands ------------------------------------------------------------------------------------------
    def free(self, register):
        if register in self.under_way:
            raise Fault(f"uses {register[0]}{register[1]} before a wait for the {self.under_way[register][0]} that brings it")

    def special(self, text):
        return {"vcc": self.vcc, "vcc_lo": self.vcc & ALL, "vcc_hi": self.vcc >> 32, "exec": self.exec, "exec_lo": self.exec & ALL, "exec_hi": self.exec >> 32,
                "m0": self.m0, "scc": self.scc, "null": 0}.get(text)

    def scalar(self, text, bits=32):
        name = scalar_name(text)
        if name:
            value = 0
            for i in range(name[1]):
                self.free(("s", name[0] + i))
                value |= self.scalars[name[0] + i] << 32 * i
            return value
        value = constant(text)
        if value is not None:
            return value & ((1 << bits) - 1)
        value = self.special(text)
        if value is not None:
            return value
        if text.startswith("ttmp"):
            return self.trap_registers[int(text[4:])]
        raise Fault(f"operand {text} is not known")

    def set_scalar(self, text, value):
        name, low, high = scalar_name(text), value & ALL, value >> 32 & ALL
        if name:
            for i in range(name[1]):
                self.free(("s", name[0] + i))
                self.scalars[name[0] + i] = value >> 32 * i & ALL
        elif text in ("vcc", "exec"):
            setattr(self, text, value & ((1 << 64) - 1))
        elif text in ("vcc_lo", "exec_lo"):
            setattr(self, text[:-3], getattr(self, text[:-3]) & ~ALL | low)
        elif text in ("vcc_hi", "exec_hi"):
            setattr(self, text[:-3], getattr(self, text[:-3]) & ALL | low << 32)
        elif text == "m0":
            self.m0 = low
        elif text != "null":
            raise Fault(f"operand {text} is not known ({high:x})")

    # ---- vector operands ------------------------------------------------------------------------------------------
    def bits(self, mask):
        return np.array([mask >> lane & 1 for lane in range(self.lanes)], dtype=bool)

    def mask_of(self, bits):
        return sum(1 << int(lane) for lane in np.flatnonzero(bits))

    def active(self):
        return self.bits(self.exec)

    def register(self, file, place):
        """The register itself: writing into what comes back is writing it."""
        self.free((file, place))
        return self.vectors[file][place]

    def incoming(self, file, place, what):
        """The same for what an access brings, which may follow one of its kind into the register: those end in order."""
        if self.under_way.get((file, place), (None, 0))[0] != what:
            self.free((file, place))
        return self.vectors[file][place]

    def words(self, text):
        """One word a lane, with the sign and magnitude that the operand asks for."""
        negative = text.startswith("-") and constant(text) is None
        text = text[1:] if negative else text
        magnitude, text = text.startswith("|"), text.strip("|")
        half = half_name(text)
        if half and (negative or magnitude):
            raise Fault(f"the sign of the half {text} is not known")
        if half:
            return self.words(half[0]) >> U(half[1]) & U(0xffff)
        name = vector_name(text)
        value = self.register(name[0], name[1]).copy() if name else np.full(self.lanes, self.scalar(text) & ALL, dtype=U)
        value = value & U(0x7fffffff) if magnitude else value
        return value ^ U(0x80000000) if negative else value

    def wide(self, text):
        name = vector_name(text)
        if not name:
            return np.full(self.lanes, self.scalar(text, 64) & ((1 << 64) - 1), dtype=WIDE)
        return self.register(name[0], name[1]).astype(WIDE) | self.register(name[0], name[1] + 1).astype(WIDE) << WIDE(32)

    def store(self, text, values):
        half = half_name(text)
        if half:  # the other half stays
            text, shift = half
            values = self.words(text) & U(0xffff0000 >> shift) | (values & U(0xffff)) << U(shift)
        file, place, _ = vector_name(text)
        active = self.active()
        self.register(file, place)[active] = values[active]

    def store_wide(self, text, values):
        file, place, _ = vector_name(text)
        active = self.active()
        self.register(file, place)[active] = (values & WIDE(ALL)).astype(U)[active]
        self.register(file, place + 1)[active] = (values >> WIDE(32)).astype(U)[active]

    # ---- what is under way ----------------------------------------------------------------------------------------
    def begin(self, queue, registers, what):
        queue.append(registers)
        for register in registers:
            if register != SHARED:
                self.under_way[register] = (what, self.under_way.get(register, (what, 0))[1] + 1)

    def finish(self, queue, access):
        queue.remove(access)
        for register in access:
            what, count = self.under_way.pop(register, (None, 0))
            if count > 1:
                self.under_way[register] = (what, count - 1)

    def wait(self, queue, most, chosen=lambda access: True):
        """Until at most so many of the chosen ones are under way; they end in order."""
        accesses = [access for access in queue if chosen(access)]
        for access in accesses[:max(0, len(accesses) - most)]:
            self.finish(queue, access)
