// Protects calls of sizes that are 0, on the CPU model: outputs without elements need no kernel, and a product over
// nothing ends as a sum of 0 does. Tensors without elements have no address. Attention's are in fmha/.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <tuple>
#include <utility>
#include <vector>

#include <tilejit/counters.hpp>
#include <tilejit/ops.hpp>
#include <tilejit/plan.hpp>

#include "support/expect.hpp"
#include "support/model_runtime.hpp"

using namespace tj;
using testing::model_runtime;

namespace {

constexpr Device kHost{DeviceKind::cpu, 0};

/// Tensors of one byte over and over, each in memory of its own.
class Memory {
 public:
  Tensor tensor(DType type, std::initializer_list<std::int64_t> sizes, unsigned char byte = 0) {
    std::int64_t elements = 1;
    for (const std::int64_t size : sizes) elements *= size;
    auto& memory = all_.emplace_back(static_cast<std::size_t>(elements * size_of(type) + 15) / 16 * 2,
                                     0x0101010101010101ull * byte);
    return Tensor::contiguous(elements == 0 ? nullptr : memory.data(), kHost, type, sizes);
  }

 private:
  std::deque<std::vector<std::uint64_t>> all_;
};

float* floats(const Tensor& tensor) { return static_cast<float*>(tensor.data); }
std::int64_t elements(const Tensor& tensor) {
  std::int64_t count = 1;
  for (int i = 0; i < tensor.rank; ++i) count *= tensor.shape[static_cast<std::size_t>(i)];
  return count;
}
bool all(const Tensor& tensor, float wanted) {
  return std::all_of(floats(tensor), floats(tensor) + elements(tensor), [&](float each) { return each == wanted; });
}

/// The call, its preparation and its plan succeed, and no kernel is looked up.
template <class Args>
void check_nothing(const Args& args, std::initializer_list<void*> addresses) {
  Runtime& runtime = model_runtime("model:sm_90a");
  const Counters before = runtime.counters();
  runtime.run(args);
  CHECK(runtime.prepare(args).name.empty());
  const Plan plan = runtime.plan(args);
  CHECK(plan.workspace_bytes() == 0);
  if (addresses.size() != 0) plan.run(addresses);
  CHECK(runtime.counters().misses == before.misses);
  CHECK(runtime.counters().loads == before.loads);
}

GemmArgs product(Memory& memory, std::int64_t m, std::int64_t n, std::int64_t k, DType type = DType::f16) {
  GemmArgs args;
  args.a = memory.tensor(type, {m, k}, 0x3c), args.b = memory.tensor(type, {n, k}, 0x3c);
  args.d = memory.tensor(DType::f32, {m, n}, 0x7f);
  return args;
}

}  // namespace

TEST_CASE("products without rows, columns or matrices") {
  Memory memory;
  for (const auto& [m, n] : {std::pair{0, 40}, {40, 0}, {0, 0}}) {
    GemmArgs args = product(memory, m, n, 32);
    args.bias = memory.tensor(DType::f32, {n});
    check_nothing(args, {args.a.data, args.b.data, args.d.data, args.bias->data});
  }
  GemmArgs args;
  args.a = memory.tensor(DType::f16, {0, 8, 16}), args.b = memory.tensor(DType::f16, {8, 16});
  args.d = memory.tensor(DType::f16, {0, 8, 8});
  check_nothing(args, {nullptr, args.b.data, nullptr});
  args.gate = Activation::silu, args.b = memory.tensor(DType::f16, {16, 16});
  check_nothing(args, {nullptr, args.b.data, nullptr});
}

TEST_CASE("products over a K of 0 are beta c, with bias and activation") {
  for (const char* target : {"model:sm_90a", "model:sm_90", "model:sm_100a", "model:gfx1100"}) {
    CAPTURE(target);
    Memory memory;
    GemmArgs args = product(memory, 70, 45, 0);
    model_runtime(target).run(args);
    CHECK(all(args.d, 0));
    args.bias = memory.tensor(DType::f32, {45});
    std::fill_n(floats(*args.bias), 45, -3.0f);
    args.c = memory.tensor(DType::f32, {70, 45});
    std::fill_n(floats(*args.c), 70 * 45, 4.0f);
    args.beta = 2;
    model_runtime(target).run(args);
    CHECK(all(args.d, 5));
    args.beta = 0, args.activation = Activation::relu;
    const Plan plan = model_runtime(target).plan(args);
    const Tensor elsewhere = memory.tensor(DType::f32, {70, 45}, 0x7f);
    plan.run({nullptr, nullptr, elsewhere.data, args.bias->data});
    CHECK(all(elsewhere, 0));
    CHECK(all(args.d, 5));
  }
}

