// Attention, from tensors in host memory to a checked result, with the public API alone.
//
//   01_fmha                                   normal random data of a default size
//   01_fmha q.npy k.npy v.npy o.npy           f16 arrays [B, H, S, D]; o.npy is written
//   01_fmha --best-of 5 --verify off          the best of five single runs, and no comparison
//
// Exits 0 when the error against f64 is within the stated limit, or was not asked for; 1 when it is not; 2 when
// something could not run.
#include <tilejit/tilejit.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/arguments.hpp"
#include "common/fmha_reference.hpp"
#include "common/npy.hpp"
#include "common/output.hpp"
#include "common/random.hpp"
#include "common/schedule_summary.hpp"

namespace {

namespace samples = tj::samples;

constexpr const char* kUsage =
    "01_fmha [q.npy k.npy v.npy o.npy] [options]\n"
    "  --causal            query r sees keys j <= r + Sk - Sq\n"
    "  --batch N --heads N --kv-heads N --seq-q N --seq-k N --head-dim N --dtype f16|bf16\n"
    "                      head-dim: a multiple of 8 up to 256, or what the target serves\n"
    "                      size of the random problem (default: 4 32 32 4096 4096 128 on a GPU, 1 2 2 256 256 128 on "
    "the model)\n"
    "  --out same|f32      type of o (default: same, that of q)\n"
    "  --seed N            of the random data (default: fresh, and printed)\n"
    "  --iterations N      timed runs in a row (default: 20 on a GPU, 1 on the model)\n"
    "  --best-of N         then so many runs timed one by one, and the best of them (default: 0, none)\n"
    "  --verify on|off     off: o is not compared, and the program says so (default: on)\n"
    "TJ_TARGET=model:sm_90a runs on the CPU model.\n";

struct Problem {
  std::int64_t batch = 1, heads = 2, kv_heads = 2, seq_q = 256, seq_k = 256, head_dim = 128;
  tj::DType dtype = tj::DType::f16;
  bool causal = false, out_f32 = false;
  std::vector<std::uint16_t> q, k, v;  ///< dense [B, H, S, D]

