"""Global memory and LDS, as a wave's instructions reach them.

Decides that global memory is what the launch was given and nothing else, and that two waves which meet in LDS without a barrier between
them are a race, whoever wins. Source: AMD RDNA 3 and 4, CDNA 2 and 3 ISA reference guides. Invariant: a new block finds NaN patterns in LDS.
"""
import ctypes
import re

import numpy as np

from amd_wave import ALL, SHARED, Fault, U, WIDE, vector_name

SIZES = {"b128": 16, "b96": 12, "b64": 8, "b32": 4, "b16": 2, "b8": 1, "dwordx4": 16, "dwordx3": 12, "dwordx2": 8, "dword": 4, "short": 2, "byte": 1,
         "u8": 1, "u16": 2, "i8": 1, "i16": 2, "ubyte": 1, "ushort": 2, "sbyte": 1, "sshort": 2}
SIGNED = ("i8", "i16", "sbyte", "sshort")
SCALAR_WORDS = {"b32": 1, "b64": 2, "b96": 3, "b128": 4, "b256": 8, "b512": 16, "dword": 1, "dwordx2": 2, "dwordx4": 4, "dwordx8": 8, "dwordx16": 16}


class GlobalMemory:
    """Ranges of this process's own memory."""

    def __init__(self):
        self.ranges = []

    def add(self, address, size):
        self.ranges.append((address, address + size))

    def check(self, address, size):
        if not any(begin <= address and address + size <= end for begin, end in self.ranges):
            raise Fault(f"global access of {size} bytes at {address:#x} is outside of all that the launch was given")

    def read(self, address, size):
        self.check(address, size)
        return ctypes.string_at(address, size)

    def write(self, address, data):
        self.check(address, len(data))
        ctypes.memmove(address, data, len(data))


class SharedMemory:
    def __init__(self, size):
        self.data = np.full(size, 0xff, dtype=np.uint8)
        self.writer, self.written = np.full(size, -1), np.full(size, -1)  # who wrote last, between which barriers
        self.readers, self.read_at = np.zeros(size, dtype=WIDE), np.full(size, -1)
        self.epoch = 0

    def access(self, wave, address, size, writes):
        if address < 0 or address + size > len(self.data):
            raise Fault(f"LDS access of {size} bytes at {address} is out of bounds; the block has {len(self.data)}")
        at, own = slice(address, address + size), WIDE(1 << wave.index)
        clash = (self.writer[at] != wave.index) & (self.written[at] == self.epoch)
        if writes:
            clash |= (self.read_at[at] == self.epoch) & (self.readers[at] & ~own != 0)
            self.writer[at], self.written[at] = wave.index, self.epoch
        else:
            self.readers[at] = np.where(self.read_at[at] == self.epoch, self.readers[at] | own, own)
            self.read_at[at] = self.epoch
        if clash.any():
            raise Fault(f"wave {wave.index} {'writes' if writes else 'reads'} {size} bytes of LDS at {address}, which another wave has used since the last barrier")
        return at


GLOBAL_LOAD, SHARED_LOAD = "load from global memory", "load from LDS"