TEST_CASE("products over a K of 0 of batches, few rows, e4m3 with scales, a gate, and an end of one's own") {
  Memory memory;
  Runtime& runtime = model_runtime();
  GemmArgs batch;
  batch.a = memory.tensor(DType::bf16, {3, 5, 0}), batch.b = memory.tensor(DType::bf16, {24, 0});
  batch.d = memory.tensor(DType::f32, {3, 5, 24}, 0x7f);
  runtime.run(batch);
  CHECK(all(batch.d, 0));
  GemmArgs scaled = product(memory, 130, 128, 0, DType::e4m3);
  scaled.scale_a = memory.tensor(DType::f32, {130, 0}), scaled.scale_b = memory.tensor(DType::f32, {1, 0});
  runtime.run(scaled);
  CHECK(all(scaled.d, 0));
  GemmArgs gated = product(memory, 4, 64, 0);
  gated.d = memory.tensor(DType::f32, {4, 32}, 0x7f), gated.gate = Activation::silu;
  runtime.run(gated);
  CHECK(all(gated.d, 0));
  GemmArgs own = product(memory, 4, 64, 0);
  own.end_text = "return value + 7.0f;";
  runtime.run(own);
  CHECK(all(own.d, 7));
}

TEST_CASE("products of groups: without rows, columns or groups, and over a K of 0") {
  Memory memory;
  GroupedGemmArgs args;
  const auto set = [&](std::int64_t groups, std::int64_t rows, std::int64_t n, std::int64_t k, Grouping grouping) {
    args = {};
    args.grouping = grouping;
    const bool counts = grouping == Grouping::counts;
    const auto matrix = [&](DType type, std::int64_t columns) {
      return counts ? memory.tensor(type, {groups, rows, columns}, 0x7f) : memory.tensor(type, {rows, columns}, 0x7f);
    };
    args.a = matrix(DType::bf16, k), args.b = memory.tensor(DType::bf16, {groups, n, k}),
    args.d = matrix(DType::f32, n);
    args.groups = memory.tensor(DType::i32, {grouping == Grouping::rows ? rows : groups}, 0);
  };
  for (const Grouping grouping : {Grouping::ends, Grouping::counts, Grouping::rows})
    for (const auto& [groups, rows, n] : {std::tuple{2, 0, 64}, {2, 5, 0}, {0, 5, 64}, {0, 0, 64}}) {
      CAPTURE(static_cast<int>(grouping));
      set(groups, rows, n, 64, grouping);
      check_nothing(args, {args.a.data, args.b.data, args.d.data, args.groups.data});
    }
  set(2, 40, 64, 0, Grouping::ends);
  static_cast<std::int32_t*>(args.groups.data)[0] = 10, static_cast<std::int32_t*>(args.groups.data)[1] = 30;
  args.bias = memory.tensor(DType::f32, {2, 64});
  std::fill_n(floats(*args.bias) + 64, 64, 2.0f);
  model_runtime().run(args);
  for (int row = 0; row < 40; ++row) {
    const float wanted = row < 10 ? 0.0f : 2.0f;
    CAPTURE(row);
    CHECK((row < 30 ? floats(args.d)[row * 64 + 5] == wanted : floats(args.d)[row * 64 + 5] > 1e30f));
  }
  set(2, 128, 64, 0, Grouping::rows);
  model_runtime().run(args);
  CHECK(all(args.d, 0));
  set(2, 40, 64, 0, Grouping::counts);
  std::fill_n(static_cast<std::int32_t*>(args.groups.data), 2, 40);
  model_runtime().run(args);
  CHECK(all(args.d, 0));
}

