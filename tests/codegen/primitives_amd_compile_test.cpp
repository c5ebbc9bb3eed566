// Protects AMD's primitives. Units with all of them compile for every arch by the compilers at hand, for the work-group
// that was asked for. They take no scratch memory and no hidden argument. They have the matrix instructions that the
// text says. A primitive that an arch lacks is refused in words.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "codegen/amd_code.hpp"
#include "model/primitive_texts.hpp"
#include "model/unit_job.hpp"
#include "support/expect.hpp"

using namespace tj;
using testing::error_of;
using testing::has;
using testing::hip_compiler;

namespace {

// One of each kind; the others are told from these by numbers that primitives do not read.
constexpr const char* kArchs[] = {"gfx1100", "gfx1151", "gfx1201", "gfx90a", "gfx942", "gfx950"};

compile::Job job_for(const std::string& arch, std::string_view text) {
  return testing::device_job(text, *arch::find(arch));
}

// Primitives that the units of the model's tests do not use, each once.
constexpr const char* kRest = R"(
struct Params { const char* in; float* out; int count, wide; };

template <class Tag>
TJ_DEVICE float arithmetic(const Params& p) {
  float a, b, four[4];
  load_global(reinterpret_cast<const float*>(p.in) + 2 * thread_index(), a, b);
  load_global(reinterpret_cast<const float*>(p.in) + 4 * thread_index(), four);
  float low, high;
  unpack(Tag{}, pack(Tag{}, a, b), low, high);
  const float x = divide_approx(multiply_add(exp2_approx(low), four[0], shuffle_xor(four[1], 1)), maximum(a, minus_infinity()));
  return x + exp2_gradual(high) + log2_approx(shuffle_from(four[2], 3)) + load_global(reinterpret_cast<const float*>(p.in) + thread_index()) / four[3];
}

TJ_KERNEL_BESIDE(kernel, 128, 2, Params, p) {
  const u32 base = shared_base();
  next_grid_may_start();
  wait_for_grids_before();
  wait_for_grids_before<3>();
  mbarrier_init_done();
  mbarrier_init_done<4>();
  at_node<1>(p.count);
  u32 two[2], four[4];
  load_global(p.in + 8 * thread_index(), two);
  load_global(p.in + 16 * thread_index(), four);
  store_shared(base + 16 * thread_index(), four);
  block_sync();
  load_shared(base + 16 * (127 - thread_index()), four);
  int row = max(p.count, static_cast<int>(cluster_rank())), last = min(row, 7);
  hold(row);
  const float x = arithmetic<F16>(p) + arithmetic<Bf16>(p);
  float* out = p.out + 32 * (block_index() * 128 + thread_index());
  store_global(static_cast<void*>(out), two[0], two[1]);
  store_global(out + 2, x, x);
  store_global(out + 4, x);
  store_global(reinterpret_cast<u32*>(out + 5), load_global_u32(p.in + 4 * row));
  store_global_u16(out + 6, load_global_u16(p.in + 2 * row) + load_global_u8(p.in + last));
  store_halves(out + 8, four, p.count, p.wide != 0);
  store_global(static_cast<void*>(out + 12), four[3], four[2], four[1], four[0]);
  const float values[4] = {x, x, x, x};
  store_global(out + 16, values);
  if (elect_one()) store_global(out + 20, 1.0f);
  reads_arrived<1>();
  proxy_fence<2>();
}
)";

/// No scratch memory, no spill, nothing hidden; returns the one kernel.
support::CodeObjectKernel check_object(const compile::Binary& binary, const std::string& arch, int threads) {
  std::string problem;
  const auto object = support::read_code_object(binary.bytes, &problem);
  REQUIRE_MESSAGE(object.has_value(), problem);
  REQUIRE(object->kernels.size() == 1);
  const support::CodeObjectKernel kernel = object->kernels.front();
  CHECK(object->processor == arch);
  CHECK(kernel.name == "kernel");
  CHECK(kernel.wave == arch::find(arch)->warp_size);
  CHECK(kernel.max_threads == threads);
  CHECK(kernel.scratch_bytes == 0);
  CHECK(kernel.vgpr_spills == 0);
  CHECK(kernel.sgpr_spills == 0);
  CHECK(kernel.lds_bytes == 0);  // what a launch asks for
  CHECK(kernel.kernarg_bytes == kernel.params_bytes);
  CHECK_FALSE(kernel.hidden_arguments);
  CHECK_FALSE(kernel.two_units);
  CHECK_FALSE(kernel.dynamic_stack);
  CHECK(binary.spill_bytes == 0);
  CHECK(binary.warnings.empty());
  return kernel;
}

