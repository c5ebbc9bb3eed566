"""The rate of a warp's matrix instruction at full load: what a product on this path is judged by.

Decides the kernel, its operands and how long it runs; warp_cycles.py --rate is its command. Every warp holds a tile of sums, the left and
right operands of it, and nothing else: no load stands in the loop. A case that is fed loads its operands from shared memory, as a product
does, but nothing brings them there and nobody waits: what is left when copies and barriers cost nothing. Operands are normal random
numbers, another set in each thread, as power depends on how many bits change; the sums start over as often as those of a product of
K 4096 do. Before the rounds that count the GPU has worked for long enough that its clock has settled at what the power limit leaves.
"""
import array
import collections
import ctypes
import math
import random
import statistics
import struct

STEPS = 256            # of 16 elements of K, until the sums start over
SETTLE_MS = 400        # of work before what counts; clocks fall within some tens of milliseconds
ROUND_MS, ROUNDS = 50, 5
MAX_THREADS = 512
FLOPS = 2 * 16 * 8 * 16  # of one instruction


class Case(collections.namedtuple("Case", "dtype rows columns warps fed", defaults=[False])):
    """Blocks of 16 rows and of 8 columns of a warp's tile; warps of an SM; whether they load operands from shared memory."""

    def __str__(self):
        return f"{self.dtype} {16 * self.rows}x{8 * self.columns} {self.warps}" + (" fed" if self.fed else "")


# 64 x 64 has 128 sums a thread, of which registers allow 12 warps an SM.
CASES = [Case(dtype, 4, columns, warps) for dtype in ("f16", "bf16") for columns in (4, 8) for warps in (4, 8, 12, 16) if columns == 4 or warps <= 12]
CASES += [Case(dtype, 4, 8, 8, True) for dtype in ("f16", "bf16")]
WORDS = max(4 * case.rows + 2 * case.columns for case in CASES)  # of operands, of a thread

# End of both kernels, after the products of a turn.
END = """
    for (int r = 0; r < %(rows)d; ++r)
      for (int c = 0; c < %(columns)d; ++c)
        for (int j = 0; j < 4; ++j) d[r][c][j] *= 1.0f / %(steps)d;
  }
  block_sync();
  const long long stop = clock64();
  if (thread_index() == 0) p.cycles[block_index()] = stop - start;
  float keep = 0;
  for (int r = 0; r < %(rows)d; ++r)
    for (int c = 0; c < %(columns)d; ++c)
      for (int j = 0; j < 4; ++j) keep += fabsf(d[r][c][j]);
  p.out[block_index() * %(threads)du + thread_index()] = keep;
}
"""

KERNEL = """
#include "arch/%(primitives)s.cuh"
using namespace tj::dev;
struct Params { long long* cycles; float* out; const u32* operands; int turns; };
TJ_KERNEL(measure, %(threads)d, Params, p) {
  u32 a[%(rows)d][4], b[%(columns)d][2];
  float d[%(rows)d][%(columns)d][4] = {};
  const u32* mine = p.operands + thread_index();
  for (int r = 0; r < %(rows)d; ++r)
    for (int j = 0; j < 4; ++j, mine += %(stride)d) a[r][j] = load_global_u32(mine);
  for (int c = 0; c < %(columns)d; ++c)
    for (int j = 0; j < 2; ++j, mine += %(stride)d) b[c][j] = load_global_u32(mine);
  block_sync();
  const long long start = clock64();
#pragma unroll 1
  for (int turn = 0; turn < p.turns; ++turn) {
#pragma unroll 4
    for (int step = 0; step < %(steps)d; ++step)
#pragma unroll
      for (int r = 0; r < %(rows)d; ++r)
#pragma unroll
        for (int c = 0; c < %(columns)d; ++c) mma_m16n8k16(%(tag)s{}, d[r][c], a[r], b[c][0], b[c][1]);
"""

# Four warps share 128 x 64 of a and of b as two by two, the others another such pair; 64 of K come round again. While sixteen columns are
# multiplied, the next are loaded, and rows of the next step take the place of those before.
FED_KERNEL = """
#include "arch/%(primitives)s.cuh"
#include "tiles.cuh"
using namespace tj::dev;
struct Params { long long* cycles; float* out; const u32* operands; int turns; };
TJ_KERNEL(measure, %(threads)d, Params, p) {
  const u32 base = shared_base();
  for (u32 word = thread_index(); word < %(warps)du / 4 * 8192; word += %(threads)du) store_shared(base + 4 * word, load_global_u32(p.operands + word %% %(words)d));
  block_sync();
  const u32 warp = warp_index(), pair = base + warp / 4 * 32768;
  const u32 a = piece_address(pair, warp %% 2 * 64 + down_row(), down_piece()), b = piece_address(pair + 16384, warp / 2 %% 2 * 64 + across_row(), across_piece());
  u32 left[%(rows)d][4], right[2][4];
  float d[%(rows)d][%(columns)d][4] = {};
  const long long start = clock64();
  load_matrices(b, right[0]);
  for (int r = 0; r < %(rows)d; ++r) load_matrices(a + r * 2048, left[r]);
#pragma unroll 1
  for (int turn = 0; turn < p.turns; ++turn) {
#pragma unroll 1
    for (int step = 0; step < %(steps)d; step += 4) {
#pragma unroll
      for (int at = 0; at < 2 * %(columns)d; ++at) {
        const int next = (at + 1) %% (2 * %(columns)d), j = at %% (%(columns)d / 2);
        load_matrices(pieces_on(b, next / (%(columns)d / 2) * 2) + next %% (%(columns)d / 2) * 2048, right[(at + 1) %% 2]);
#pragma unroll
        for (int r = 0; r < %(rows)d; ++r) {
          mma_m16n8k16(%(tag)s{}, d[r][2 * j], left[r], right[at %% 2][0], right[at %% 2][1]);
          mma_m16n8k16(%(tag)s{}, d[r][2 * j + 1], left[r], right[at %% 2][2], right[at %% 2][3]);
          if (j + 1 == %(columns)d / 2) load_matrices(pieces_on(a, next / (%(columns)d / 2) * 2) + r * 2048, left[r]);
        }
      }
    }
"""


