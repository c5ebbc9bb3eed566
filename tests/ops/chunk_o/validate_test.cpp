// Protects what chunk_o refuses, and that each refusal names the argument, its value and what is allowed; and requests:
// the names of kernels, flags, and the key of a hot call.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "ops/chunk_o/chunk_o.hpp"
#include "pipeline.hpp"
#include "support/expect.hpp"

using namespace tj;

namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};

/// Addresses that nothing reads.
void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

/// 200 tokens of 2 / 4 heads, room for 6 chunks.
ChunkOArgs good() {
  ChunkOArgs args;
  args.q = Tensor::contiguous(at(0x100000), kCpu, DType::bf16, {200, 2, 128});
  args.k = Tensor::contiguous(at(0x200000), kCpu, DType::bf16, {200, 2, 128});
  args.v_new = Tensor::contiguous(at(0x300000), kCpu, DType::bf16, {384, 4, 128});
  args.h = Tensor::contiguous(at(0x400000), kCpu, DType::bf16, {6, 4, 128, 128});
  args.o = Tensor::contiguous(at(0x800000), kCpu, DType::bf16, {200, 4, 128});
  args.g_cu = Tensor::contiguous(at(0x900000), kCpu, DType::f32, {200, 4});
  args.cu_seqlens = Tensor::contiguous(at(0xa00000), kCpu, DType::i32, {4});
  args.chunk_indices = Tensor::contiguous(at(0xa01000), kCpu, DType::i32, {6, 2});
  args.total_chunks = Tensor::contiguous(at(0xa02000), kCpu, DType::i32, {1});
  return args;
}
void drop_lists(ChunkOArgs& args) {
  args.cu_seqlens.reset();
  args.chunk_indices.reset();
  args.total_chunks.reset();
}

void refuses(const std::function<void(ChunkOArgs&)>& change, const std::vector<std::string>& words,
             bool on_model = true) {
  ChunkOArgs args = good();
  change(args);
  const Error error = testing::error_of([&] { ops::validate(args, on_model); });
  CAPTURE(error.message);
  CHECK(error.stage == Stage::argument);
  for (const std::string& word : words) CHECK_MESSAGE(error.message.find(word) != std::string::npos, word);
}

}  // namespace

TEST_CASE("what is right passes") {
  CHECK_NOTHROW(ops::validate(good(), true));
  ChunkOArgs args = good();
  args.g_cu.reset();
  args.total_chunks->rank = 0;
  args.h_transposed = true;
  args.scale = -3.0f;
  CHECK_NOTHROW(ops::validate(args, true));
  args = good();
  drop_lists(args);
  args.seq_length = 100;  // two sequences of two chunks
  CHECK_NOTHROW(ops::validate(args, true));
}

TEST_CASE("stages that are asked for are slots of all rings that copies fill; what does not fit is refused by name") {
  const auto choice = [](int ratio, int stages, const char* arch, int heads = 0) {
    ops::ChunkOKernel kernel;
    kernel.divisor = ratio;
    kernel.stages = stages;
    kernel.heads = heads;
    kernel.evict_first = true;
    return choose(ops::chunk_o_op(), ops::chunk_o_request(kernel), *arch::find(arch));
  };
  for (const char* arch : {"sm_90a", "sm_100a"})
    for (const int stages : {1, 2}) {
      CAPTURE(arch);
      CAPTURE(stages);
      const Choice made = choice(2, stages, arch);
      const graph::Graph& graph = made.candidate.graph;
      int rings = 0, hints = 0;
      for (const sched::Ring& ring : made.schedule.rings) {
        const std::string& name = graph.values[static_cast<std::size_t>(ring.value)].name;
        if (name != "qk" && name != "h0" && name != "h1" && name != "v0" && name != "v1") continue;
        CHECK(ring.slots == stages);
        ++rings;
      }
      CHECK(rings == (stages == 1 ? 5 : 3));  // two stages of two heads do not fit: items have one
      for (const graph::Node& node : graph.nodes)
        if (node.cache_hint != graph::CacheHint::none) {
          CHECK((node.body == "load_h" || node.body == "load_v"));
          ++hints;
        }
      CHECK(hints == (stages == 1 ? 4 : 2));
      CHECK(testing::error_of([&] { choice(2, 2, arch, 2); }).message.find("num_stages is 2; allowed on ") !=
            std::string::npos);
      const Error error = testing::error_of([&] { choice(1, 3, arch); });
      CAPTURE(error.message);
      CHECK(error.stage == Stage::argument);
      CHECK(error.message.find("chunk_o: num_stages is 3; allowed on ") == 0);
      CHECK(error.message.find("bytes of shared memory: 0 (as many as fit), 1, 2") != std::string::npos);
    }
  refuses([](ChunkOArgs& a) { a.num_stages = -1; },
          {"num_stages is -1", "0 (as many as fit), and of 1 to 4 those that fit"});
  refuses([](ChunkOArgs& a) { a.num_stages = 5; }, {"num_stages is 5", "1 to 4"});
  ChunkOConfig config;
  config.num_stages = 9;
  CHECK(testing::error_of([&] { ops::chunk_o_kernel(config); }).message.find("num_stages is 9") != std::string::npos);
}

