// sm_90a: NVIDIA Hopper (H100, H200). Data only.
#include "arch/arch.hpp"

namespace tj::arch {

namespace {

/// Facts of tiles that several blocks do, and of those whose rows threads read. apart, spread: sources of joint_facts.
std::map<std::string, Fact> cut_facts(const std::string& apart, const std::string& spread) {
  return {
      {"tile_piece_cycles",
       {10000,
        "steps by hand with the other facts of joint_facts. Tiles of 16 x 64 to 24 x 128 take 5.8 to 9.5 us more than "
        "whole ones (H200, 2026-11-26): 10000 to 16000 cycles"}},
      {"piece_sum_cycles",
       {60,
        "likewise: 7700 cycles of 128 x 256, where a piece is left in 6000 cycles and added in 4000 (tj-bench "
        "--timeline)"}},
      {"more_piece_sum_cycles",
       {14,
        "least squares of 33 shared tiles of 11 sizes, less what parts of K miss in the same list "
        "(tests/gpu/MEASURED.md, Tiles of many pieces): 10 to 14 for subsets of them, 18 to 20 beside a "
        "tile_piece_cycles that is fitted too; H200, 2026-11-30"}},
      {"slice_cycles", {250, spread}},
      {"slice_sum_cycles", {55, spread}},
      {"apart_copy_factor", {1.4, apart + ", beyond what L2 answers at once"}},
      {"slice_copy_factor", {1.64, spread}},
      {"shared_slice_copy_factor",
       {1.25,
        "tj-warm --tune --op gemm --dtype bf16 of 199 x 3456 x 5120, 589 x 1280 x 8192, 410 x 1872 x 5120, 141 x 2560 "
        "x "
        "8136 and 449 x 768 x 5072, all eight such tiles near the best, H200, 2026-11-30: predicted over measured "
        "times have a root mean square of 4.2% about 1, and of 9.3% with 1, 19% with 1.64"}},
      {"near_read_share",
       {0.134,
        spread + "; ncu counts 0.5 for 32x64x128s at 255 x 1024 x 5376, 0.2 for 128x176x64 at 353 x 7168 x 9216"}},
      {"row_read_cycles",
       {1000,
        "estimate for reads by vectors of 16 bytes, counted in 16x64x128sr (NVRTC 13.0): of 16 warps, each brings rows "
        "of every other iteration, by 100 instructions and a wait of some 1000 cycles; memory takes 905. Reads by "
        "words took 480 instructions, and 1770 to 2150 cycles (H100, 2026-11-27)"}},
  };
}

/// Facts of launches' begins, of tiles' ends, of rings and of rows off lines. now, spread: sources of joint_facts.
std::map<std::string, Fact> end_facts(const std::string& now, const std::string& spread) {
  const std::string slots =
      "steps by hand over 30 sizes of tj-warm --tune --op gemm, f16 and bf16, H200, 2026-11-30 (tests/gpu/MEASURED.md, "
      "Slots and stores)";
  return {
      {"tile_turn_cycles",
       {91.5,
        "fit of 176 of these sizes before reads at once were known, beside what the writes of all SMs take; the "
        "fit of joint_facts gives 0 and predicts alike"}},
      {"fragment_store_cycles", {52, now + ", beside what the writes of all SMs take"}},
      {"staged_store_cycles", {18, spread}},
      {"scattered_store_cycles", {300, now}},
      {"row_store_cycles",
       {140,
        "compare.py --op gemm, seeds 903999988 and 379451525, H200, 2026-11-30, what four products with rows of d at "
        "odd "
        "places and short K take beyond all else, for a row of a tile: 1625 x 2042 x 384 in 144x192x64s (18.4 us) 155, "
        "1216 x 4094 x 512 in 112x192x64s (27.4) 139, 1788 x 5118 x 496 in 96x192x64s (48.9) 130, 5829 x 1017 x 1024 "
        "in "
        "192x128x64 (31.2) 170"}},
      {"wide_store_cycles", {30, slots + "; 15 to 45 predict alike. sm_90 takes 21"}},
      {"swapped_wide_store_cycles", {90, slots + "; 70 to 110 predict alike. They are twice as many instructions"}},
      {"memory_slot_cycles",
       {2600,
        "96 x 5120 x 17920, tj-warm --tune --op gemm --dtype f16 --tune-limit 60, H200, 2026-11-30: an iteration takes "
        "2880 to 3360 cycles over the slots of its ring in seven tiles of 4 to 8 slots; less what other limits add. "
        "2300 "
        "to 2900 predict alike"}},
      {"direct_end_cycles", {600, slots + "; 300 to 900 predict alike"}},
      {"staged_end_cycles", {900, now}},
      {"unaligned_copy_factor",
       {1.5,
        "tests/gpu/compare.py --op gemm --dtype e4m3 --seed 1175925548 --count 200 --skip-tiles on an H200, "
        "2026-11-30: predicted over measured of 54 products with K of no whole lines is 0.89 without it, 0.93 with it "
        "and of the "
        "other 146; 20 of f16 with seed 903999988 0.91, 0.94. 148 x 2544 x 8144 takes 19.8 us in 60 tiles, 14.4 and "
        "18.7 were predicted"}},
      {"hidden_launch_cycles", {1200, spread + " gives 650, which takes 128 tiles at 512^3 (3.1 us) and not 64 (2.7)"}},
      {"lone_memory_bytes_per_cycle", {35, now + ": 14 x 10240 x 8192 takes 52 us in 160 tiles of 64 columns"}},
  };
}

/// Facts by which products on all SMs at once are predicted (ops/gemm/rates.hpp).
std::map<std::string, Fact> joint_facts() {
  const std::string alone =
      "tj-warm --tune --op gemm --dtype f16 --sizes 64x1024x2048,64x1024x8192,128x1024x2048,128x1024x8192 on an H200, "
      "2026-11-25, few tiles, by the difference of both lengths, at 1.98 GHz: ";
  // The last fit of all facts that name it. Tiles that are taken need 1.028 of the best one's time, 1.106 at the 95th
  // percentile. Rows of its sizes begin on lines of memory, but for 39 sizes that were timed since L2 gets 128 bytes at
  // a time there (tensor_map.cpp).
  const std::string apart =
      "fit of tj-warm --tune --op gemm --dtype f16, 377 sizes (tests/gpu/MEASURED.md, The fit), all tiles, H100, "
      "2026-11-27";
  // Facts that name it were refined by hand between fits to two thirds of these sizes. For N of whole 16 bytes the
  // choice took 1.023 of the best one's time before, and 1.016 after; for K of no whole lines 1.089 and 1.069.
  const std::string now =
      "tj-warm --tune --op gemm --dtype f16, 63 sizes drawn by drawing.py with seed 771203344, 28 of K or N off lines "
      "with 1390021777, all tiles, H200, 2026-11-29";
  // The fit to the spread of predictions among kernels near the best (gpu.gemm_facts_bench). Tiles that are taken need
  // 1.029 of the best one's time, 1.043 by the facts of before. Facts that shape schedules were left out of it
  // afterwards: copies' issue and multicast.
  const std::string spread =
      "fit of tj-warm --tune --op gemm, 131 sizes, all tiles, H200, 2026-11-29 (tests/gpu/MEASURED.md, The fit)";
  std::map<std::string, Fact> all = {
      {"copy_outside_row_cycles",
       {4.2, spread + "; where all SMs fill rows, joint_outside_rows_per_cycle limits them"}},
      {"copy_partial_row_cycles",
       {9.5, apart + "; at N 3072, K 4096, a transposed, M 56 and 104, blocks of one wave in tiles of 64 x 64 and 128 "
                     "x 64 take 2.4 to 6 cycles a row more than at M 64 and 128"}},
      {"copy_issue_cycles",
       {190, alone + "64 x 96 iterates in 379 cycles where one thread asks for both operands, in 261 with a thread "
                     "for each"}},
      {"shared_copy_issue_cycles",
       {330, alone + "64 x 128 in clusters of 2 x 1 iterates in 505 cycles where one thread asks for both operands, in "
                     "330 to 336 with a thread for each"}},
      {"loaded_copy_cycles_per_kb",
       {10.75,
        "tj-warm --tune --op gemm --dtype f16 of 104 sizes drawn with seeds 20261123 and 20261124, all tiles, on an "
        "H200, 2026-11-23: one wave; gemm_predict.py's loops gave 13 to 17, with what SMs share in it"}},
      {"crowded_copy_cycles_per_kb",
       {14.5, now + ": 64 x 256 alone copies a KB in 14, and fits without memory_slot_cycles gave 15"}},
      {"multicast_copy_factor", {1.18, apart + "; main loops alone gave 1.1 (gemm_predict.py)"}},
      {"product_group_cycles", {43, spread + "; few tiles alone: 20 to 87, most of them 35 to 75"}},
      {"busy_clock_ghz", {1.733, apart}},
      {"copied_kb_power_cycles",
       {1,
        "replays of 0.5 s, 8192^3 on an H200, 2026-11-26: tiles of 128 x 256 in clusters of 1 x 2 at 613 TFLOP/s, of "
        "64 x 256 at 567: 2 ns of an SM for a KB; tj-bench --op gemm --m 8192 --n 8192 --k 8192 --tile "
        "128x256x64c1x2,64x256x64 --rounds 500 repeats it. The fit of joint_facts, which knows what L2 answers at "
        "once, predicts alike from 0 to 1"}},
      {"joint_copy_bytes_per_cycle", {8665, spread + ", beside crowded_copy_cycles_per_kb"}},
      {"joint_outside_rows_per_cycle", {7.7, spread + "; boxes outside are left out already"}},
      {"cached_operand_bytes", {38.1e6, apart + "; L2 has 50 MB"}},
      {"cache_bytes_per_cycle", {5705, apart}},
      {"operand_bytes_per_cycle", {2450, now + ": 671 MB of 27 x 65529 x 5120 come in 161 us"}},
  };
  all.merge(cut_facts(apart, spread));
  all.merge(end_facts(now, spread));
  return all;
}

std::map<std::string, Fact> facts() {
  const char* whitepaper =
      "NVIDIA H100 Tensor Core GPU Architecture whitepaper: 989.4 TFLOP/s dense f16, 132 SMs, 1.83 GHz";
  const char* guide =
      "CUDA C++ Best Practices Guide 13, throughput of native arithmetic instructions, compute capability 9.0";
  const std::string measured = "tests/gpu/node_cycles.py on an H200, 2026-11-20";
  const std::string products =
      "graph replays as in tests/gpu/gemm_speed.py, tile set by hand, H200, 2026-11-21, at 1.755 GHz";
  std::map<std::string, Fact> all = {
      {"matrix_flops_per_cycle", {4096, whitepaper}},
      {"matrix_flops_per_cycle_8bit", {8192, "the same whitepaper: 1978.9 TFLOP/s dense fp8"}},
      {"exp2_per_cycle", {16, guide}},
      {"f32_per_cycle", {128, guide}},
      {"minmax_per_cycle", {64, guide}},
      {"convert_per_cycle", {64, guide}},
      {"matrix_drain_cycles", {90, measured + ": pv alone less its rate, 599 - 512 at D 128 N 128"}},
      {"shared_unit_cycles",
       {92, measured + ": softmax together less the exponentials of all consumers, 1116 - 1024 at N 128"}},
      {"matrix_group_cycles",
       {88, measured + ": step less the rate of its 4 groups, a group: 65 at N 128, 94 at N 160, 102 at N 176 (D 128), "
                       "their mean"}},
      {"copy_latency_cycles", {490, measured + ": copy at 0 KB, by the line through 16 KB (675) and 44 KB (1000)"}},
      {"copy_cycles_per_kb", {11.6, measured + ": slope of that line, from L2"}},
      {"matrix_least_cycles",
       {24,
        "tj-warm --tune --op gemm --dtype f16 --sizes 64x1024x2048,64x1024x8192 on an H200, 2026-11-25: 64 x 32 x 128 "
        "iterates in 299 cycles, 8 instructions and two groups; less 50 for each group"}},
      {"unaligned_copy_bytes_per_cycle",
       {3770,
        "of rows of 128 bytes that lie in two lines; see spread in joint_facts. 39 sizes on an H100 gave 2600 "
        "(2026-11-27)"}},
      {"sustained_copy_bytes_per_cycle",
       {7800, products + ": 4096^3, 1024 iterations of 24 KB an SM in tiles of 128 x 64 and 512 of 40 KB in tiles of "
                         "64 x 256, 295 and 226 us, tiles' ends taken off"}},
      {"cache_bytes", {50.0 * 1024 * 1024, "NVIDIA H100 Tensor Core GPU Architecture whitepaper: 50 MB of L2"}},
      {"memory_bytes_per_cycle",
       {2390, "a copy on an H200 reads and writes 4.2 TB/s (torch, 2026-11-20), at 1.755 GHz"}},
      {"link_bytes_per_cycle",
       {223.4,
        "tests/gpu/product_parts.py on two H200, 2026-11-30: copy engines move 128 MB in 348 us, 392 GB/s beside "
        "what 8 MB take (26 us), at 1.755 GHz; both ways at once as fast as one"}},
      {"link_latency_cycles",
       {17550, "the same: 10 us beside the rate, 5 of a copy's start, 4 of the word behind it, 1 of the wait for it"}},
      {"cluster_start_cycles",
       {10,
        "see spread in joint_facts; launches that overlap hide a part: 8 x 16 tiles at K 512, two blocks "
        "that share a copy less each alone, took 0 to 0.71 us more (H200, 2026-11-21)"}},
      {"next_launch_cycles", {5040, "see spread in joint_facts: a call's second launch and its scratch memory"}},
  };
  all.merge(joint_facts());
  return all;
}

}  // namespace

Arch make_sm90a() {
  Arch a;
  a.name = "sm_90a";
  a.vendor = "nvidia";
  a.family = "sm90";
  a.primitives = "sm90";
  a.compiler = "nvrtc";
  a.device_major = 9;
  a.device_minor = 0;
  // TC matrix unit, EXP special functions, ALU arithmetic pipes, TMA copy engine.
  a.units = {{"TC", 1}, {"EXP", 1}, {"ALU", 1}, {"TMA", 1}};
  a.facts = facts();
  a.smem_per_block_bytes = 227 * 1024;  // Hopper Tuning Guide
  a.smem_per_sm_bytes = 228 * 1024;     // Hopper Tuning Guide
  a.smem_reserved_bytes = 1024;         // Hopper Tuning Guide: 1 KB of each block is the system's
  a.registers_per_sm = 65536;           // Hopper Tuning Guide
  a.max_registers_per_thread =
      240;              // setmaxnreg with a producer group at 24: (65536 / 128 - 24) / 2, down to a multiple of 8
  a.register_step = 8;  // PTX ISA, setmaxnreg
  a.register_roles = true;
  a.max_cluster = 8;  // CUDA C++ Programming Guide, thread block clusters: the portable size
  // 132 of them lie in eight groups of 14 to 18, and a cluster in one group: 30 to 32 clusters of four.
  a.large_cluster_sms = 120;
  a.cluster_groups = 8;        // tests/gpu/cluster_groups.py on an H100, 2026-11-27
  a.overlapped_launch = true;  // PTX ISA, griddepcontrol: sm_90 and later
  a.least_drawn_waves = 1.5;  // tj-warm --tune --op fmha, causal, on an H200, 2026-11-23: 256 tiles of 128 queries take
                              // 7 to 30% less time when drawn, 128 tiles 2.5 us more
  a.sm_count = 132;
  a.clock_ghz = 1.755;  // estimate: 1.98 GHz boost (nvidia-smi) falls to 1.53 to 1.8 GHz under attention at 700 W;
                        // predictions only
  return a;
}

}  // namespace tj::arch
