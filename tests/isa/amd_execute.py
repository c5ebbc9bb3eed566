"""One instruction of a wave.

Decides which table or unit an instruction is for, and does itself what concerns several lanes or the order of things: matrix
instructions, exchange, carries, waits, barriers. Source: AMD RDNA 3 and 4, CDNA 2 and 3 ISA reference guides. Invariant: what is not known
is an error, never a guess.
"""
import re

import numpy as np

import amd_memory
import amd_scalar
from amd_code import list_value
from amd_vector import ALL, COMPARISONS, OPERATIONS, VIEWS, division_scale, f32, fused, words_of
from amd_wave import SHARED, U, WIDE, Fault, half_name, vector_name

MATRIX = re.compile(r"v_(?:wmma|mfma)_f32_16x16x16_?(bf16|f16)(?:_1k)?(?:_e64)?")
NOTHING = {"s_nop", "s_delay_alu", "s_set_inst_prefetch_distance", "s_inst_prefetch", "s_sendmsg", "s_clause", "s_waitcnt_depctr", "s_wait_alu", "s_setprio", "s_sleep", "s_code_end",
           "s_wait_storecnt", "s_waitcnt_vscnt"}
CARRIES = re.compile(r"v_(add|sub|subrev)(?:_co|_co_ci|c_co|b_co)_u32")
SUFFIX = re.compile(r"_(e32|e64|sdwa|dpp)$")


def half_value(words, place, bf16):
    bits = words >> U(16 * (place % 2)) & U(0xffff)
    return f32(bits << U(16)) if bf16 else bits.astype(np.uint16).view(np.float16).astype(np.float32)


def without_subnormals(values, least):
    return np.where(np.abs(values) < np.float32(least), np.copysign(np.float32(0), values), values)


