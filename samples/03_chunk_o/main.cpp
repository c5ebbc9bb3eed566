// Chunk output of the gated delta rule for sequences of any lengths: the list of their chunks is made on the device,
// and read there.
//
//   03_chunk_o [--lengths 100,0,65] [--heads N] [--v-heads N]
//
// q and k [T, H, 128], v_new padded per chunk and h, the state before each chunk, are random bf16, gates f32. Exits 0
// when the error against f64 is within its limit, 1 when it is not, 2 when something could not run.
#include <tilejit/tilejit.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "common/arguments.hpp"
#include "common/chunk_o_reference.hpp"
#include "common/output.hpp"
#include "common/random.hpp"
#include "common/schedule_summary.hpp"

namespace {

namespace samples = tj::samples;

constexpr const char* kUsage =
    "03_chunk_o [options]\n"
    "  --lengths N,N,...     tokens of each sequence, 0 too (default: 8192 in eight sequences on a GPU, 260 in five on "
    "the model)\n"
    "  --heads N --v-heads N of q and k, and of v_new and o: a multiple (default: 16 32 on a GPU, 1 2 on the model)\n"
    "  --seed N              of the random data (default: fresh, and printed)\n"
    "  --iterations N        timed runs (default: 20 on a GPU, 1 on the model)\n"
    "  --num-stages N        slots of the rings that copies fill (default: 0, as many as fit)\n"
    "  --max-sms N           multiprocessors that the call may fill (default: 0, all)\n"
    "  --evict-first         L2 lets go of the lines of h and v_new first\n"
    "TJ_TARGET=model:sm_90a runs on the CPU model.\n";

/// Options of the call.
struct Options {
  int num_stages = 0, max_sms = 0;
  bool evict_first = false;
};

constexpr tj::Device kHost{tj::DeviceKind::cpu, 0};
constexpr std::uint16_t kPoison = 0xffff;  // NaN: what a kernel leaves out is seen

[[noreturn]] void refuse(const std::string& message) {
  throw tj::Error(tj::Stage::argument, tj::Code::invalid_argument, message);
}

std::vector<std::int32_t> parse_lengths(const std::string& text) {
  std::vector<std::int32_t> lengths;
  std::int64_t tokens = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::int32_t length = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, length);
    if (error != std::errc() || stop != text.data() + end || length < 0 || (tokens += length) > 1 << 22)
      refuse("--lengths is '" + text +
             "'; allowed: numbers from 0, separated by commas, of at most 4194304 tokens in all");
    lengths.push_back(length);
    begin = end + 1;
  }
  if (tokens == 0) refuse("--lengths is '" + text + "'; at least one sequence must have a token");
  return lengths;
}

Options take_options(samples::Arguments& words) {
  Options options;
  options.num_stages = static_cast<int>(words.take_number("--num-stages", 0, 1000).value_or(0));
  options.max_sms = static_cast<int>(words.take_number("--max-sms", 0, 1000000).value_or(0));
  options.evict_first = words.take_switch("--evict-first");
  return options;
}

samples::ChunkOProblem make_problem(samples::Arguments& words, bool model) {
  const std::vector<std::int32_t> lengths =
      parse_lengths(words.take("--lengths").value_or(model ? "64,1,0,65,130" : "4096,2048,1000,777,200,65,5,1"));
  const auto heads = words.take_number("--heads", 1, 256).value_or(model ? 1 : 16),
             v_heads = words.take_number("--v-heads", 1, 1024).value_or(2 * heads);
  if (v_heads % heads != 0)
    refuse("--v-heads is " + std::to_string(v_heads) + "; allowed: multiples of --heads, " + std::to_string(heads));
  const std::uint64_t seed = words.take_number("--seed", 0, UINT64_MAX).value_or(samples::fresh_seed());
  std::printf("data     random, seed %llu\n", static_cast<unsigned long long>(seed));
  return samples::random_chunk_o(lengths, static_cast<std::int64_t>(heads), static_cast<std::int64_t>(v_heads), seed);
}

template <class T>
std::shared_ptr<void> upload(tj::Runtime& runtime, tj::Device device, const std::vector<T>& data) {
  std::shared_ptr<void> memory = runtime.allocate(device, data.size() * sizeof(T));
  runtime.copy(memory.get(), device, data.data(), kHost, data.size() * sizeof(T));
  return memory;
}

/// The problem's tensors on a device, and the two calls on them.
struct Call {
  tj::ChunkIndicesArgs list;
  tj::ChunkOArgs output;
  std::vector<std::shared_ptr<void>> memory;