TEST_CASE("groups along a K of 0 give beta c and the bias, whatever the list says") {
  for (const DType type : {DType::bf16, DType::e4m3}) {
    Memory memory;
    GroupedGemmArgs args;
    args.grouping = Grouping::depths;
    args.a = memory.tensor(type, {72, 0}), args.b = memory.tensor(type, {64, 0});
    args.d = memory.tensor(DType::f32, {3, 72, 64}, 0x7f);
    args.groups = memory.tensor(DType::i32, {3});
    args.c = memory.tensor(DType::f32, {3, 72, 64});
    if (type == DType::e4m3) {
      args.scale_a = memory.tensor(DType::f32, {72, 0});
      args.scale_b = memory.tensor(DType::f32, {64, 0});
    }
    std::fill_n(floats(*args.c), elements(*args.c), 3.0f);
    args.beta = 1;
    model_runtime().run(args);
    CHECK(all(args.d, 3));
    std::fill_n(static_cast<std::int32_t*>(args.groups.data), 3, 300);
    model_runtime().run(args);
    CHECK(all(args.d, 3));
    args.a = memory.tensor(type, {0, 128}), args.d = memory.tensor(DType::f32, {3, 0, 64});
    args.b = memory.tensor(type, {64, 128});
    if (type == DType::bf16) args.b.strides = {1, 64};
    args.beta = 0, args.scale_a.reset(), args.scale_b.reset();
    check_nothing(args, {nullptr, args.b.data, nullptr, args.groups.data});
  }
}

TEST_CASE("quantising without rows or columns, and rows that a list leaves out of none") {
  Memory memory;
  for (const auto& [m, k] : {std::pair{0, 256}, {5, 0}}) {
    for (const bool transposed : {false, true}) {
      QuantiseArgs args;
      args.transposed = transposed;
      args.x = memory.tensor(DType::bf16, {m, k});
      args.q = transposed ? memory.tensor(DType::e4m3, {k, m}) : memory.tensor(DType::e4m3, {m, k});
      args.scales = transposed ? memory.tensor(DType::f32, {k, (m + 127) / 128})
                               : memory.tensor(DType::f32, {m, (k + 127) / 128});
      check_nothing(args, {args.x.data, args.q.data, args.scales.data});
    }
  }
  QuantiseArgs args;
  args.x = memory.tensor(DType::bf16, {0, 256}), args.q = memory.tensor(DType::e4m3, {9, 256}, 0x7f);
  args.scales = memory.tensor(DType::f32, {9, 2}, 0x7f), args.row_indices = memory.tensor(DType::i32, {9}, 0xff);
  model_runtime().run(args);
  const auto* const q = static_cast<const unsigned char*>(args.q.data);
  CHECK(std::all_of(q, q + 9 * 256, [](unsigned char each) { return each == 0; }));
}

TEST_CASE("combining no rows, none of them chosen, none there") {
  Memory memory;
  CombineArgs args;
  const auto set = [&](std::int64_t rows, std::int64_t tokens, std::int64_t choices, std::int64_t columns) {
    args = {};
    args.y = memory.tensor(DType::bf16, {rows, columns}), args.d = memory.tensor(DType::f32, {tokens, columns}, 0x7f);
    args.slots = memory.tensor(DType::i32, {tokens, choices}, 0xff);
    args.weights = memory.tensor(DType::f32, {tokens, choices}, 0x7f);
    args.residual = memory.tensor(DType::f32, {tokens, columns});
  };
  for (const auto& [tokens, columns] : {std::pair{0, 64}, {9, 0}}) {
    set(4, tokens, 2, columns);
    check_nothing(args, {args.y.data, args.d.data, args.slots.data, args.weights->data, args.residual->data});
  }
  for (const auto& [rows, choices] : {std::pair{4, 0}, {0, 2}}) {
    set(rows, 9, choices, 300);
    std::fill_n(floats(*args.residual), 9 * 300, 2.0f);
    model_runtime().run(args);
    CHECK(all(args.d, 2));
    args.residual.reset();
    model_runtime("model:gfx942").run(args);
    CHECK(all(args.d, 0));
  }
}

