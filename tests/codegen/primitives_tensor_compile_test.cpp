// Protects the primitives of tensor memory. One unit with all of them, in each of their shapes, for one block and for a
// pair, compiles for sm_100a without a spill or a warning. A form that an instruction lacks is refused in words.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include <tilejit/error.hpp>

#include "codegen/device_kernel.hpp"
#include "model/primitive_texts.hpp"
#include "model/unit_job.hpp"
#include "support/expect.hpp"

using namespace tj;
using testing::error_of;
using testing::has;

namespace {

// Every primitive once, with each of its shapes; the result is never run.
constexpr const char* kUnit = R"(
struct Params { float* out; tj::TensorMap map; };

template <int N>
TJ_DEVICE void rows(u32 tensor, float* out) {
  float v[N];
  u32 words[N];
  tensor_load(tensor, v);
  tensor_load(tensor_place(tensor, 0, N), words);
  tensor_load_wait<1>();
  for (int i = 0; i < N; ++i) v[i] += static_cast<float>(words[i]);
  tensor_store(tensor, v);
  tensor_store(tensor_place(tensor, 0, N), words);
  tensor_store_wait<2>();
  for (int i = 0; i < N; ++i) store_global(out + i, v[i]);
}
template <int N>
TJ_DEVICE void fragments(u32 tensor, float* out) {
  float v[N];
  tensor_load_fragment(tensor, v);
  tensor_load_wait<3>();
  for (int i = 0; i < N; ++i) v[i] += 1.0f;
  tensor_store_fragment(tensor_place(tensor, 16, 0), v);
  tensor_store_wait<4>();
  for (int i = 0; i < N; ++i) store_global(out + i, v[i]);
}
template <int N>
TJ_DEVICE void operands(u32 tensor, float* out) {
  u32 v[N];
  tensor_load_operand(tensor, v);
  tensor_load_wait<12>();
  for (int i = 0; i < N; ++i) v[i] += 1;
  tensor_store_operand(tensor_place(tensor, 16, 0), v);
  tensor_store_wait<13>();
  for (int i = 0; i < N; ++i) store_global(out + i, static_cast<float>(v[i]));
}
template <int Blocks, class Tag>
TJ_DEVICE void products(u32 base, u32 tensor) {
  constexpr u32 kPlain = matrix_instruction<128 * Blocks, 256, 0>(Tag{}), kMn = matrix_instruction<128 * Blocks, 128, kLeftMn | kRightMn>(Tag{});
  const u64 a = matrix_operand(base + 1024, 16, 1024), b = matrix_operand(base + 2048, 8192, 1024);
  matrix_multiply<Blocks>(tensor, a, b, kPlain, false);
  matrix_multiply_tensor<Blocks>(tensor, tensor_place(tensor, 0, 256), b, kPlain, true);
  matrix_multiply_steps<MatrixSteps<4, 32, 2048>, Blocks>(tensor, a, operand_advance(b, 32), kMn, true);
  matrix_multiply_tensor_steps<MatrixSteps<8, 0, 32>, Blocks>(tensor, tensor_place(tensor, 0, 256), b, kMn, false);
  if constexpr (Blocks == 1) matrix_multiply_tensor(tensor, tensor_place(tensor, 0, 256), b, matrix_instruction<64, 72, kRightMn>(Tag{}), true);
  matrix_commit<5, Blocks>(base);
  matrix_commit_multicast<6, Blocks>(base + 8, 3);
}

template <int Blocks>
TJ_DEVICE void body(const Params& p) {
  const u32 base = shared_base();
  if (warp_index() == 0) tensor_allocate<Blocks>(base + 16, 512);
  if (thread_index() == 0) mbarrier_init(base, 1);
  mbarrier_init_done();
  tensor_before_sync<7>();
  block_sync();
  tensor_after_sync<8>();
  const u32 tensor = load_shared<u32>(base + 16);
  if (warp_index() == 4 && elect_one()) {
    products<Blocks, F16>(base, tensor);
    products<Blocks, Bf16>(base, tensor);
  }
  mbarrier_wait<9>(base, 0);
  tensor_after_sync<10>();
  if (warp_index() < 4) {
    const u32 mine = tensor_lanes(tensor);
    rows<1>(mine, p.out);
    rows<2>(mine, p.out);
    rows<4>(mine, p.out);
    rows<8>(mine, p.out);
    rows<16>(mine, p.out);
    rows<32>(mine, p.out);
    rows<64>(mine, p.out);
    fragments<4>(mine, p.out);
    fragments<8>(mine, p.out);
    fragments<16>(mine, p.out);
    fragments<32>(mine, p.out);
    fragments<64>(mine, p.out);
    operands<2>(mine, p.out);
    operands<4>(mine, p.out);
    operands<8>(mine, p.out);
    operands<16>(mine, p.out);
    operands<32>(mine, p.out);
  }
  tensor_before_sync<11>();
  block_sync();
  if (warp_index() == 0) {
    tensor_relinquish<Blocks>();
    tensor_free<Blocks>(tensor, 512);
  }
}
)";

