"""The vector instructions of AMD's archs and what they compute, for all lanes at once: arrays of 32-bit words in, one out.

Decides values alone; which lanes keep them is the wave's. Source: AMD RDNA 3 and 4, CDNA 2 and 3 ISA reference guides. Powers of two,
logarithms and reciprocals are rounded from f64, where the hardware may be an ulp away. Invariant: an operation that is not in the table is
an error, never a guess.
"""
import numpy as np

U = np.uint32
WIDE = np.uint64
ALL = 0xffffffff


def f32(words):
    return words.view(np.float32)


def words_of(values):
    return np.asarray(values, dtype=np.float32).view(U)


def i32(words):
    return words.view(np.int32)


def from_wide(values):
    return (values.astype(np.int64) & ALL).astype(U)


def halves(words):
    return (words & U(0xffff)).astype(np.uint16).view(np.float16)


def fused(a, b, c):
    """One rounding but for the rare sum of f64 that needs more than its 53 bits."""
    return (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float32)


def greater(a, b):
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.maximum(a, b))).astype(np.float32)


def smaller(a, b):
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.minimum(a, b))).astype(np.float32)


def flushed(values):
    return np.where(np.abs(values) < np.float32(2.0 ** -126), values * np.float32(0), values).astype(np.float32)


def of_f64(function):
    return lambda a: words_of(function(f32(a).astype(np.float64)).astype(np.float32))


def shift(words):
    return words & U(31)


def signed24(words):
    return i32(words << U(8)).astype(np.int64) >> 8


def unsigned24(words):
    return (words & U(0xffffff)).astype(np.int64)


def field(words, offset, width):
    return (words >> shift(offset)) & ((U(1) << shift(width)) - U(1))


def signed_field(words, offset, width):
    count = shift(width).astype(np.int64)
    value, sign = field(words, offset, width).astype(np.int64), np.int64(1) << np.maximum(count - 1, 0)
    return from_wide(np.where(count == 0, 0, (value ^ sign) - sign))


def permuted(high, low, selector):
    both, result = high.astype(WIDE) << WIDE(32) | low, np.zeros_like(low)
    for byte in range(4):
        chosen = selector >> U(8 * byte) & U(0xff)
        if (chosen > 7).any():
            raise ValueError("v_perm_b32 with a constant in its selector")
        result |= (both >> (chosen.astype(WIDE) * WIDE(8)) & WIDE(0xff)).astype(U) << U(8 * byte)
    return result


def reversed_bits(words):
    result = np.zeros_like(words)
    for bit in range(32):
        result |= (words >> U(bit) & U(1)) << U(31 - bit)
    return result


def clipped(values, low, high):
    return from_wide(np.clip(np.nan_to_num(np.trunc(values.astype(np.float64))), low, high).astype(np.int64))


def sorted_place(place, view):
    return lambda a, b, c: np.sort(np.stack([view(a), view(b), view(c)]), axis=0)[place].astype(np.int64).astype(U)


