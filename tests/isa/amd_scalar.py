"""The scalar instructions of AMD's archs and what they do to a wave's registers.

Decides values, the condition bit and masks of lanes. Source: AMD RDNA 3 and 4, CDNA 2 and 3 ISA reference guides. Invariant: an instruction
that is not here is an error, never a guess.
"""
import re

import numpy as np

from amd_vector import ALL, COMPARISONS

COMPARE = {"eq": lambda a, b: a == b, "lg": lambda a, b: a != b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b}
LOGIC = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b), "xnor": lambda a, b: ~(a ^ b),
         "and_not1": lambda a, b: a & ~b, "andn2": lambda a, b: a & ~b, "or_not1": lambda a, b: a | ~b, "orn2": lambda a, b: a | ~b}
SAVE_EXEC = {"and": lambda a, e: a & e, "or": lambda a, e: a | e, "xor": lambda a, e: a ^ e, "andn2": lambda a, e: a & ~e, "and_not1": lambda a, e: a & ~e,
             "andn1": lambda a, e: ~a & e, "and_not0": lambda a, e: ~a & e}


def signed(value, bits=32):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def half(value):
    """A 16-bit constant, extended."""
    return signed(value, 16) & ALL


class Scalar:
    """One instruction at a time on a wave; the name is s_<what>_<type>."""

    def __init__(self, wave, name, operands):
        self.wave, self.operands = wave, operands
        self.what, self.type = name[2:].rsplit("_", 1)
        self.bits = 64 if self.type.endswith("64") else 32

    def value(self, place, bits=None):
        return self.wave.scalar(self.operands[place], bits or self.bits) & ((1 << (bits or self.bits)) - 1)

    def store(self, value, condition=None):
        self.wave.set_scalar(self.operands[0], value & ((1 << self.bits) - 1))
        if condition is not None:
            self.wave.scc = int(condition)

    def run(self):
        for each in (self.moves, self.logic, self.sums, self.shifts, self.bit_counts, self.comparisons):
            if each():
                return
        raise NotImplementedError(f"scalar instruction s_{self.what}_{self.type}")

    def moves(self):
        what, value = self.what, self.value
        if what == "mov":
            self.store(value(1))
        elif what == "movk":
            self.store(half(value(1)))
        elif what == "cselect":
            self.store(value(1) if self.wave.scc else value(2))
        elif what.endswith("_saveexec"):
            mask, before = value(1), self.wave.exec
            self.wave.exec = SAVE_EXEC[what[:-len("_saveexec")]](mask, before) & ((1 << self.bits) - 1)
            self.store(before, self.wave.exec != 0)
        else:
            return False
        return True

    def logic(self):
        if self.what == "not":
            result = ~self.value(1)
        elif self.what in LOGIC:
            result = LOGIC[self.what](self.value(1), self.value(2))
        else:
            return False
        result &= (1 << self.bits) - 1
        self.store(result, result != 0)
        return True

    def sums(self):
        what, value, wave = self.what, self.value, self.wave
        if what in ("add", "add_co") and self.bits == 32:
            total = value(1) + value(2)
            overflow = not -2 ** 31 <= signed(value(1)) + signed(value(2)) < 2 ** 31
            self.store(total, total > ALL if self.type == "u32" else overflow)
        elif what in ("sub", "sub_co") and self.bits == 32:
            overflow = not -2 ** 31 <= signed(value(1)) - signed(value(2)) < 2 ** 31
            self.store(value(1) - value(2), value(1) < value(2) if self.type == "u32" else overflow)
        elif what in ("addc", "add_co_ci"):
            total = value(1) + value(2) + wave.scc
            self.store(total, total > ALL)
        elif what in ("subb", "sub_co_ci"):
            total = value(1) - value(2) - wave.scc
            self.store(total, total < 0)
        elif what in ("add", "add_nc", "sub", "sub_nc"):
            self.store(value(1) + value(2) if what.startswith("add") else value(1) - value(2))
        elif what in ("addk", "addk_co"):
            self.store(value(0) + half(value(1)), not -2 ** 31 <= signed(value(0)) + signed(half(value(1))) < 2 ** 31)
        elif what == "mul":
            self.store(value(1) * value(2))
        elif what == "mulk":
            self.store(value(0) * half(value(1)))
        elif what == "mul_hi":
            a, b = (signed(value(1)), signed(value(2))) if self.type == "i32" else (value(1), value(2))
            self.store(a * b >> 32)
        elif re.fullmatch(r"lshl[1-4]_add", what):
            total = (value(1) << int(what[4])) + value(2)
            self.store(total, total > ALL)
        elif what in ("min", "max"):
            a, b = (signed(value(1)), signed(value(2))) if self.type == "i32" else (value(1), value(2))
            first = a < b if what == "min" else a > b
            self.store(value(1) if first else value(2), first)
        elif what == "abs":
            self.store(abs(signed(value(1))), value(1) != 0)
        else:
            return False
        return True

    def shifts(self):
        what, value = self.what, self.value
        if what in ("lshl", "lshr", "ashr"):
            count = value(2, 32) & (self.bits - 1)
            result = value(1) << count if what == "lshl" else value(1) >> count if what == "lshr" else signed(value(1), self.bits) >> count
        elif what == "bfe":
            offset, width = value(2, 32) & (self.bits - 1), value(2, 32) >> 16 & 127
            result = value(1) >> offset & ((1 << width) - 1)
            result = signed(result, width) if self.type.startswith("i") and width else result
        else:
            return False
        result &= (1 << self.bits) - 1
        self.store(result, result != 0)
        return True

    def bit_counts(self):
        what, value = self.what, self.value
        if what == "sext_i32":
            self.store(signed(self.wave.scalar(self.operands[1], 32), int(self.type[1:])) & ALL)
        elif what == "bcnt1_i32":
            self.store_word(bin(value(1)).count("1"), True)
        elif what in ("ff1_i32", "ctz_i32"):
            self.store_word((value(1) & -value(1)).bit_length() - 1 if value(1) else ALL)
        elif what in ("flbit_i32", "clz_i32"):
            self.store_word(self.bits - value(1).bit_length() if value(1) else ALL)
        else:
            return False
        return True

    def store_word(self, value, condition=False):
        self.wave.set_scalar(self.operands[0], value & ALL)
        if condition:
            self.wave.scc = int(value != 0)

    def comparisons(self):
        what, value = self.what, self.value
        if what.startswith("cmp_") and self.type == "f32":
            pair = (np.array([value(i)], dtype=np.uint32).view(np.float32) for i in range(2))
            self.wave.scc = int(COMPARISONS[what[4:]](*pair)[0])
        elif what.startswith("cmp_"):
            a, b = (signed(value(0)), signed(value(1))) if self.type == "i32" else (value(0), value(1))
            self.wave.scc = int(COMPARE[what[4:]](a, b))
        elif what.startswith("cmpk_"):
            a, b = (signed(value(0)), signed(value(1), 16)) if self.type == "i32" else (value(0), value(1))
            self.wave.scc = int(COMPARE[what[5:]](a, b))
        elif what.startswith("bitcmp"):
            self.wave.scc = int((value(0) >> (value(1, 32) & (self.bits - 1)) & 1) == int(what[6]))
        else:
            return False
        return True