TEST_CASE("tensors of the wrong form, type, size or place") {
  refuses([](ChunkOArgs& a) { a.q.data = nullptr; }, {"chunk_o: q.data is null"});
  refuses([](ChunkOArgs& a) { a.h.rank = 3; }, {"h.rank is 3", "4", "[C, Hv, 128, 128]"});
  refuses([](ChunkOArgs& a) { a.o.dtype = DType::f16; }, {"o.dtype is f16", "bf16"});
  refuses([](ChunkOArgs& a) { a.k.device = {DeviceKind::cuda, 0}; }, {"k.device is cuda:0", "q.device is cpu"});
  refuses([](ChunkOArgs&) {}, {"q.device is cpu", "GPU target"}, false);
  refuses([](ChunkOArgs& a) { a.k.shape[0] = 199; }, {"k.shape[0] (T) is 199", "200"});
  refuses([](ChunkOArgs& a) { a.q.shape[2] = 64; }, {"q.shape[2] (D) is 64", "128"});
  refuses([](ChunkOArgs& a) { a.q.shape[1] = a.k.shape[1] = 3; },
          {"o.shape[1] (Hv) is 4", "multiples of q.shape[1] (H), 3"});
  refuses([](ChunkOArgs& a) { a.v_new.shape[1] = 5; }, {"v_new.shape[1] (Hv) is 5", "4"});
  refuses([](ChunkOArgs& a) { a.v_new.shape[0] = 63; }, {"v_new.shape[0] (R) is 63", "at least 64"});
  refuses([](ChunkOArgs& a) { a.h.shape[3] = 64; }, {"h.shape[3] (K) is 64", "128"});
  refuses([](ChunkOArgs& a) { a.g_cu->shape[1] = 2; }, {"g_cu.shape[1] (Hv) is 2", "4"});
  refuses([](ChunkOArgs& a) { a.g_cu->dtype = DType::bf16; }, {"g_cu.dtype is bf16", "f32"});
  refuses(
      [](ChunkOArgs& a) {
        a.v_new.shape[0] = std::int64_t{1} << 30;
        a.v_new.strides[0] = 512;
        a.v_new.shape[1] = a.o.shape[1] = a.h.shape[1] = 128;
        a.o.shape[0] = 200;
      },
      {"v_new.shape[0] (R)", "allowed: R / 64 * Hv"});
}

TEST_CASE("strides, addresses and overlap") {
  refuses([](ChunkOArgs& a) { a.q.strides[0] = 260; }, {"q.strides[0] (T) is 260", "multiples of 16 bytes"});
  refuses([](ChunkOArgs& a) { a.v_new.strides[2] = 2; }, {"v_new.strides[2] (D) is 2", "contiguous last"});
  refuses([](ChunkOArgs& a) { a.h.data = at(0x400008); }, {"h.data is 0x400008", "16 bytes"});
  refuses([](ChunkOArgs& a) { a.o.strides[0] = 128; }, {"o.strides", "share memory"});
  refuses([](ChunkOArgs& a) { a.o.data = a.v_new.data; }, {"o at", "overlaps v_new"});
  refuses([](ChunkOArgs& a) { a.g_cu->data = a.o.data; }, {"o at", "overlaps g_cu"});
  refuses([](ChunkOArgs& a) { a.chunk_indices->strides[0] = 3; }, {"chunk_indices.strides[0] (n) is 3", "2"});
  // Rows that chunk_indices() may write; chunk_o reads dense ones alone.
  refuses([](ChunkOArgs& a) { a.chunk_indices->strides[0] = 4; },
          {"chunk_indices.strides[0] (n) is 4", "allowed: 2 (a contiguous list)"});
}

TEST_CASE("lists and lengths") {
  refuses([](ChunkOArgs& a) { a.chunk_indices.reset(); }, {"chunk_indices is absent", "together"});
  refuses([](ChunkOArgs& a) { a.seq_length = 64; }, {"seq_length is 64", "with cu_seqlens: 0"});
  refuses([](ChunkOArgs& a) { a.cu_seqlens->dtype = DType::f32; }, {"cu_seqlens.dtype is f32", "i32"});
  refuses([](ChunkOArgs& a) { a.total_chunks->shape[0] = 2; }, {"total_chunks.shape[0]", "is 2"});
  refuses(drop_lists, {"seq_length is 0", "1 to 200"});
  refuses(
      [](ChunkOArgs& a) {
        drop_lists(a);
        a.seq_length = 150;
      },
      {"seq_length is 150", "multiple"});
  refuses(
      [](ChunkOArgs& a) {
        drop_lists(a);
        a.seq_length = 25;
      },
      {"h.shape[0] (C) is 6", "at least 8"});
  refuses([](ChunkOArgs& a) { a.scale = std::numeric_limits<float>::infinity(); }, {"scale is inf", "finite"});
  const Error error = testing::error_of([] { ops::validate(ChunkOConfig{0, true, true, false}); });
  CHECK(error.message.find("v_heads_per_head is 0") != std::string::npos);
}

