"""A code object for AMD as a list of instructions to execute: its kernel's descriptor, and what llvm-objdump reads of its code.

Decides nothing about what an instruction does. The layout of the descriptor is LLVM's ("Kernel Descriptor" in the user guide of the AMDGPU
backend). Invariant: instructions are told apart by the disassembler alone, which shares nothing with the compiler but its tables.
"""
import functools
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass, field

LLVM_VERSIONS = range(22, 18, -1)
# Their matrix instructions take subnormal elements and sums as 0: ROCm documentation, MIOpen, "MI200 matrix fused multiply-add (MFMA) behavior
# specifics". Written down here apart from the library's own facts.
FLUSHING = ("gfx90a",)


def tool(name):
    """The newest of LLVM's tools of that name, or None."""
    found = (shutil.which(f"{name}-{version}") for version in LLVM_VERSIONS)
    return next((path for path in found if path), None)


@dataclass
class Instruction:
    address: int
    text: str
    target: int | None  # where it may branch to
    parts: list = field(default_factory=list)  # (name, operands, modifiers); two of them where it issues two operations


@dataclass
class Kernel:
    generation: int  # 9, 11, 12
    wave: int
    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    resources: int   # COMPUTE_PGM_RSRC2
    properties: int  # KERNEL_CODE_PROPERTIES
    instructions: list
    index_of: dict   # address -> place in instructions
    flushes: bool    # the processor's matrix instructions take subnormal numbers as 0


def split_operands(text):
    parts, depth, current = [], 0, ""
    for c in text:
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += c
    return parts + [current.strip()] if current.strip() else parts


def decode(text):
    parts = []
    for operation in text.split(" :: "):
        name, _, rest = operation.strip().partition(" ")
        operands, modifiers = split_operands(rest), {}
        if operands:
            words = operands[-1].split()
            operands[-1] = words[0]
            for word in words[1:]:
                key, _, value = word.partition(":")
                modifiers[key] = value
        parts.append((name, operands, modifiers))
    return parts


def list_value(modifiers, key, place, default):
    """Element `place` of a modifier such as op_sel:[0,1]."""
    return int(modifiers[key].strip("[]").split(",")[place]) if key in modifiers else default


def file_offset(image, address):
    begin, count = struct.unpack_from("<Q", image, 0x20)[0], struct.unpack_from("<H", image, 0x38)[0]
    for i in range(count):
        kind, _, offset, virtual, _, size = struct.unpack_from("<IIQQQQ", image, begin + 56 * i)
        if kind == 1 and virtual <= address < virtual + size:
            return offset + address - virtual
    raise ValueError(f"address {address:#x} is in no segment")


def symbol_value(image, name):
    headers, size, count = struct.unpack_from("<Q", image, 0x28)[0], *struct.unpack_from("<HH", image, 0x3a)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, headers + size * i) for i in range(count)]
    for section in sections:
        if section[1] not in (2, 11):  # SYMTAB, DYNSYM
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            where = strings + struct.unpack_from("<I", image, at)[0]
            if image[where:image.index(b"\0", where)].decode() == name:
                return struct.unpack_from("<Q", image, at + 8)[0]
    raise ValueError(f"no symbol {name}")


def read_instructions(path, processor, name):
    text = subprocess.run([tool("llvm-objdump"), "-d", f"--mcpu={processor}", path], capture_output=True, text=True, check=True).stdout
    instructions, begin, inside = [], 0, False
    for line in text.splitlines():
        label = re.match(r"^([0-9a-f]+) <(.*)>:$", line)
        if label:
            inside = label.group(2) == name
            begin = int(label.group(1), 16) if inside else begin
        elif inside and "//" in line:
            operation, comment = line.strip().split("//", 1)
            place = re.search(rf"<{re.escape(name)}(\+0x([0-9a-f]+))?>", comment)
            target = None if not place else begin + int(place.group(2) or "0", 16)
            instructions.append(Instruction(int(comment.split(":")[0], 16), operation.strip(), target, decode(operation.strip())))
    return instructions


@functools.lru_cache(maxsize=32)
def read_kernel(path, processor, name):
    with open(path, "rb") as file:
        image = file.read()
    at = file_offset(image, symbol_value(image, name + ".kd"))
    lds, scratch, kernarg = struct.unpack_from("<III", image, at)
    _, _, resources, properties = struct.unpack_from("<IIIH", image, at + 44)
    instructions = read_instructions(path, processor, name)
    generation = 12 if processor.startswith("gfx12") else 11 if processor.startswith("gfx11") else 9
    return Kernel(generation, 32 if properties >> 10 & 1 else 64, lds, scratch, kernarg, resources, properties, instructions,
                  {each.address: i for i, each in enumerate(instructions)}, processor in FLUSHING)