bool knows(compile::Compiler& compiler, const std::string& arch) {
  try {
    compiler.compile(job_for(arch, testing::wave_barriers_text()));
  } catch (const Error& e) {
    if (e.code == Code::unsupported) return false;
    throw;
  }
  return true;
}

void check_units(compile::Compiler& compiler, const std::string& arch) {
  CAPTURE(arch);
  const int wave = arch::find(arch)->warp_size;
  const bool mfma = arch::find(arch)->warp_size == 64;
  const auto compiled = [&](std::string_view text, int threads) {
    compile::Binary binary = compiler.compile(job_for(arch, text));
    INFO(binary.log);
    check_object(binary, arch, threads);
    return testing::matrix_instructions(binary.bytes, mfma);
  };
  CHECK(compiled(testing::wave_products_text(), wave) == 2 * 4);  // four products, of either type
  if (arch::find(arch)->primitives == "gfx12") CHECK(compiled(testing::narrow_wave_text(), wave) == 2);
  CHECK(compiled(testing::wave_exchange_text(), wave) == 0);
  CHECK(compiled(testing::counters_text(), 64) == 0);
  CHECK(compiled(testing::wave_barriers_text(), 256) == 0);
  CHECK(compiled(kRest, 128) == 0);
}

}  // namespace

// First, so that a failure is never hidden by it.
TEST_CASE("a machine without a compiler of HIP is skipped") {
  testing::need_hip_compiler({std::begin(kArchs), std::end(kArchs)});
}

TEST_CASE("units with every primitive compile for each arch that a compiler here knows") {
  int served = 0;
  for (const std::string arch : kArchs) {
    const auto compiler = hip_compiler(arch);
    if (!compiler) continue;
    if (arch == "gfx950" && !knows(*compiler, arch)) continue;  // newer than clang 19
    ++served;
    check_units(*compiler, arch);
  }
  CHECK(served > 0);
}

TEST_CASE("hiprtc, where there is one, takes what clang takes, without a header of its own") {
  if (const auto hiprtc = hip_compiler("gfx90a", "hiprtc")) check_units(*hiprtc, "gfx90a");
  if (const auto clang = hip_compiler("gfx90a", "clang")) check_units(*clang, "gfx90a");
}

TEST_CASE("blocks side by side get the registers of their share, and no more") {
  // Many values that are all needed to the end: as many registers as there are.
  const std::string body =
      "  float x[104];\n#pragma unroll\n  for (int i = 0; i < 104; ++i) x[i] = load_global(p.values + i * p.n + "
      "thread_index());\n  block_sync();\n"
      "#pragma unroll\n  for (int i = 0; i < 104; ++i) store_global(p.values + i * p.n + thread_index(), x[i] * x[(i + "
      "52) % 104]);\n}\n";
  const auto compiler = hip_compiler("gfx1100", "clang");
  if (!compiler) return;
  const auto registers = [&](const std::string& kernel) {
    return compiler->compile(job_for("gfx1100", "struct Params { float* values; int n; };\n" + kernel + " {\n" + body))
        .registers;
  };
  CHECK(registers("TJ_KERNEL(kernel, 256, Params, p)") > 104);
  CHECK(registers("TJ_KERNEL_BESIDE(kernel, 256, 4, Params, p)") <=
        arch::find("gfx1100")->registers_per_sm / (4 * 256));
}