OPERATIONS = {
    "v_mov_b32": lambda a: a, "v_not_b32": lambda a: ~a, "v_accvgpr_read_b32": lambda a: a, "v_accvgpr_write_b32": lambda a: a, "v_accvgpr_mov_b32": lambda a: a,
    "v_accvgpr_read": lambda a: a, "v_accvgpr_write": lambda a: a,
    "v_add_nc_u32": lambda a, b: a + b, "v_sub_nc_u32": lambda a, b: a - b, "v_subrev_nc_u32": lambda a, b: b - a,
    "v_add_u32": lambda a, b: a + b, "v_sub_u32": lambda a, b: a - b, "v_subrev_u32": lambda a, b: b - a, "v_add3_u32": lambda a, b, c: a + b + c,
    "v_and_b32": lambda a, b: a & b, "v_or_b32": lambda a, b: a | b, "v_xor_b32": lambda a, b: a ^ b, "v_xnor_b32": lambda a, b: ~(a ^ b),
    "v_and_or_b32": lambda a, b, c: a & b | c, "v_or3_b32": lambda a, b, c: a | b | c, "v_xor3_b32": lambda a, b, c: a ^ b ^ c, "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_lshlrev_b32": lambda a, b: b << shift(a), "v_lshrrev_b32": lambda a, b: b >> shift(a), "v_ashrrev_i32": lambda a, b: (i32(b) >> i32(shift(a))).view(U),
    "v_lshl_or_b32": lambda a, b, c: a << shift(b) | c, "v_lshl_add_u32": lambda a, b, c: (a << shift(b)) + c, "v_add_lshl_u32": lambda a, b, c: a + b << shift(c),
    "v_bfrev_b32": reversed_bits, "v_bfe_u32": field, "v_bfe_i32": signed_field, "v_bfi_b32": lambda a, b, c: a & b | ~a & c, "v_perm_b32": permuted,
    "v_alignbit_b32": lambda a, b, c: ((a.astype(WIDE) << WIDE(32) | b) >> shift(c).astype(WIDE)).astype(U),
    "v_alignbyte_b32": lambda a, b, c: ((a.astype(WIDE) << WIDE(32) | b) >> ((c & U(3)) * U(8)).astype(WIDE)).astype(U),
    "v_mul_lo_u32": lambda a, b: a * b, "v_mul_hi_u32": lambda a, b: (a.astype(WIDE) * b.astype(WIDE) >> WIDE(32)).astype(U),
    "v_mul_u32_u24": lambda a, b: from_wide(unsigned24(a) * unsigned24(b)), "v_mul_i32_i24": lambda a, b: from_wide(signed24(a) * signed24(b)),
    "v_mul_hi_u32_u24": lambda a, b: from_wide(unsigned24(a) * unsigned24(b) >> 32),
    "v_mad_u32_u24": lambda a, b, c: from_wide(unsigned24(a) * unsigned24(b)) + c, "v_mad_i32_i24": lambda a, b, c: from_wide(signed24(a) * signed24(b)) + c,
    "v_min_u32": np.minimum, "v_max_u32": np.maximum, "v_min_i32": lambda a, b: np.minimum(i32(a), i32(b)).view(U), "v_max_i32": lambda a, b: np.maximum(i32(a), i32(b)).view(U),
    "v_min3_i32": sorted_place(0, i32), "v_med3_i32": sorted_place(1, i32), "v_max3_i32": sorted_place(2, i32),
    "v_min3_u32": sorted_place(0, np.asarray), "v_med3_u32": sorted_place(1, np.asarray), "v_max3_u32": sorted_place(2, np.asarray),
    "v_add_f32": lambda a, b: words_of(f32(a) + f32(b)), "v_sub_f32": lambda a, b: words_of(f32(a) - f32(b)), "v_subrev_f32": lambda a, b: words_of(f32(b) - f32(a)),
    "v_mul_f32": lambda a, b: words_of(f32(a) * f32(b)), "v_fma_f32": lambda a, b, c: words_of(fused(f32(a), f32(b), f32(c))),
    "v_max_f32": lambda a, b: words_of(greater(f32(a), f32(b))), "v_min_f32": lambda a, b: words_of(smaller(f32(a), f32(b))),
    "v_max3_f32": lambda a, b, c: words_of(greater(greater(f32(a), f32(b)), f32(c))), "v_min3_f32": lambda a, b, c: words_of(smaller(smaller(f32(a), f32(b)), f32(c))),
    "v_exp_f32": lambda a: words_of(flushed(np.exp2(flushed(f32(a)).astype(np.float64)).astype(np.float32))),
    "v_log_f32": lambda a: words_of(np.log2(flushed(f32(a)).astype(np.float64)).astype(np.float32)),
    "v_rcp_f32": of_f64(lambda x: 1 / x), "v_rcp_iflag_f32": of_f64(lambda x: 1 / x), "v_rsq_f32": of_f64(lambda x: 1 / np.sqrt(x)), "v_sqrt_f32": of_f64(np.sqrt),
    "v_trunc_f32": of_f64(np.trunc), "v_rndne_f32": of_f64(np.rint), "v_floor_f32": of_f64(np.floor),
    "v_ldexp_f32": lambda a, b: words_of(np.ldexp(f32(a).astype(np.float64), np.clip(i32(b), -400, 400)).astype(np.float32)),
    "v_cvt_f32_u32": lambda a: words_of(a.astype(np.float32)), "v_cvt_f32_i32": lambda a: words_of(i32(a).astype(np.float32)),
    "v_cvt_u32_f32": lambda a: clipped(f32(a), 0, ALL), "v_cvt_i32_f32": lambda a: clipped(f32(a), -2 ** 31, 2 ** 31 - 1),
    "v_cvt_f16_f32": lambda a: f32(a).astype(np.float16).view(np.uint16).astype(U), "v_cvt_f32_f16": lambda a: words_of(halves(a).astype(np.float32)),
    "v_pack_b32_f16": lambda a, b: a & U(0xffff) | (b & U(0xffff)) << U(16),
    "v_add_nc_u16": lambda a, b: a + b & U(0xffff), "v_and_b16": lambda a, b: a & b & U(0xffff), "v_or_b16": lambda a, b: (a | b) & U(0xffff),
    "v_lshlrev_b16": lambda a, b: b << (a & U(15)) & U(0xffff), "v_lshrrev_b16": lambda a, b: (b & U(0xffff)) >> (a & U(15)),
    **{f"v_cvt_f32_ubyte{k}": lambda a, k=k: words_of((a >> U(8 * k) & U(255)).astype(np.float32)) for k in range(4)},
}
OPERATIONS.update({name.replace("_f32", "_num_f32"): OPERATIONS[name] for name in ("v_max_f32", "v_min_f32", "v_max3_f32", "v_min3_f32")})

