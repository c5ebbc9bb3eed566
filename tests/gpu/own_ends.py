"""Ends of products by texts of device code, beside what they say in the operations that NumPy and PyTorch share (`xp` is either module)."""

import math

SQUARED = 0  # the end whose result has twice the error of a sum
COUNT = 61  # numbers, fewer than rows and columns: places beyond the last count as it
PARAMS = [2.5] + [0.5 + i * 37 % COUNT / 32 for i in range(1, COUNT)]


def _at(xp, params, place):
    return params[xp.clip(place, 0, COUNT - 1) if xp.__name__ == "numpy" else place.clamp(0, COUNT - 1)]


def _squared(xp, value, row, column, matrix, params):
    return xp.where(value > 0, value * value, value * 0.0)


def _scaled(xp, value, row, column, matrix, params):
    beside = xp.where(row < 2, row * 0 + COUNT - 1, row - 2)  # a place below 0 counts as the last, too
    return value * _at(xp, params, column) + 0.125 * _at(xp, params, beside)


def _dropped(xp, value, row, column, matrix, params):
    number = (row * 7919 + column * 104729 + matrix * 613) & 0xFFFFFFFF
    return xp.where((number ^ (number >> 7)) % 4 == 0, value * 0.0, value * 1.25)


def _clamped(xp, value, row, column, matrix, params):
    most = params[0]
    return xp.where(value > most, value * 0.0 + most, xp.where(value < -most, value * 0.0 - most, value))


# Text, what it says, whether it reads params. MATRIX is `batch` in gemm, `group` in grouped_gemm.
_kept = {}
ENDS = [
    ("return value > 0.0f ? value * value : 0.0f;", _squared, False),
    ("const float scale = params.f32(column);\nreturn value * scale + 0.125f * params.f32(row - 2);", _scaled, True),
    ("unsigned hash = unsigned(row) * 7919u + unsigned(column) * 104729u + unsigned(MATRIX) * 613u;\nhash ^= hash >> 7;\n"
     "return hash % 4u == 0u ? 0.0f : value * 1.25f;", _dropped, False),
    ("const float most = params.f32(0);\nreturn value > most ? most : value < -most ? -most : value;", _clamped, True),
]


def text_of(number, matrix):
    return ENDS[number][0].replace("MATRIX", matrix)


def applied(xp, number, value, row, column, matrix, params):
    """The end of values in f64; row, column and matrix are whole numbers that spread to value's shape, params f64 [COUNT]."""
    return ENDS[number][1](xp, value, row, column, matrix, params)


def of_product(xp, values, number):
    """The end of a whole d, [M, N] or [B, M, N], in f64."""
    there = {"device": values.device} if xp.__name__ == "torch" else {}
    matrix = xp.arange(values.shape[0], **there)[:, None, None] if len(values.shape) == 3 else 0
    return applied(xp, number, values, xp.arange(values.shape[-2], **there)[:, None], xp.arange(values.shape[-1], **there), matrix, numbers(xp, **there))


def numbers(xp, **there):
    """What texts read, in f64."""
    return xp.tensor(PARAMS, dtype=xp.float64, **there) if xp.__name__ == "torch" else xp.array(PARAMS)


def on_gpu(torch):
    """The buffer of a call's text, which lasts."""
    if "gpu" not in _kept:
        _kept["gpu"] = torch.tensor(PARAMS, dtype=torch.float32, device="cuda")
    return _kept["gpu"]


def arguments(torch, tj, device, number):
    """Of binding.Runtime.gemm(); none without an end."""
    if number is None:
        return {}
    given = {"end_text": text_of(number, "batch")}
    if ENDS[number][2]:
        given["end_params"] = tj.tensor(on_gpu(torch).data_ptr(), device, tj.F32, [COUNT])
    return given


def with_end(case, number):
    """A case of gemm_check.py with a text in the place of its activation."""
    case = dict(case, end=number % len(ENDS), activation="none")
    if case["alpha"] != 0:  # sums of about 1: their squares stay within f16
        case["alpha"] = math.copysign(2.0 ** -round(math.log2(case["k"]) / 2), case["alpha"])
    case["n"] = max(case["n"], -(-128 // case["m"]))  # results enough: a single one may be small
    return case


def self_test(np):
    assert all(with_end({"alpha": 1.0, "k": 64, "m": 1, "n": 3}, number)["end"] == number % 4 for number in range(9))
    params = np.array(PARAMS)
    value, row, column = np.array([[-3.0, 0.5], [2.0, 4.0], [1.0, -1.0]]), np.arange(3)[:, None], np.array([0, 70])
    assert np.allclose(applied(np, 0, value, row, column, 0, params), [[0, 0.25], [4, 16], [1, 0]])
    scaled = applied(np, 1, value, row, column, 0, params)
    assert scaled[0, 0] == -3 * 2.5 + 0.125 * PARAMS[-1] and scaled[2, 1] == -PARAMS[-1] + 0.125 * 2.5
    assert np.allclose(applied(np, 3, value, row, column, 0, params), [[-2.5, 0.5], [2, 2.5], [1, -1]])
    dropped = applied(np, 2, np.ones((64, 64)), np.arange(64)[:, None], np.arange(64), 1, params)
    assert set(dropped.ravel()) == {0.0, 1.25} and 0.65 < (dropped > 0).mean() < 0.85