  Call(tj::Runtime& runtime, tj::Device device, const samples::ChunkOProblem& p, const std::vector<std::uint16_t>& o,
       const Options& options) {
    const auto add = [&](const auto& data, tj::DType dtype, std::initializer_list<std::int64_t> shape) {
      memory.push_back(upload(runtime, device, data));
      return tj::Tensor::contiguous(memory.back().get(), device, dtype, shape);
    };
    const auto sequences = static_cast<std::int64_t>(p.cu_seqlens.size()) - 1, tokens = p.tokens();
    const auto chunks = static_cast<std::int64_t>(p.h.size()) / (p.v_heads * samples::kChunkDim * samples::kChunkDim);
    const std::int64_t room =
        tokens / tj::kChunkTokens + sequences;  // known without a look at the lengths, and always enough
    constexpr std::int64_t kDim = samples::kChunkDim;
    list.cu_seqlens = add(p.cu_seqlens, tj::DType::i32, {sequences + 1});
    list.chunk_indices =
        add(std::vector<std::int32_t>(static_cast<std::size_t>(2 * room), -1), tj::DType::i32, {room, 2});
    list.total_chunks = add(std::vector<std::int32_t>(1, -1), tj::DType::i32, {1});
    output.q = add(p.q, tj::DType::bf16, {tokens, p.heads, kDim});
    output.k = add(p.k, tj::DType::bf16, {tokens, p.heads, kDim});
    output.v_new = add(p.v_new, tj::DType::bf16, {chunks * tj::kChunkTokens, p.v_heads, kDim});
    output.h = add(p.h, tj::DType::bf16, {chunks, p.v_heads, kDim, kDim});
    output.g_cu = add(p.g_cu, tj::DType::f32, {tokens, p.v_heads});
    output.o = add(o, tj::DType::bf16, {tokens, p.v_heads, kDim});
    output.num_stages = options.num_stages;
    output.max_sms = options.max_sms;
    output.evict_first = options.evict_first;
    output.cu_seqlens = list.cu_seqlens;
    output.chunk_indices = list.chunk_indices;
    output.total_chunks = list.total_chunks;
  }
};

void print_kernel(const tj::KernelReport& report) {
  std::printf("kernel   %s for %s, %s", report.name.c_str(), report.target.c_str(),
              report.origin == tj::KernelOrigin::compiled ? "made" : "cache hit");
  std::printf(" (schedule %.1f, source %.1f, compiler %.1f, load %.1f ms)\n", report.schedule_ms, report.codegen_ms,
              report.compile_ms, report.load_ms);
  std::printf("schedule %s\n", samples::schedule_summary(report.schedule_json, "         ").c_str());
}

/// Lists the chunks, runs and times the kernel, checks. True when the error is within its limit.
bool run(tj::Runtime& runtime, tj::Device device, int iterations, const samples::ChunkOProblem& p,
         const Options& options) {
  std::vector<std::uint16_t> o(static_cast<std::size_t>(p.tokens() * p.v_heads * samples::kChunkDim), kPoison);
  const Call call(runtime, device, p, o, options);
  print_kernel(runtime.prepare(call.list));
  print_kernel(runtime.prepare(call.output));
  runtime.run(call.list);
  if (iterations > 1) runtime.run(call.output);  // the first run warms the clocks and is not timed
  const double ms = runtime.time_ms(device, [&] {
    for (int i = 0; i < iterations; ++i) runtime.run(call.output);
  }) / iterations;
  const double bytes = samples::chunk_o_bytes(p);
  std::printf("run      %.4f ms, %.4g GB/s of %.1f MB, mean of %d run%s\n", ms, bytes / ms * 1e-6, bytes * 1e-6,
              iterations, iterations == 1 ? "" : "s in a row");

  std::int32_t total = 0;
  runtime.copy(&total, kHost, call.list.total_chunks.data, device, sizeof total);
  runtime.copy(o.data(), kHost, call.output.o.data, device, o.size() * sizeof o[0]);
  const auto chunks = samples::chunks_of(p.cu_seqlens).size();
  const samples::ChunkOComparison result = samples::compare_chunk_o(p, o, 1);
  const bool good = result.within() && static_cast<std::size_t>(total) == chunks;
  std::printf("check    %s: %d of %zu chunks listed; against f64, %s\n", good ? "ok" : "WRONG", total, chunks,
              result.text().c_str());
  return good;
}

int main_checked(int argc, char** argv) {
  samples::Arguments words(argc, argv);
  if (words.take_switch("--help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  tj::Runtime& runtime = tj::Runtime::instance();
  const tj::Device device = runtime.default_device();
  const bool model = device.kind == tj::DeviceKind::cpu;
  std::printf("target   %s on %s%s\n", runtime.target_of(device, "chunk_o").c_str(), tj::to_string(device).c_str(),
              model ? " (no GPU used: the CPU model runs the same source, correct but slow)" : "");
  const int iterations = static_cast<int>(words.take_number("--iterations", 1, 1000000).value_or(model ? 1 : 20));
  const Options options = take_options(words);
  const samples::ChunkOProblem p = make_problem(words, model);
  if (const auto rest = words.rest(); !rest.empty())
    throw tj::Error(tj::Stage::argument, tj::Code::invalid_argument,
                    "'" + rest.front() + "' means nothing to this sample; see --help");
  std::printf("problem  T %lld in %zu sequences, H %lld, Hv %lld\n", static_cast<long long>(p.tokens()),
              p.cu_seqlens.size() - 1, static_cast<long long>(p.heads), static_cast<long long>(p.v_heads));
  return run(runtime, device, iterations, p, options) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return tj::samples::all_written("03_chunk_o", main_checked(argc, argv));
  } catch (const tj::Error& error) {
    std::fprintf(stderr, "03_chunk_o: %s\n%s", error.what(), error.log.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "03_chunk_o: %s\n", error.what());
  }
  return 2;
}