def kernel_text(primitives, case):
    return ((FED_KERNEL if case.fed else KERNEL) + END) % dict(primitives=primitives, threads=32 * case.warps, rows=case.rows, columns=case.columns, warps=case.warps, stride=MAX_THREADS, steps=STEPS,
                         words=MAX_THREADS * WORDS,
                         tag="F16" if case.dtype == "f16" else "Bf16")


class Params(ctypes.Structure):
    _fields_ = [("cycles", ctypes.c_void_p), ("out", ctypes.c_void_p), ("operands", ctypes.c_void_p), ("turns", ctypes.c_int)]


def operands(dtype, generator, words):
    """Bytes of so many words of two elements each."""
    values = [generator.gauss(0, 1) for _ in range(2 * words)]
    if dtype == "f16":
        return struct.pack(f"<{len(values)}e", *values)
    return array.array("H", (bits >> 16 for bits in struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values)))).tobytes()


class Rate:
    """One case on the device: its memory, its kernel, and the number of turns that take a given time."""

    def __init__(self, driver, binary, case, content):
        self.driver, self.case = driver, case
        self.smem = driver.max_smem  # so that no second block stands beside one
        self.module, self.function = driver.load(binary, smem=self.smem)
        self.threads = 32 * case.warps
        self.cycles = driver.memory(8 * driver.sms)
        self.out = driver.memory(4 * driver.sms * self.threads)
        self.operands = driver.memory(len(content), content)

    def run(self, turns):
        return self.driver.run(self.function, self.driver.sms, self.threads, self.smem,
                               Params(cycles=self.cycles, out=self.out, operands=self.operands, turns=turns))

    def check(self):
        sums = self.driver.read(self.out, ctypes.c_float, self.driver.sms * self.threads)
        if not all(math.isfinite(value) and value > 0 for value in sums) or sums[:self.threads] != sums[-self.threads:]:
            raise RuntimeError(f"{self.case}: the sums are not finite, are zero, or differ from block to block: the products were not made")

    def measure(self):
        """(milliseconds, cycles of an SM, turns): medians of some rounds, after the clock has settled."""
        turns, spent = 4, 0.0
        while spent < SETTLE_MS:  # each run says how many turns the next one takes: the first ones run at another clock
            elapsed = self.run(turns)
            turns = max(1, round(turns * ROUND_MS / max(elapsed, 0.01)))
            spent += elapsed
        rounds = []
        for _ in range(ROUNDS):
            elapsed = self.run(turns)
            rounds.append((elapsed, statistics.median(self.driver.read(self.cycles, ctypes.c_longlong, self.driver.sms))))
        self.check()
        return statistics.median(r[0] for r in rounds), statistics.median(r[1] for r in rounds), turns

    def close(self):
        for address in (self.cycles, self.out, self.operands):
            self.driver.free(address)
        self.driver.unload(self.module)


def print_rates(driver, made):
    seed = random.randrange(1, 1 << 30)
    generator = random.Random(seed)
    print(f"products of random operands (seed {seed}) from registers alone, {SETTLE_MS} ms of work before, median of {ROUNDS} rounds", flush=True)
    contents = {dtype: operands(dtype, generator, MAX_THREADS * WORDS) for dtype in ("f16", "bf16")}
    rows = []
    for case, binary in zip(CASES, made):
        rate = Rate(driver, binary, case, contents[case.dtype])
        milliseconds, cycles, turns = rate.measure()
        rate.close()
        flops = FLOPS * case.rows * case.columns * STEPS * turns * case.warps  # of an SM
        row = dict(dtype=case.dtype, fed=case.fed, tile=[16 * case.rows, 8 * case.columns], warps=case.warps, milliseconds=milliseconds, clock_ghz=cycles / milliseconds * 1e-6,
                   flop_per_cycle_and_sm=flops / cycles, tflops=flops * driver.sms / milliseconds * 1e-9)
        rows.append(row)
        print(f"{case.dtype:4s} tile {16 * case.rows}x{8 * case.columns}  {case.warps:2d} warps an SM{', fed' if case.fed else '     '}  {milliseconds:6.1f} ms  {row['tflops']:7.1f} TFLOP/s  "
              f"{row['flop_per_cycle_and_sm']:7.1f} flop/cycle and SM  {row['clock_ghz']:.3f} GHz", flush=True)
    best = {dtype: max((row for row in rows if row["dtype"] == dtype and not row["fed"]), key=lambda row: row["tflops"]) for dtype in contents}
    for dtype, row in best.items():
        print(f"best {dtype}: {row['tflops']:.1f} TFLOP/s, {row['warps']} warps an SM with tiles of {row['tile'][0]}x{row['tile'][1]}", flush=True)
    return dict(seed=seed, rows=rows, best=best)