TEST_CASE(
    "the gated delta rule without tokens takes states from one pool to the other; without sequences it does nothing") {
  for (const char* target : {"model:sm_90a", "model:gfx1100"}) {
    for (const bool listed : {false, true}) {
      CAPTURE(target);
      CAPTURE(listed);
      Memory memory;
      GatedDeltaRuleArgs args;
      for (Tensor* const each : {&args.q, &args.k, &args.v, &args.o})
        *each = listed ? memory.tensor(DType::bf16, {0, 2, 64}) : memory.tensor(DType::bf16, {3, 0, 2, 64});
      args.gate = listed ? memory.tensor(DType::f32, {0, 2}) : memory.tensor(DType::f32, {3, 0, 2});
      if (listed) args.cu_seqlens = memory.tensor(DType::i32, {4});
      args.initial_state = memory.tensor(DType::f32, {3, 2, 64, 64});
      check_nothing(args, {});
      std::fill_n(floats(*args.initial_state), elements(*args.initial_state), 0.5f);
      args.final_state = memory.tensor(DType::f32, {3, 2, 64, 64}, 0x7f);
      model_runtime(target).run(args);
      CHECK(all(*args.final_state, 0.5f));
    }
  }
  Memory memory;
  GatedDeltaRuleArgs none;
  for (Tensor* const each : {&none.q, &none.k, &none.v, &none.o}) *each = memory.tensor(DType::bf16, {0, 5, 2, 64});
  none.final_state = memory.tensor(DType::f32, {0, 2, 64, 64});
  check_nothing(none, {nullptr, nullptr, nullptr, nullptr, nullptr});
}

TEST_CASE("stages over chunks without tokens") {
  Memory memory;
  const auto rows = [&](std::int64_t width) { return memory.tensor(DType::bf16, {2, 0, 2, width}); };
  const auto numbers = [&] { return memory.tensor(DType::f32, {2, 0, 2}); };
  ChunkCumsumArgs cumsum;
  cumsum.gate = numbers(), cumsum.g_cu = numbers();
  check_nothing(cumsum, {nullptr, nullptr});
  ChunkSolveArgs solve;
  solve.k = rows(64), solve.a = rows(64);
  check_nothing(solve, {nullptr, nullptr});
  ChunkWuArgs wu;
  wu.k = rows(64), wu.v = rows(64), wu.a = rows(64), wu.w = rows(64), wu.u = rows(64);
  check_nothing(wu, {nullptr, nullptr, nullptr, nullptr, nullptr});
  for (const bool listed : {false, true}) {
    ChunkStatesArgs states;
    const auto of_tokens = [&] { return listed ? memory.tensor(DType::bf16, {0, 2, 64}) : rows(64); };
    states.k = of_tokens(), states.w = of_tokens(), states.u = of_tokens();
    states.h = memory.tensor(DType::bf16, {0, 2, 64, 64}), states.v_new = memory.tensor(DType::bf16, {0, 2, 64});
    if (listed) states.cu_seqlens = memory.tensor(DType::i32, {3});
    check_nothing(states, {});
    states.initial_state = memory.tensor(DType::f32, {2, 2, 64, 64});
    std::fill_n(floats(*states.initial_state), elements(*states.initial_state), 0.5f);
    states.final_state = memory.tensor(DType::f32, {2, 2, 64, 64}, 0x7f);
    model_runtime().run(states);
    CHECK(all(*states.final_state, 0.5f));
  }
}