def load_lane(wave, name, lane, raw, half, is_signed, after=None):
    """A whole register may still be awaited from an access of the kind `after`; a half may not, as the other one stays."""
    file, place, _ = name
    if len(raw) >= 4:
        for word in range(len(raw) // 4):
            wave.incoming(file, place + word, after)[lane] = int.from_bytes(raw[4 * word:4 * word + 4], "little")
        return
    value, before = int.from_bytes(raw, "little", signed=is_signed) & ALL, int(wave.register(file, place)[lane])
    if half == "hi":
        value = before & 0xffff | value << 16 & ALL
    elif half == "low":
        value = before & 0xffff0000 | value & 0xffff
    wave.register(file, place)[lane] = value


def stored_lane(wave, name, lane, size, half):
    file, place, _ = name
    words = [int(wave.register(file, place + word)[lane]) for word in range(max(1, size // 4))]
    if size >= 4:
        return b"".join(word.to_bytes(4, "little") for word in words)
    return ((words[0] >> (16 if half == "hi" else 0)) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def half_of(text):
    return "hi" if "d16_hi" in text else "low" if "d16" in text else None


def global_addresses(wave, vector, scalar, modifiers):
    offset = int(modifiers.get("offset", "0"), 0)
    base = wave.wide(vector) if scalar == "off" else wave.words(vector).astype(WIDE) + WIDE(wave.scalar(scalar, 64))
    return [(int(each) + offset) & ((1 << 64) - 1) for each in base]


def global_access(wave, name, operands, modifiers):
    match = re.fullmatch(r"global_(load|store)_(?:d16_hi_|d16_)?([a-z]+\d*(?:x\d)?)(?:_d16_hi|_d16)?", name)
    if not match or match.group(2) not in SIZES:
        raise Fault(f"instruction {name} is not known")
    loads, size, half = match.group(1) == "load", SIZES[match.group(2)], half_of(name)
    addresses = global_addresses(wave, operands[1 if loads else 0], operands[2], modifiers)
    data = vector_name(operands[0 if loads else 1])
    for lane in np.flatnonzero(wave.active()):
        address = addresses[lane]
        if address % min(size, 4):
            raise Fault(f"{name} at {address:#x}, which is misaligned")
        if loads:
            load_lane(wave, data, lane, wave.block.memory.read(address, size), half, match.group(2) in SIGNED, GLOBAL_LOAD)
        else:
            wave.block.memory.write(address, stored_lane(wave, data, lane, size, half))
    if loads:
        wave.begin(wave.loads, [(data[0], data[1] + word) for word in range(max(1, size // 4))], GLOBAL_LOAD)
    elif wave.kernel.generation == 9:  # one counter for loads and stores; later ones count stores apart
        wave.begin(wave.loads, [], "store to global memory")


def bpermute(wave, operands, modifiers):
    active, offset = wave.active(), int(modifiers.get("offset", "0"), 0)
    sources = (wave.words(operands[1]).astype(np.int64) + offset) // 4 % wave.lanes
    if not active[sources[active]].all():
        raise Fault("ds_bpermute_b32 from a lane that is off")
    wave.store(operands[0], wave.words(operands[2])[sources])
    file, place, _ = vector_name(operands[0])
    wave.begin(wave.shared, [SHARED, (file, place)], "exchange")


def shared_access(wave, name, operands, modifiers):
    if name == "ds_bpermute_b32":
        return bpermute(wave, operands, modifiers)
    match = re.fullmatch(r"ds_(load|read|store|write)_?(2(?:addr)?)?_?(st64|stride64)?_?(?:d16_hi_|d16_)?([a-z]+\d+)(?:_d16_hi|_d16)?", name)
    if not match or match.group(4) not in SIZES:
        raise Fault(f"instruction {name} is not known")
    loads, size, half = match.group(1) in ("load", "read"), SIZES[match.group(4)], half_of(name)
    step = size * (64 if match.group(3) else 1)
    offsets = [int(modifiers.get(f"offset{i}", "0"), 0) * step for i in range(2)] if match.group(2) else [int(modifiers.get("offset", "0"), 0)]
    addresses, registers = wave.words(operands[1 if loads else 0]), [SHARED]
    for part, offset in enumerate(offsets):
        file, place, count = vector_name(operands[0] if loads else operands[1 + part])
        data = (file, place + part * max(1, size // 4), count) if loads else (file, place, count)
        for lane in np.flatnonzero(wave.active()):
            address = int(addresses[lane]) + offset
            if address % size:
                raise Fault(f"{name} at {address}, which is misaligned")
            at = wave.block.shared.access(wave, address, size, not loads)
            if loads:
                load_lane(wave, data, lane, wave.block.shared.data[at].tobytes(), half, match.group(4) in SIGNED)
            else:
                wave.block.shared.data[at] = np.frombuffer(stored_lane(wave, data, lane, size, half), dtype=np.uint8)
        registers += [(file, data[1] + word) for word in range(max(1, size // 4))] if loads else []
    return wave.begin(wave.shared, registers, SHARED_LOAD)


def scalar_load(wave, name, operands, modifiers):
    count = SCALAR_WORDS[name[len("s_load_"):]]
    offset = wave.scalar(operands[2]) + int(modifiers.get("offset", "0"), 0)
    offset -= (1 << 32) if operands[2].startswith("-") else 0
    raw = wave.block.memory.read(wave.scalar(operands[1], 64) + offset, 4 * count)
    wave.set_scalar(operands[0], int.from_bytes(raw, "little"))
    first = re.match(r"s\[?(\d+)", operands[0])
    wave.begin(wave.shared, [("s", int(first.group(1)) + i) for i in range(count)] if first else [], "scalar load")