class ScalarFloat:
    """gfx11.5 and gfx12: f32 in scalar registers."""
    OPERATIONS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "max": np.fmax, "min": np.fmin, "max_num": np.fmax, "min_num": np.fmin}

    def __init__(self, wave, name, operands):
        self.wave, self.operands, self.what = wave, operands, name[2:]

    def value(self, place):
        return np.array([self.wave.scalar(self.operands[place]) & ALL], dtype=np.uint32).view(np.float32)[0]

    def run(self):
        what = self.what[:-len("_f32")] if self.what.endswith("_f32") else self.what
        if what in self.OPERATIONS:
            result = self.OPERATIONS[what](self.value(1), self.value(2))
        elif what in ("fmac", "fmaak", "fmamk"):
            a, b, c = (self.value(1), self.value(2), self.value(0 if what == "fmac" else 3))
            result = np.float32(float(a) * float(b) + float(c))
        elif what == "cvt_f32_u32":
            result = np.float32(self.wave.scalar(self.operands[1]) & ALL)
        elif what == "cvt_f32_i32":
            result = np.float32(signed(self.wave.scalar(self.operands[1])))
        elif what in ("cvt_u32_f32", "cvt_i32_f32", "cvt_u32", "cvt_i32"):
            low, high = (0, ALL) if "u32" in what else (-2 ** 31, 2 ** 31 - 1)
            value = float(self.value(1))
            return self.wave.set_scalar(self.operands[0], 0 if np.isnan(value) else int(np.clip(np.trunc(value), low, high)) & ALL)
        elif what in ("trunc", "rndne", "floor"):
            result = {"trunc": np.trunc, "rndne": np.rint, "floor": np.floor}[what](self.value(1))
        else:
            raise NotImplementedError(f"scalar instruction s_{self.what}")
        return self.wave.set_scalar(self.operands[0], int(np.array([result], dtype=np.float32).view(np.uint32)[0]))


def run(wave, name, operands):
    if ("_f32" in name and not name.startswith("s_cmp_")) or name.startswith("s_cvt_f32"):
        return ScalarFloat(wave, name, operands).run()
    return Scalar(wave, name, operands).run()