TEST_CASE("TJ_CHECK names the first bad entry of the lists") {
  struct Lists {
    std::vector<std::int32_t> ends = {0, 70, 70, 200}, rows = {0, 0, 0, 1, 2, 0, 2, 1, 2, 2, -9, -9}, total = {5};
  };
  const auto bad = [](const std::function<void(Lists&)>& change) {
    Lists lists;
    change(lists);
    const ChunkOArgs args = good();
    return testing::said_by([&] {
      ops::chunk_o_op().check_lists(&args, [&](const Tensor& list) {
        if (list.data == args.cu_seqlens->data) return lists.ends;
        return list.data == args.total_chunks->data ? lists.total : lists.rows;
      });
    });
  };
  CHECK(bad([](Lists&) {}) == "");
  CHECK(bad([](Lists& l) { l.total[0] = 0, l.rows[0] = 7; }) == "");
  CHECK(testing::has(bad([](Lists& l) { l.ends[0] = -7; }), "cu_seqlens[0] is -7; allowed: 0 to 200, q.shape[0]"));
  CHECK(testing::has(bad([](Lists& l) { l.ends[2] = 20; }),
                     "cu_seqlens[2] is 20; allowed: 70, the one before it, to 200"));
  CHECK(testing::has(bad([](Lists& l) { l.ends[3] = 201; }), "cu_seqlens[3] is 201"));
  CHECK(testing::has(bad([](Lists& l) { l.total[0] = -1; }), "total_chunks[0] is -1; allowed: 0 and more"));
  CHECK(
      testing::has(bad([](Lists& l) { l.total[0] = 6; }), "chunk_indices[5][0] is -9; allowed: 0 to 2, the sequences"));
  CHECK(testing::has(bad([](Lists& l) { l.rows[2] = 1; }),
                     "chunk_indices[1][0] is 1; allowed: sequences that have a token"));
  CHECK(testing::has(bad([](Lists& l) { l.rows[3] = 2; }),
                     "chunk_indices[1][1] is 2; allowed: 0 to 1, the chunks of sequence"));
  CHECK(testing::has(
      bad([](Lists& l) { l.rows[9] = 0; }),
      "chunk_indices[4][1] is 0; allowed: chunks of sequence 2 that no other row names, and row 2 names this"));
}

TEST_CASE("requests: one name, one key and one cache key for each kernel; flags that cannot be are refused") {
  std::set<std::string> names;
  std::set<std::uint64_t> keys;
  const auto list = ops::chunk_o_op().requests({{"head-ratio", {"1", "2", "3", "6"}},
                                                {"gated", {"both"}},
                                                {"variable", {"both"}},
                                                {"h-transposed", {"both"}},
                                                {"item-heads", {"auto", "1", "2", "3"}}});
  for (const ops::Request& request : list) {
    names.insert(request.name);
    const ops::ChunkOKernel kernel = ops::chunk_o_kernel(request);
    keys.insert(ops::chunk_o_small_key(kernel));
    CHECK(ops::chunk_o_request(kernel).fields == request.fields);
  }
  CHECK(list.size() == (2 + 3 + 3 + 4) * 8);
  CHECK(names.size() == list.size());
  CHECK(keys.size() == list.size());
  CHECK(ops::chunk_o_op().requests({}).size() == 3);
  CHECK(testing::error_of([] {
          ops::chunk_o_op().requests({{"item-heads", {"2"}}, {"head-ratio", {"3"}}});
        }).message.find("--item-heads is '2'") != std::string::npos);
  CHECK(testing::error_of([] {
          ops::chunk_o_op().requests({{"heads", {"2"}}});
        }).message.find("--heads means nothing to chunk_o") != std::string::npos);
  CHECK(testing::error_of([] { ops::chunk_o_op().requests({{"gated", {"yes"}}}); }).message.find("--gated is 'yes'") !=
        std::string::npos);
}

TEST_CASE("heads that share a key head share its q and k, as many as shared memory has room for") {
  const arch::Arch& arch = *arch::find("sm_90a");
  for (const auto& each : {std::pair{1, 1}, {2, 2}, {3, 3}, {4, 2}, {5, 1}, {6, 3}, {8, 2}}) {
    const int heads = each.first, item = each.second;
    CAPTURE(heads);
    const ops::Request request = ops::chunk_o_request(ops::chunk_o_kernel(ChunkOConfig{heads, true, true, false}));
    const Choice choice = choose(ops::chunk_o_op(), request, arch);
    CHECK(ops::chunk_o_op().geometry(request, choice.candidate).as<ops::ChunkOLaunch>().heads == item);
    CHECK(choice.schedule.roles.size() == static_cast<std::size_t>(2 + item));
    const auto problems = sched::verify(choice.candidate.graph, choice.schedule);
    CHECK_MESSAGE(problems.empty(), problems.front());
  }
}