def gather(wave, words, bf16):
    """[line][k] of an operand; lines are rows of the left one and columns of the right one."""
    lanes, generation = np.arange(wave.lanes), wave.kernel.generation
    run, matrix = 2 * len(words), np.zeros((16, 16), dtype=np.float32)
    if run != {11: 16, 12: 8, 9: 4}[generation]:
        raise Fault(f"an operand of {len(words)} registers")
    for place in range(run):
        values = half_value(words[place // 2], place, bf16)
        k = np.full(wave.lanes, place) if generation == 11 else lanes // 16 * run + place
        matrix[lanes % 16, k] = values
        if generation == 11 and (words[place // 2][:16] != words[place // 2][16:]).any():
            raise Fault("a matrix instruction whose operands differ between the halves of the wave")
    return without_subnormals(matrix, 2.0 ** (-126 if bf16 else -14)) if wave.kernel.flushes else matrix


def multiply(wave, name, operands):
    bf16 = MATRIX.fullmatch(name).group(1) == "bf16"
    if wave.exec != (1 << wave.lanes) - 1:
        raise Fault("a matrix instruction with lanes that are off")
    registers = [[wave.register(file, place + i).copy() for i in range(count)] for file, place, count in map(vector_name, operands[1:3])]
    count = 4 if wave.kernel.generation == 9 else 8
    lanes = np.arange(wave.lanes)
    rows = [2 * v + lanes // 16 if wave.kernel.generation == 11 else lanes // 16 * count + v for v in range(count)]
    sums, into = np.zeros((16, 16), dtype=np.float32), vector_name(operands[3])
    for v in range(count):
        sums[rows[v], lanes % 16] = f32(wave.register(into[0], into[1] + v)) if into else f32(wave.words(operands[3]))
    left, right = (gather(wave, each, bf16).astype(np.float64) for each in registers)
    sums = without_subnormals(sums, 2.0 ** -126) if wave.kernel.flushes else sums
    result = (sums.astype(np.float64) + left @ right.T).astype(np.float32)
    result = without_subnormals(result, 2.0 ** -126) if wave.kernel.flushes else result
    file, place, _ = vector_name(operands[0])
    for v in range(count):
        wave.register(file, place + v)[:] = words_of(result[rows[v], lanes % 16])


def selected(words, how):
    if how in (None, "DWORD"):
        return words
    kind, place = how.split("_")
    return words >> U(16 * int(place)) & U(0xffff) if kind == "WORD" else words >> U(8 * int(place)) & U(0xff)


def placed(before, words, modifiers):
    """The register as dst_sel leaves it."""
    how = modifiers.get("dst_sel", "DWORD")
    if how == "DWORD":
        return words
    rest = before if modifiers.get("dst_unused") == "UNUSED_PRESERVE" else np.zeros_like(before)
    return rest & U(0xffff) | words << U(16) if how == "WORD_1" else rest & U(0xffff0000) | words & U(0xffff)


def vector_value(wave, name, operands, modifiers):
    name = SUFFIX.sub("", name).replace("v_dual_", "v_")
    if modifiers.keys() - {"op_sel", "op_sel_hi", "src0_sel", "src1_sel", "dst_sel", "dst_unused", "mul"}:
        raise Fault(f"modifiers {modifiers} are not known")
    if name in ("v_cndmask_b32", "v_cndmask_b16"):
        chosen = wave.bits(wave.scalar(operands[3], 64) if len(operands) > 3 else wave.vcc)
        return np.where(chosen, wave.words(operands[2]), wave.words(operands[1])).astype(U)
    if name in ("v_fmac_f32", "v_fmaak_f32", "v_fmamk_f32"):
        a, b, c = (f32(wave.words(text)) for text in (operands[1], operands[2], operands[0 if name == "v_fmac_f32" else 3]))
        return words_of(fused(a, b, c))
    if name not in OPERATIONS:
        raise Fault(f"instruction {name} is not known")
    sources = [selected(wave.words(text), modifiers.get(f"src{i}_sel")) for i, text in enumerate(operands[1:])]
    if "op_sel" in modifiers and not any(half_name(text) for text in operands):  # which otherwise says it twice
        if name not in ("v_pack_b32_f16", "v_cvt_f32_f16"):
            raise Fault(f"op_sel of {name} is not known")
        sources = [each >> U(16 * list_value(modifiers, "op_sel", i, 0)) for i, each in enumerate(sources)]
    result = OPERATIONS[name](*sources)
    result = words_of(f32(result) * np.float32(modifiers["mul"])) if "mul" in modifiers else result
    return placed(wave.words(operands[0]), result, modifiers) if "dst_sel" in modifiers else result


def compare(wave, name, operands):
    match = re.fullmatch(r"v_cmp(x?)_(\w+)_([fui]\d+)", name)
    if not match or match.group(2) not in COMPARISONS:
        raise Fault(f"instruction {name} is not known")
    to, (a, b) = (operands[0], operands[1:]) if len(operands) == 3 else ("vcc", operands)
    view = VIEWS[match.group(3)]
    values = (view(wave.wide(text) if match.group(3).endswith("64") else wave.words(text)) for text in (a, b))
    result = wave.mask_of(COMPARISONS[match.group(2)](*values) & wave.active())
    wave.set_scalar("exec" if match.group(1) else to, result)


def carry(wave, name, operands):
    a, b = (wave.words(text).astype(np.int64) for text in operands[2:4])
    a, b = (b, a) if "rev" in name else (a, b)
    extra = wave.bits(wave.scalar(operands[4], 64)).astype(np.int64) if len(operands) > 4 else 0
    result = a + b + extra if "add" in name else a - b - extra
    wave.store(operands[0], (result & ALL).astype(U))
    wave.set_scalar(operands[1], wave.mask_of(((result > ALL) | (result < 0)) & wave.active()))


def wide_vector(wave, name, operands):
    if name in ("v_lshlrev_b64", "v_lshrrev_b64"):
        count = (wave.words(operands[1]) & U(63)).astype(WIDE)
        return wave.wide(operands[2]) << count if "lshl" in name else wave.wide(operands[2]) >> count
    if name == "v_ashrrev_i64":
        return (wave.wide(operands[2]).view(np.int64) >> (wave.words(operands[1]) & U(63)).astype(np.int64)).view(WIDE)
    if name in ("v_mad_u64_u32", "v_mad_co_u64_u32"):
        return wave.words(operands[2]).astype(WIDE) * wave.words(operands[3]).astype(WIDE) + wave.wide(operands[4])
    if name in ("v_mad_i64_i32", "v_mad_co_i64_i32"):
        a, b = (wave.words(text).view(np.int32).astype(np.int64) for text in operands[2:4])
        return (a * b).view(WIDE) + wave.wide(operands[4])
    if name == "v_lshl_add_u64":
        return (wave.wide(operands[1]) << (wave.words(operands[2]) & U(63)).astype(WIDE)) + wave.wide(operands[3])
    if name == "v_mov_b64":
        return wave.wide(operands[1])
    return None


def packed_f32(wave, name, operands, modifiers):
    """Two operations on pairs of registers."""
    def source(place, high):
        text = operands[1 + place]
        which = list_value(modifiers, "op_sel_hi" if high else "op_sel", place, int(high))
        register = vector_name(text)
        scalars = re.fullmatch(r"s\[(\d+):\d+\]", text)
        words = wave.register(register[0], register[1] + which).copy() if register else wave.words(f"s{int(scalars.group(1)) + which}" if scalars else text)
        return words ^ U(0x80000000) if list_value(modifiers, "neg_hi" if high else "neg_lo", place, 0) else words
    operation = OPERATIONS[name.replace("pk_", "")] if name != "v_pk_mov_b32" else None
    if operation:
        results = [operation(*[source(i, high) for i in range(len(operands) - 1)]) for high in (False, True)]
    else:
        results = [source(0, False), source(1, True)]
    file, place, _ = vector_name(operands[0])
    for high in range(2):
        wave.store(f"{file}{place + high}", results[high])


def mixed(wave, name, operands, modifiers):
    """v_fma_mix_f32, v_fma_mixlo_f16, v_fma_mixhi_f16: each source is f32, or a half of f16 where op_sel_hi says so."""
    sources = []
    for i, text in enumerate(operands[1:]):
        words = wave.words(text)
        if list_value(modifiers, "op_sel_hi", i, 0):
            negative, plain = text.startswith("-"), wave.words(text.lstrip("-").strip("|"))
            values = half_value(plain, list_value(modifiers, "op_sel", i, 0), False)
            values = np.abs(values) if "|" in text else values
            words = words_of(-values if negative else values)
        sources.append(f32(words))
    result = fused(*sources)
    if name == "v_fma_mix_f32":
        return wave.store(operands[0], words_of(result))
    bits, before = result.astype(np.float16).view(np.uint16).astype(U), wave.words(operands[0])
    return wave.store(operands[0], before & U(0xffff) | bits << U(16) if "mixhi" in name else before & U(0xffff0000) | bits)


def across_rows(wave, operands):
    """v_permlanex16_b32: from the other sixteen lanes of thirty-two."""
    lanes, selectors = np.arange(wave.lanes), wave.scalar(operands[2]) | wave.scalar(operands[3]) << 32
    sources = (lanes // 16 ^ 1) * 16 + np.array([selectors >> 4 * int(lane % 16) & 15 for lane in lanes])
    active = wave.active()
    if not active[sources[active]].all():
        raise Fault("v_permlanex16_b32 from a lane that is off")
    wave.store(operands[0], wave.words(operands[1])[sources])


def division(wave, name, operands):
    """v_div_scale_f32, v_div_fmas_f32, v_div_fixup_f32: parts of an exact division."""
    texts = operands[2:] if name == "v_div_scale_f32" else operands[1:]
    a, b, c = (f32(wave.words(text)) for text in texts)
    if name == "v_div_scale_f32":
        pairs = [division_scale(*values) for values in zip(a, b, c)]
        wave.store(operands[0], words_of([value for value, _ in pairs]))
        return wave.set_scalar(operands[1], wave.mask_of(np.array([back for _, back in pairs]) & wave.active()))
    if name == "v_div_fmas_f32":
        result, exponent = fused(a, b, c), (c.view(U) >> U(23) & U(255)).astype(int)
        scaled = result * np.where(exponent > 127, np.float32(2.0 ** 64), np.float32(2.0 ** -64))
        return wave.store(operands[0], words_of(np.where(wave.bits(wave.vcc), scaled, result)))
    special = ~np.isfinite(c) | ~np.isfinite(b) | (c == 0) | (b == 0)
    return wave.store(operands[0], words_of(np.where(special, c.astype(np.float64) / b.astype(np.float64), a)))


def wait(wave, name, operands, modifiers):
    of_lds, of_scalars = (lambda access: SHARED in access), (lambda access: SHARED not in access)
    if name == "s_waitcnt":
        for counter, most in re.findall(r"(\w+)\((\d+)\)", " ".join([*operands, *modifiers])):
            wave.wait(wave.loads if counter == "vmcnt" else wave.shared if counter == "lgkmcnt" else [], int(most))
        return
    most = int(operands[0], 0)
    if "loadcnt" in name:
        wave.wait(wave.loads, most >> 8 & 63 if "dscnt" in name else most)
    if "dscnt" in name:
        wave.wait(wave.shared, most & 63, of_lds)
    if "kmcnt" in name:
        wave.wait(wave.shared, most, of_scalars)


def barrier(wave, name):
    if any(SHARED in access for access in wave.shared):
        raise Fault("a barrier while accesses to LDS are under way")
    wave.at_barrier = name != "s_barrier_signal"


def branches(wave, name):
    lanes = (1 << wave.lanes) - 1
    return {"s_branch": True, "s_cbranch_scc0": not wave.scc, "s_cbranch_scc1": wave.scc, "s_cbranch_vccz": not wave.vcc & lanes, "s_cbranch_vccnz": wave.vcc & lanes,
            "s_cbranch_execz": not wave.exec, "s_cbranch_execnz": wave.exec}[name]


def scalar_step(wave, name, operands, modifiers):
    if name in NOTHING:
        return
    if name == "s_endpgm":
        wave.ended = True
    elif name.startswith("s_wait"):
        wait(wave, name, operands, modifiers)
    elif name.startswith("s_barrier"):
        barrier(wave, name)
    elif name.startswith("s_load_"):
        amd_memory.scalar_load(wave, name, operands, modifiers)
    else:
        amd_scalar.run(wave, name, operands)


def vector_step(wave, name, operands, modifiers):
    plain = SUFFIX.sub("", name)
    if MATRIX.fullmatch(name):
        multiply(wave, name, operands)
    elif plain.startswith("v_cmp"):
        compare(wave, plain, operands)
    elif CARRIES.fullmatch(plain):
        carry(wave, plain, operands)
    elif plain == "v_readfirstlane_b32":
        wave.set_scalar(operands[0], int(wave.words(operands[1])[(wave.exec & -wave.exec).bit_length() - 1 if wave.exec else 0]))
    elif plain == "v_readlane_b32":
        wave.set_scalar(operands[0], int(wave.words(operands[1])[wave.scalar(operands[2]) % wave.lanes]))
    elif plain == "v_writelane_b32":
        wave.register(*vector_name(operands[0])[:2])[wave.scalar(operands[2]) % wave.lanes] = wave.scalar(operands[1]) & ALL
    elif plain == "v_permlanex16_b32":
        across_rows(wave, operands)
    elif plain.startswith("v_fma_mix"):
        mixed(wave, plain, operands, modifiers)
    elif plain.startswith("v_div_"):
        division(wave, plain, operands)
    elif plain.startswith("v_pk_") and (plain.endswith("_f32") or plain == "v_pk_mov_b32"):
        packed_f32(wave, plain, operands, modifiers)
    else:
        wide = wide_vector(wave, plain, operands)
        if wide is None:
            wave.store(operands[0], vector_value(wave, name, operands, modifiers))
        else:
            wave.store_wide(operands[0], wide)


def step(wave):
    instruction = wave.kernel.instructions[wave.at]
    try:
        wave.at += 1
        if len(instruction.parts) > 1:  # both read before either writes
            results = [(operands[0], vector_value(wave, name, operands, modifiers)) for name, operands, modifiers in instruction.parts]
            for text, result in results:
                wave.store(text, result)
            return
        name, operands, modifiers = instruction.parts[0]
        if name == "s_branch" or name.startswith("s_cbranch"):
            wave.at = wave.kernel.index_of[instruction.target] if branches(wave, name) else wave.at
        elif name.startswith("s_"):
            scalar_step(wave, name, operands, modifiers)
        elif name.startswith("global_"):
            amd_memory.global_access(wave, name, operands, modifiers)
        elif name.startswith("ds_"):
            amd_memory.shared_access(wave, name, operands, modifiers)
        elif name.startswith("v_"):
            vector_step(wave, name, operands, modifiers)
        else:
            raise Fault(f"instruction {name} is not known")
    except (Fault, NotImplementedError, KeyError, ValueError) as error:
        raise Fault(f"wave {wave.index}, {instruction.address:#x}: {instruction.text}: {error}") from error