COMPARISONS = {
    "f": lambda a, b: np.zeros_like(a, dtype=bool), "lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "lg": lambda a, b: (a < b) | (a > b), "ne": lambda a, b: a != b, "ge": lambda a, b: a >= b, "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)), "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b), "nlg": lambda a, b: ~((a < b) | (a > b)), "ngt": lambda a, b: ~(a > b), "nle": lambda a, b: ~(a <= b), "neq": lambda a, b: ~(a == b), "nlt": lambda a, b: ~(a < b),
}
VIEWS = {"f32": f32, "u32": np.asarray, "i32": i32, "f16": halves, "u16": lambda a: a & U(0xffff), "i16": lambda a: (a & U(0xffff)).astype(np.uint16).view(np.int16),
         "u64": np.asarray, "i64": lambda a: a.view(np.int64)}


def division_scale(value, denominator, numerator):
    """v_div_scale_f32 of one lane: the scaled value, and whether the quotient has to be scaled back."""
    up, exponent = np.float32(2.0 ** 64), lambda x: int(np.asarray(x, dtype=np.float32).view(U) >> U(23) & U(255))
    n, d = float(numerator), float(denominator)
    if n == 0 or d == 0:
        return np.float32(np.nan), False
    small_reciprocal, small_quotient = abs(1 / d) < 2.0 ** -126, abs(n / d) < 2.0 ** -126
    if exponent(numerator) - exponent(denominator) >= 96:
        return (value * up if value == denominator else value), True
    if exponent(denominator) == 0:
        return value * up, False
    if small_reciprocal and small_quotient:
        return (value * up if value == denominator else value), True
    if small_reciprocal:
        return value * up, False
    if small_quotient:
        return (value * up if value == numerator else value), True
    return (value * up if exponent(numerator) <= 23 else value), False