TEST_CASE("stages over chunks with tokens and a list of no sequence write nothing") {
  for (const std::int64_t tokens : {20, 64, 200}) {
    CAPTURE(tokens);
    Memory memory;
    const float poison = floats(memory.tensor(DType::f32, {1}, 0x7f))[0];
    const auto rows = [&](unsigned char byte) { return memory.tensor(DType::bf16, {tokens, 2, 64}, byte); };
    const auto untouched = [](const Tensor& tensor) {
      const auto* const bytes = static_cast<const unsigned char*>(tensor.data);
      return std::all_of(bytes, bytes + elements(tensor) * size_of(tensor.dtype),
                         [](unsigned char byte) { return byte == 0x7f; });
    };
    // What stands behind the list is no bound: a kernel that read it would write.
    std::int32_t list[] = {0, static_cast<std::int32_t>(tokens), 77, 77};
    const Tensor ends = Tensor::contiguous(list, kHost, DType::i32, {1});
    ChunkCumsumArgs cumsum;
    cumsum.gate = memory.tensor(DType::f32, {tokens, 2}), cumsum.g_cu = memory.tensor(DType::f32, {tokens, 2}, 0x7f);
    cumsum.cu_seqlens = ends;
    check_nothing(cumsum, {cumsum.gate.data, cumsum.g_cu.data, list});
    CHECK(all(cumsum.g_cu, poison));
    ChunkSolveArgs solve;
    solve.k = rows(0), solve.a = rows(0x7f), solve.cu_seqlens = ends;
    check_nothing(solve, {});
    CHECK(untouched(solve.a));
    ChunkWuArgs wu;
    wu.k = rows(0), wu.v = rows(0), wu.a = rows(0), wu.w = rows(0x7f), wu.u = rows(0x7f), wu.cu_seqlens = ends;
    check_nothing(wu, {});
    CHECK(untouched(wu.w));
    CHECK(untouched(wu.u));
    ChunkStatesArgs states;
    states.k = rows(0), states.w = rows(0), states.u = rows(0), states.cu_seqlens = ends;
    for (const std::int64_t chunks : {tokens / 64, tokens / 64 + 2}) {
      states.h = memory.tensor(DType::bf16, {chunks, 2, 64, 64}, 0x7f);
      states.v_new = memory.tensor(DType::bf16, {64 * chunks, 2, 64}, 0x7f);
      states.final_state.reset();
      check_nothing(states, {});
      states.final_state = memory.tensor(DType::f32, {0, 2, 64, 64});
      check_nothing(states, {});
      CHECK(untouched(states.h));
      CHECK(untouched(*states.v_new));
    }
    states.final_state = memory.tensor(DType::f32, {1, 2, 64, 64});
    CHECK(testing::error_of([&] { model_runtime("model:sm_90a").run(states); }).message ==
          "chunk_states: final_state.shape[0] (N) is 1 in [1, 2, 64, 64]; allowed: 0, as the number of sequences");
  }
}

TEST_CASE("chunk output of a list of no sequence writes nothing; such a list has no chunk") {
  for (const std::int64_t tokens : {20, 64, 200})
    for (const std::int64_t chunks : {tokens / 64, tokens / 64 + 1}) {
      CAPTURE(tokens);
      CAPTURE(chunks);
      Memory memory;
      ChunkIndicesArgs lists;
      lists.cu_seqlens = memory.tensor(DType::i32, {1});
      lists.chunk_indices = memory.tensor(DType::i32, {chunks, 2}, 0x7f);
      lists.total_chunks = memory.tensor(DType::i32, {1}, 0x7f);
      model_runtime().run(lists);
      CHECK(static_cast<std::int32_t*>(lists.total_chunks.data)[0] == 0);
      ChunkOArgs args;
      args.q = memory.tensor(DType::bf16, {tokens, 1, 128}), args.k = memory.tensor(DType::bf16, {tokens, 1, 128});
      args.v_new = memory.tensor(DType::bf16, {64 * chunks, 2, 128});
      args.h = memory.tensor(DType::bf16, {chunks, 2, 128, 128});
      args.o = memory.tensor(DType::bf16, {tokens, 2, 128}, 0x7f);
      args.cu_seqlens = lists.cu_seqlens, args.chunk_indices = lists.chunk_indices;
      args.total_chunks = lists.total_chunks;
      check_nothing(args, {});
      CHECK(static_cast<std::uint16_t*>(args.o.data)[0] == 0x7f7f);
    }
}

TEST_CASE("chunk output without tokens; a list of chunks with room for none") {
  Memory memory;
  ChunkOArgs args;
  args.q = memory.tensor(DType::bf16, {0, 1, 128}), args.k = memory.tensor(DType::bf16, {0, 1, 128});
  args.v_new = memory.tensor(DType::bf16, {0, 2, 128}), args.h = memory.tensor(DType::bf16, {0, 2, 128, 128});
  args.o = memory.tensor(DType::bf16, {0, 2, 128}), args.g_cu = memory.tensor(DType::f32, {0, 2});
  check_nothing(args, {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr});
  args.seq_length = 64;
  check_nothing(args, {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr});
  ChunkIndicesArgs lists;
  lists.cu_seqlens = memory.tensor(DType::i32, {3}), lists.chunk_indices = memory.tensor(DType::i32, {0, 2});
  lists.total_chunks = memory.tensor(DType::i32, {1}, 0x7f);
  static_cast<std::int32_t*>(lists.cu_seqlens.data)[2] = 65;
  model_runtime().run(lists);
  CHECK(static_cast<std::int32_t*>(lists.total_chunks.data)[0] == 2);
}