constexpr const char* kKernel = "TJ_KERNEL(kernel, 160, Params, p) { body<1>(p); }\n";
constexpr const char* kPairKernel = "TJ_KERNEL(kernel, 160, Params, p) { body<2>(p); }\n";

compile::Job job_for(std::string_view text) { return testing::device_job(text, *arch::find("sm_100a")); }

}  // namespace

TEST_CASE("a unit with every primitive of tensor memory compiles for sm_100a, for a block and for a pair") {
  const auto compiler = test::nvrtc_or_skip();
  for (const char* kernel : {kKernel, kPairKernel}) {
    CAPTURE(kernel);
    test::check_clean(*compiler, job_for(std::string(kUnit) + kernel));
  }
}

TEST_CASE("the units that the tests of the model run compile for a device") {
  const auto compiler = test::nvrtc_or_skip();
  for (const std::string_view text : {testing::tensor_matrix_text(), testing::tensor_memory_text(),
                                      testing::tensor_order_text(), testing::tensor_pair_text()}) {
    const compile::Binary binary = compiler->compile(job_for(text));
    INFO(binary.log);
    CHECK(binary.bytes.starts_with("\177ELF"));
    CHECK(binary.warnings.empty());
  }
}

TEST_CASE("registers move between roles beside tensor memory") {
  const auto compiler = test::nvrtc_or_skip();
  CHECK(compiler
            ->compile(job_for("struct Params { int n; };\nTJ_KERNEL(kernel, 256, Params, p) {\n  if (warp_index() < 4) "
                              "registers_shrink<1, 24>();\n  else registers_grow<2, 152>();\n}\n"))
            .registers > 0);
}

TEST_CASE("shapes that the instructions do not have are refused in words") {
  const auto compiler = test::nvrtc_or_skip();
  const auto log = [&](const std::string& statement) {
    return error_of([&] {
             compiler->compile(
                 job_for("struct Params { int n; };\nTJ_KERNEL(kernel, 32, Params, p) {\n  " + statement + "\n}\n"));
           })
        .log;
  };
  CHECK(has(log("constexpr u32 i = matrix_instruction<32, 64, 0>(F16{}); matrix_multiply(0u, 0, 0, i, false);"),
            "64 or 128 rows a block"));
  CHECK(has(log("constexpr u32 i = matrix_instruction<128, 8, 0>(F16{}); matrix_multiply(0u, 0, 0, i, false);"),
            "in steps of 16"));
  CHECK(has(log("constexpr u32 i = matrix_instruction<256, 48, 0>(F16{}); matrix_multiply(0u, 0, 0, i, false);"),
            "of 32 for a pair"));
  CHECK(has(log("float v[24]; tensor_load(0u, v);"), "1, 2, 4, 8, 16 columns or a multiple of 32"));
  CHECK(has(log("u32 v[2]; tensor_store_fragment(0u, v);"), "8, 16, 32 columns or a multiple of 64"));
  CHECK(has(log("u32 v[64]; tensor_store_operand(0u, v);"), "4, 8, 16, 32 or 64 columns"));
  CHECK(has(log("tensor_allocate<4>(0u, 32);"), "one block or a pair"));
}