  std::size_t q_elements() const { return static_cast<std::size_t>(batch * heads * seq_q * head_dim); }
  std::size_t kv_elements() const { return static_cast<std::size_t>(batch * kv_heads * seq_k * head_dim); }
  tj::DType out() const { return out_f32 ? tj::DType::f32 : dtype; }
};

struct Timing {
  int iterations = 1;  ///< runs in a row, timed together
  int best_of = 0;     ///< runs timed one by one
};

/// The five tensors of a problem at the given addresses.
tj::FmhaArgs make_args(const Problem& p, tj::Device device, void* q, void* k, void* v, void* o, void* lse) {
  tj::FmhaArgs args;
  args.q = tj::Tensor::contiguous(q, device, p.dtype, {p.batch, p.heads, p.seq_q, p.head_dim});
  args.k = tj::Tensor::contiguous(k, device, p.dtype, {p.batch, p.kv_heads, p.seq_k, p.head_dim});
  args.v = tj::Tensor::contiguous(v, device, p.dtype, {p.batch, p.kv_heads, p.seq_k, p.head_dim});
  args.o = tj::Tensor::contiguous(o, device, p.out(), {p.batch, p.heads, p.seq_q, p.head_dim});
  args.lse = tj::Tensor::contiguous(lse, device, tj::DType::f32, {p.batch, p.heads, p.seq_q});
  args.causal = p.causal;
  return args;
}

[[noreturn]] void refuse(const std::string& message) {
  throw tj::Error(tj::Stage::argument, tj::Code::invalid_argument, message);
}

std::vector<std::uint16_t> load(const std::string& path, std::vector<std::int64_t>& shape) {
  const samples::Array array = samples::read_npy(path);
  if (array.dtype != tj::DType::f16) refuse(path + ": dtype is " + tj::to_string(array.dtype) + "; allowed: f16");
  if (array.shape.size() != 4)
    refuse(path + ": has " + std::to_string(array.shape.size()) + " dimensions; allowed: 4, [B, H, S, D]");
  shape = array.shape;
  std::vector<std::uint16_t> values(static_cast<std::size_t>(array.elements()));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

void load_problem(const std::vector<std::string>& files, Problem& p) {
  std::vector<std::int64_t> q, k, v;
  p.q = load(files[0], q);
  p.k = load(files[1], k);
  p.v = load(files[2], v);
  if (k[0] != q[0] || k[3] != q[3]) refuse(files[1] + ": batch and head dim must be those of " + files[0]);
  if (v != k) refuse(files[2] + ": the shape must be that of " + files[1]);
  p.batch = q[0], p.heads = q[1], p.seq_q = q[2], p.head_dim = q[3];
  p.kv_heads = k[1], p.seq_k = k[2];
}

void make_problem(samples::Arguments& words, bool model, Problem& p) {
  constexpr std::uint64_t kMost = 1u << 24;
  if (!model) p.batch = 4, p.heads = p.kv_heads = 32, p.seq_q = p.seq_k = 4096;
  const auto number = [&](const char* name, std::int64_t& value) {
    if (const auto given = words.take_number(name, 1, kMost))
      value = static_cast<std::int64_t>(*given);
    else
      return false;
    return true;
  };
  number("--batch", p.batch);
  if (number("--heads", p.heads)) p.kv_heads = p.heads;
  number("--kv-heads", p.kv_heads);
  if (number("--seq-q", p.seq_q)) p.seq_k = p.seq_q;
  number("--seq-k", p.seq_k);
  number("--head-dim", p.head_dim);
  if (const auto dtype = words.take("--dtype")) {
    if (*dtype != "f16" && *dtype != "bf16") refuse("--dtype is '" + *dtype + "'; allowed: f16, bf16");
    p.dtype = *dtype == "bf16" ? tj::DType::bf16 : tj::DType::f16;
  }
  const std::uint64_t seed = words.take_number("--seed", 0, UINT64_MAX).value_or(samples::fresh_seed());
  std::printf("data     normal random, seed %llu\n", static_cast<unsigned long long>(seed));
  p.q = samples::random_normal(p.q_elements(), p.dtype, seed);
  p.k = samples::random_normal(p.kv_elements(), p.dtype, seed + 1);
  p.v = samples::random_normal(p.kv_elements(), p.dtype, seed + 2);
}

void print_kernel(const tj::KernelReport& report) {
  std::printf("kernel   %s for %s, ", report.name.c_str(), report.target.c_str());
  if (report.origin == tj::KernelOrigin::compiled)
    std::printf("made in %.1f ms (schedule %.1f, source %.1f, compiler %.1f, load %.1f)\n",
                report.schedule_ms + report.codegen_ms + report.compile_ms + report.load_ms, report.schedule_ms,
                report.codegen_ms, report.compile_ms, report.load_ms);
  else
    std::printf("cache hit (%s), load %.1f ms\n", report.origin == tj::KernelOrigin::disk ? "disk" : "memory",
                report.load_ms);
  std::printf("schedule %s\n", samples::schedule_summary(report.schedule_json, "         ").c_str());
}

/// Device memory of one tensor, with a copy of host data in it.
std::shared_ptr<void> upload(tj::Runtime& runtime, tj::Device device, const void* data, std::size_t bytes) {
  std::shared_ptr<void> memory = runtime.allocate(device, bytes);
  runtime.copy(memory.get(), device, data, {tj::DeviceKind::cpu, 0}, bytes);
  return memory;
}

/// Times the call: runs in a row, then single ones.
void time_call(tj::Runtime& runtime, tj::Device device, const Timing& timing, const tj::FmhaArgs& args) {
  if (timing.iterations > 1) runtime.run(args);  // the first run warms the clocks and is not timed
  const double total_ms = runtime.time_ms(device, [&] {
    for (int i = 0; i < timing.iterations; ++i) runtime.run(args);
  });
  const double ms = total_ms / timing.iterations, flops = samples::fmha_flops(args);
  std::printf("run      %.3f ms, %.4g TFLOP/s, mean of %d run%s\n", ms, samples::tflops(flops, ms), timing.iterations,
              timing.iterations == 1 ? "" : "s in a row");
  double best = INFINITY;
  for (int i = 0; i < timing.best_of; ++i) best = std::min(best, runtime.time_ms(device, [&] { runtime.run(args); }));
  if (timing.best_of > 0)
    std::printf("best     %.3f ms, %.4g TFLOP/s, best of %d run%s timed one by one\n", best,
                samples::tflops(flops, best), timing.best_of, timing.best_of == 1 ? "" : "s");
}

/// Runs, times and, unless it is not to, checks one problem; o receives the result's bytes. True when the error is
/// within its limit, or is not looked at.
bool run(tj::Runtime& runtime, tj::Device device, const Timing& timing, bool verify, Problem& p,
         std::vector<std::uint8_t>& o) {
  constexpr tj::Device kHost{tj::DeviceKind::cpu, 0};
  o.assign(p.q_elements() * tj::size_of(p.out()), 0xff);  // NaN: what a kernel leaves out is seen
  std::vector<float> lse(static_cast<std::size_t>(p.batch * p.heads * p.seq_q), NAN);
  const std::size_t q_bytes = 2 * p.q.size(), kv_bytes = 2 * p.k.size(), lse_bytes = sizeof(float) * lse.size();
  const auto q = upload(runtime, device, p.q.data(), q_bytes), k = upload(runtime, device, p.k.data(), kv_bytes),
             v = upload(runtime, device, p.v.data(), kv_bytes), out = upload(runtime, device, o.data(), o.size()),
             lse_out = upload(runtime, device, lse.data(), lse_bytes);
  const tj::FmhaArgs args = make_args(p, device, q.get(), k.get(), v.get(), out.get(), lse_out.get());

  print_kernel(runtime.prepare(args));
  time_call(runtime, device, timing, args);
  runtime.copy(o.data(), kHost, out.get(), device, o.size());
  runtime.copy(lse.data(), kHost, lse_out.get(), device, lse_bytes);
  if (!verify) {
    std::printf("check    none: --verify is off\n");
    return true;
  }
  const samples::FmhaComparison result =
      samples::compare_fmha(make_args(p, kHost, p.q.data(), p.k.data(), p.v.data(), o.data(), lse.data()));
  const bool good = result.within(p.dtype);
  std::printf("check    %s: against f64, %s; mean squared error %.2e\n", good ? "ok" : "WRONG",
              result.text(p.dtype).c_str(), result.o_mean_square);
  return good;
}

/// A word of two; the first where none is given.
bool second_of(samples::Arguments& words, const char* name, const char* first, const char* second) {
  const std::string given = words.take(name).value_or(first);
  if (given != first && given != second)
    refuse(std::string(name) + " is '" + given + "'; allowed: " + first + ", " + second);
  return given == second;
}

int main_checked(int argc, char** argv) {
  samples::Arguments words(argc, argv);
  if (words.take_switch("--help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  tj::Runtime& runtime = tj::Runtime::instance();
  const tj::Device device = runtime.default_device();
  const std::string target = runtime.target_of(device);
  const bool model = device.kind == tj::DeviceKind::cpu;
  std::printf("target   %s on %s%s\n", target.c_str(), tj::to_string(device).c_str(),
              model ? " (no GPU used: the CPU model runs the same source, correct but slow)" : "");

  Problem p;
  p.causal = words.take_switch("--causal");
  p.out_f32 = second_of(words, "--out", "same", "f32");
  const bool verify = !second_of(words, "--verify", "on", "off");
  const Timing timing{static_cast<int>(words.take_number("--iterations", 1, 1000000).value_or(model ? 1 : 20)),
                      static_cast<int>(words.take_number("--best-of", 0, 1000000).value_or(0))};
  const bool from_files = words.first_is_positional();
  if (!from_files) make_problem(words, model, p);
  const std::vector<std::string> files = words.rest();  // beside files, the options of random problems are refused here
  if (!files.empty() && files.size() != 4) refuse("four files are needed: q.npy k.npy v.npy o.npy");
  if (from_files) load_problem(files, p);
  std::printf("problem  B %lld, H %lld, Hkv %lld, Sq %lld, Sk %lld, D %lld, %s, %s%s\n",
              static_cast<long long>(p.batch), static_cast<long long>(p.heads), static_cast<long long>(p.kv_heads),
              static_cast<long long>(p.seq_q), static_cast<long long>(p.seq_k), static_cast<long long>(p.head_dim),
              tj::to_string(p.dtype), p.causal ? "causal" : "full", p.out_f32 ? ", o in f32" : "");

  std::vector<std::uint8_t> o;
  const bool good = run(runtime, device, timing, verify, p, o);
  if (from_files) {
    samples::write_npy(files[3], {p.out(), {p.batch, p.heads, p.seq_q, p.head_dim}, std::move(o)});
    std::printf("output   %s\n", files[3].c_str());
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return tj::samples::all_written("01_fmha", main_checked(argc, argv));
  } catch (const tj::Error& error) {
    std::fprintf(stderr, "01_fmha: %s\n%s", error.what(), error.log.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "01_fmha: %s\n", error.what());
  }
  return 2;
}