TEST_CASE(
    "what is loaded from global memory before a barrier is not waited for there, what is under way in shared memory "
    "is") {
  const std::string text =
      "struct Params { const char* in; char* out; int n; };\n"
      "TJ_KERNEL(kernel, 128, Params, p) {\n  const u32 base = shared_base(), mine = 16 * thread_index();\n  u32 "
      "next[4], sum[4] = {}, read[4];\n"
      "  load_global(p.in + mine, next);\n  for (int i = 1; i < p.n; ++i) {\n    store_shared(base + mine, next);\n    "
      "block_sync<1>();\n"
      "    load_global(p.in + 2048 * i + mine, next);\n    load_shared(base + 2032 - mine, read);\n    sum[0] += "
      "read[0];\n    sum[1] ^= read[3];\n    block_sync<2>();\n  }\n"
      "  store_global(p.out + mine, sum[0], sum[1], next[2], next[3]);\n}\n";
  struct Encodings {
    const char* arch;
    std::uint32_t wait_for_shared, barrier;  // AMD RDNA 3 and 4 ISA reference guides, SOPP and SOP1
  };
  for (const Encodings& each :
       {Encodings{"gfx1100", 0xbf89fc07u, 0xbfbd0000u}, Encodings{"gfx1201", 0xbfc60000u, 0xbe804ec1u}}) {
    CAPTURE(each.arch);
    const auto compiler = hip_compiler(each.arch, "clang");
    if (!compiler) continue;
    const std::vector<std::uint32_t> words = testing::code_words(compiler->compile(job_for(each.arch, text)).bytes);
    int barriers = 0, after_wait = 0;
    for (std::size_t at = 1; at < words.size(); ++at) {
      barriers += words[at] == each.barrier;
      after_wait += words[at] == each.barrier && words[at - 1] == each.wait_for_shared;
    }
    CHECK(barriers == 2);
    CHECK(after_wait == 2);
  }
}

TEST_CASE(
    "halves of a wave exchange by one instruction for a word: all lanes take part, so nothing is kept for those that "
    "are off") {
  const auto compiler = hip_compiler("gfx1100", "clang");
  if (!compiler) return;
  const std::string text =
      "struct Params { u32* values; };\nTJ_KERNEL(kernel, 32, Params, p) {\n  u32 x[4];\n  load_global(p.values + 4 * "
      "thread_index(), x);\n"
      "  store_global(p.values + 4 * thread_index(), shuffle_xor<16>(x[0]), shuffle_xor<16>(x[1]), "
      "shuffle_xor<16>(x[2]), shuffle_xor<16>(x[3]));\n}\n";
  int exchanges = 0, moves = 0;
  for (const std::uint32_t word : testing::code_words(compiler->compile(job_for("gfx1100", text)).bytes)) {
    exchanges +=
        (word & 0xffffff00u) ==
        0xd65c0800u;  // v_permlanex16_b32 with the bit for lanes that are off: AMD RDNA 3 ISA reference guide, VOP3
    moves += (word & 0xfe01fe00u) == 0x7e000200u;  // v_mov_b32: the same guide, VOP1
  }
  CHECK(exchanges == 4);
  CHECK(moves == 0);
}

TEST_CASE("weights of bf16 are rounded without a comparison; with one, a NaN stays one") {
  const auto compiler = hip_compiler("gfx1100", "clang");
  if (!compiler) return;
  const auto comparisons = [&](const std::string& tag) {
    const std::string text =
        "struct Params { float* values; };\nTJ_KERNEL(kernel, 32, Params, p) {\n  float a, b;\n  load_global(p.values "
        "+ 2 * thread_index(), a, b);\n"
        "  store_global(static_cast<void*>(p.values + 2 * thread_index()), pack(" +
        tag + ", a, b));\n}\n";
    const std::vector<std::uint32_t> words = testing::code_words(compiler->compile(job_for("gfx1100", text)).bytes);
    return std::count_if(words.begin(), words.end(), [](std::uint32_t word) {
      return word >> 25 == 0x3eu || word >> 24 == 0xd4u;
    });  // VOPC, in 32 and in 64 bits: the same guide
  };
  CHECK(comparisons("Numbers<Bf16>{}") == 0);
  CHECK(comparisons("Bf16{}") == 2);
}

TEST_CASE("what AMD lacks is refused in words, where a body gets there") {
  const auto compiler = hip_compiler("gfx1100", "clang");
  if (!compiler) return;
  const auto log = [&](const std::string& statement) {
    const std::string text =
        "struct Params { tj::TensorMap map; };\nTJ_KERNEL(kernel, 32, Params, p) {\n  " + statement + "\n}\n";
    return error_of([&] { compiler->compile(job_for("gfx1100", text)); }).log;
  };
  CHECK(has(log("mbarrier_init(0u, 1u);"), "a block has block_sync"));
  CHECK(has(log("mbarrier_wait<1>(0, 0);"), "a block has block_sync"));
  CHECK(has(log("named_sync<1>(1, 64);"), "a block has block_sync"));
  CHECK(has(log("copy_async<16>(0u, &p.map);"), "no copy goes past registers here"));
  CHECK(has(log("copy_box_4d(0u, &p.map, 0u, 0, 0, 0, 0);"), "there is no copy engine here"));
  CHECK(has(log("const u32 blocks = grid_blocks(); (void)blocks;"), "take it from the kernel's parameter"));
}
