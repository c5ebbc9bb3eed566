// Attention in six steps on matrix instructions of a warp, from a kernel that does one thing after the other to a tuned
// kernel. Then the library's own kernel. Runs each, checks it, and says what it changed.
//
//   04_fmha_ladder [--steps all|1,3,own,...] [--seq-len 1024,2048,...] [--iterations N] [--output-dir DIR]
//
// Exits 0 when every step is right, 1 when one is not, 2 when something could not run; then nothing was written.
#include <tilejit/ladder.hpp>
#include <tilejit/tilejit.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/arguments.hpp"
#include "common/files.hpp"
#include "common/fmha_reference.hpp"
#include "common/half.hpp"
#include "common/output.hpp"
#include "common/random.hpp"
#include "common/step_report.hpp"

namespace {

namespace samples = tj::samples;

constexpr const char* kUsage =
    "04_fmha_ladder [options]\n"
    "  --steps all|1,3,own,...  steps 1 to 6, and the library's own kernel; step 1, the baseline, always runs "
    "(default: all)\n"
    "  --seq-len N,N,...        default 1024,2048,4096,8192,16384 on a GPU, 192 on the model\n"
    "  --iterations N           a time is the median of so many (default: 20 on a GPU, 1 on the model)\n"
    "  --output-dir DIR         for fmha_steps.json, fmha_steps.md and fmha_steps.log; without it nothing is written\n"
    "  --batch N --heads N --head-dim 64|128 --dtype fp16|bf16 --causal true|false\n"
    "                           default 4 32 128 fp16 true on a GPU; on the model batch 1 and heads 1\n"
    "  --target sm_90|sm_120a|model:sm_120a|...\n"
    "                           an arch whose products are a warp's: TJ_TARGET says the same (default: the first GPU, "
    "else model:sm_120a);\n"
    "                           sm_90+smem-sm=100K has the shared memory of sm_120a\n"
    "  --settle MS              each step runs for so long before each of its times (default: 20 on a GPU, 0 on the "
    "model)\n"
    "  --seed N                 of the random data (default: fresh, and printed)\n";

constexpr tj::Device kHost{tj::DeviceKind::cpu, 0};
/// The default target where that has no steps, and the target that runs them in its place: a Hopper has both kinds of
/// instructions.
constexpr const char* kInPlace[][2] = {{"model:sm_90a", "model:sm_120a"}, {"sm_90a", "sm_90"}};
constexpr int kOwn = 0, kBaseline = 1, kSteps = 6;
constexpr std::int64_t kReferenceWork = 1 << 29;  // elements read by the f64 reference; beyond it rows are sampled
constexpr double kLeastTimedMs = 1;               // calls that are shorter are timed several in a row
constexpr double kMostModelPairs = 1 << 22;       // of queries and keys: a minute or so on the CPU model
constexpr std::uint16_t kPoison = 0xffff;         // NaN: what a kernel leaves out is seen

struct StepText {
  const char *name, *description;
  std::vector<std::string> changes;
};

const StepText& text_of(int step) {
  static const std::vector<StepText> texts = {
      {"library",
       "The kernel that the library chooses by itself, to compare with.",
       {"tile shapes and their schedule as predicted best, held to nothing"}},
      {"basic",
       "Matrix instructions on tiles of 64 queries by 64 keys, with an online softmax; one thing after the other.",
       {"e^x: a multiplication and a 2^x that keeps results below 2^-126",
        "keys are transposed through shared memory before the product",
        "one slot for keys and one for values, no iterations overlap", "one block on an SM",
        "each output is divided by its row's sum"}},
      {"exp2",
       "A cheaper exponential.",
       {"2^x in the place of e^x, log2(e) folded into the scale: one multiply-add a score",
        "results below 2^-126 become 0, which saves two multiplications"}},
      {"transposed_k",
       "Keys are read as they lie.",
       {"the loads of matrices hand the product what it needs: no transpose, no second place in shared memory, no "
        "barrier for it"}},
      {"latency",
       "Latencies tell the scheduler how long copies are under way.",
       {"copies of keys are to be issued 2 iterations before their use, of values 4, as far as rings of them fit the "
        "shared memory of a block"}},
      {"occupancy",
       "Two blocks side by side on an SM.",
       {"each has half of the registers and of the shared memory; one computes while the other waits"}},
      {"division",
       "An approximate division at the end.",
       {"outputs are multiplied by an approximated reciprocal of their row's sum"}},
  };
  return texts[static_cast<std::size_t>(step)];
}

struct Settings {
  std::vector<int> steps;
  std::vector<std::int64_t> seq_lens;
  std::string output_dir;
};

[[noreturn]] void refuse(const std::string& message) {
  throw tj::Error(tj::Stage::argument, tj::Code::invalid_argument, message);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<int> parse_steps(const std::string& text) {
  std::set<int> asked = {kBaseline};
  for (const std::string& word : split(text)) {
    int step = kSteps;
    while (step > 0 && word != std::to_string(step) && word != text_of(step).name) --step;
    if (word == "all")
      for (int each = kOwn; each <= kSteps; ++each) asked.insert(each);
    else if (step > 0 || word == "own")
      asked.insert(step);
    else
      refuse("--steps has '" + word + "'; allowed: all, or some of 1 to 6 and own, separated by commas");
  }
  std::vector<int> steps(asked.upper_bound(kOwn), asked.end());
  if (asked.count(kOwn) > 0) steps.push_back(kOwn);
  return steps;
}

std::vector<std::int64_t> parse_lengths(const std::string& text) {
  std::vector<std::int64_t> lengths;
  for (const std::string& word : split(text)) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 1 || value > 1 << 20)
      refuse("--seq-len has '" + word + "'; allowed: numbers from 1 to 1048576, separated by commas");
    lengths.push_back(value);
  }
  return lengths;
}

std::string one_of(samples::Arguments& words, const char* name, const std::vector<std::string>& allowed) {
  const std::string given = words.take(name).value_or(allowed.front());
  if (std::find(allowed.begin(), allowed.end(), given) != allowed.end()) return given;
  std::string list;
  for (const std::string& each : allowed) list += (list.empty() ? "" : ", ") + each;
  refuse(std::string(name) + " is '" + given + "'; allowed: " + list);
}

Settings parse(samples::Arguments& words, samples::StepReport& report) {
  const bool model = report.on_model;
  Settings settings;
  settings.steps = parse_steps(words.take("--steps").value_or("all"));
  settings.seq_lens = parse_lengths(words.take("--seq-len").value_or(model ? "192" : "1024,2048,4096,8192,16384"));
  settings.output_dir = words.take("--output-dir").value_or("");
  const auto number = [&](const char* name, std::uint64_t least, std::uint64_t most, std::uint64_t otherwise) {
    return words.take_number(name, least, most).value_or(otherwise);
  };
  report.batch = static_cast<std::int64_t>(number("--batch", 1, 1 << 16, model ? 1 : 4));
  report.heads = static_cast<std::int64_t>(number("--heads", 1, 1 << 16, model ? 1 : 32));
  report.head_dim = std::stoll(one_of(words, "--head-dim", {"128", "64"}));
  report.dtype = one_of(words, "--dtype", {"fp16", "f16", "bf16"}) == "bf16" ? tj::DType::bf16 : tj::DType::f16;
  report.causal = one_of(words, "--causal", {"true", "false"}) == "true";
  report.iterations = static_cast<int>(number("--iterations", 1, 100000, model ? 1 : 20));
  report.settle_ms = static_cast<int>(number("--settle", 0, 10000, model ? 0 : 20));
  report.seed = number("--seed", 0, UINT64_MAX, samples::fresh_seed());
  if (!words.rest().empty()) refuse("'" + words.rest().front() + "' means nothing to this sample; see --help");
  for (const std::int64_t length : settings.seq_lens)
    if (const double pairs = static_cast<double>(report.batch * report.heads) * static_cast<double>(length) *
                             static_cast<double>(length);
        model && pairs > kMostModelPairs)
      refuse("--seq-len " + std::to_string(length) + " with batch " + std::to_string(report.batch) + " and heads " +
             std::to_string(report.heads) +
             " is too much for the CPU model; allowed there: batch * heads * length^2 of at most " +
             std::to_string(static_cast<long>(kMostModelPairs)));
  return settings;
}

void say(samples::StepReport& report, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    std::printf("%s\n", line.c_str());
    report.log.push_back(line);
  }
  std::fflush(stdout);
}

/// One length's tensors on the host and on the device.
class Problem {
 public:
  Problem(tj::Runtime& runtime, tj::Device device, const samples::StepReport& report, std::int64_t length)
      : runtime_(runtime), device_(device), report_(report), length_(length) {
    const auto rows = static_cast<std::size_t>(report.batch * report.heads * length),
               elements = rows * static_cast<std::size_t>(report.head_dim);
    for (std::size_t t = 0; t < 3; ++t) inputs_[t] = samples::random_normal(elements, report.dtype, report.seed + t);
    for (std::size_t t = 0; t < 3; ++t) memory_[t] = upload(inputs_[t]);
    o_.assign(elements, kPoison);
    lse_.assign(rows, NAN);
    memory_[3] = upload(o_), memory_[4] = upload(lse_);
  }

  tj::FmhaArgs on_device() const {
    return args(device_, memory_[0].get(), memory_[1].get(), memory_[2].get(), memory_[3].get(), memory_[4].get());
  }

  /// Runs a step once over a poisoned result and compares; the first result is what later ones are held against.
  void check(int step, samples::StepResult& result) {
    std::fill(o_.begin(), o_.end(), kPoison);
    std::fill(lse_.begin(), lse_.end(), NAN);
    runtime_.copy(memory_[3].get(), device_, o_.data(), kHost, o_.size() * 2);
    runtime_.copy(memory_[4].get(), device_, lse_.data(), kHost, lse_.size() * sizeof(float));
    tj::Ladder(runtime_).run(on_device(), step);
    runtime_.synchronize(device_);
    runtime_.copy(o_.data(), kHost, memory_[3].get(), device_, o_.size() * 2);
    runtime_.copy(lse_.data(), kHost, memory_[4].get(), device_, lse_.size() * sizeof(float));
    const tj::FmhaArgs here =
        args(kHost, inputs_[0].data(), inputs_[1].data(), inputs_[2].data(), o_.data(), lse_.data());
    result.reference = samples::compare_fmha(here, {kReferenceWork, report_.seed, 0});
    if (baseline_.empty()) baseline_ = o_;
    result.baseline_error = samples::relative_distance(o_, baseline_, report_.dtype);
    result.right = result.reference.within(report_.dtype) && result.baseline_error <= samples::max_error(report_.dtype);
  }

  double ms_of(int step, int calls) const {
    const tj::FmhaArgs call = on_device();
    tj::Ladder ladder(runtime_);
    return runtime_.time_ms(device_, [&] {
      for (int c = 0; c < calls; ++c) ladder.run(call, step);
    }) / calls;
  }
  double flops() const { return samples::fmha_flops(on_device()); }

 private:
  template <class T>
  std::shared_ptr<void> upload(const std::vector<T>& data) const {
    std::shared_ptr<void> memory = runtime_.allocate(device_, data.size() * sizeof(T));
    runtime_.copy(memory.get(), device_, data.data(), kHost, data.size() * sizeof(T));
    return memory;
  }
  tj::FmhaArgs args(tj::Device device, const void* q, const void* k, const void* v, void* o, void* lse) const {
    const auto tensor = [&](const void* data) {
      return tj::Tensor::contiguous(const_cast<void*>(data), device, report_.dtype,
                                    {report_.batch, report_.heads, length_, report_.head_dim});
    };
    tj::FmhaArgs args;
    args.q = tensor(q), args.k = tensor(k), args.v = tensor(v), args.o = tensor(o);
    args.lse = tj::Tensor::contiguous(lse, device, tj::DType::f32, {report_.batch, report_.heads, length_});
    args.causal = report_.causal;
    return args;
  }

  tj::Runtime& runtime_;
  tj::Device device_;
  const samples::StepReport& report_;
  std::int64_t length_;
  std::vector<std::uint16_t> inputs_[3], o_, baseline_;
  std::vector<float> lse_;
  std::shared_ptr<void> memory_[5];
};

/// Steps take turns, so that none has the cooler device, and each runs for a while before it is timed.
std::vector<double> time_steps(const Problem& problem, const std::vector<int>& steps,
                               const samples::StepReport& report) {
  std::vector<std::vector<double>> times(steps.size());
  std::vector<int> calls;
  for (const int step : steps) {
    const double once = report.on_model ? kLeastTimedMs : std::max(1e-3, problem.ms_of(step, 1));
    calls.push_back(std::max(1, static_cast<int>(std::ceil(kLeastTimedMs / once))));
  }
  for (int round = 0; round < report.iterations; ++round)
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (double ran = 0; ran < report.settle_ms;) ran += calls[i] * problem.ms_of(steps[i], calls[i]);
      times[i].push_back(problem.ms_of(steps[i], calls[i]));
    }
  std::vector<double> medians;
  for (auto& each : times) {
    std::nth_element(each.begin(), each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2), each.end());
    medians.push_back(each[each.size() / 2]);
  }
  return medians;
}

void run_length(tj::Runtime& runtime, tj::Device device, const Settings& settings, std::int64_t length,
                samples::StepReport& report) {
  Problem problem(runtime, device, report, length);
  std::vector<samples::StepResult> results;
  for (const int step : settings.steps) {
    samples::StepResult result;
    const StepText& text = text_of(step);
    result.step = step == kOwn ? "own" : std::to_string(step);
    result.name = text.name, result.description = text.description, result.key_changes = text.changes,
    result.seq_len = length;
    const tj::KernelReport kernel = tj::Ladder(runtime).prepare(problem.on_device(), step);
    result.kernel = kernel.name;
    result.schedule = samples::schedule_facts(kernel.schedule_json);
    if (!results.empty())
      for (const std::string& change : samples::schedule_changes(results.back().schedule, result.schedule))
        result.key_changes.push_back("schedule: " + change);
    problem.check(step, result);
    results.push_back(std::move(result));
  }
  const std::vector<double> times = time_steps(problem, settings.steps, report);
  for (std::size_t i = 0; i < results.size(); ++i) {
    samples::StepResult& result = results[i];
    result.latency_ms = times[i];
    result.tflops = samples::tflops(problem.flops(), times[i]);
    result.gain_baseline = times[0] / times[i];
    result.gain_previous = times[i == 0 ? 0 : i - 1] / times[i];
    say(report, samples::step_lines(report, result));
    report.results.push_back(std::move(result));
  }
}

int main_checked(int argc, char** argv) {
  samples::Arguments words(argc, argv);
  if (words.take_switch("--help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  tj::Options options;
  options.target = words.take("--target");
  auto runtime = std::make_unique<tj::Runtime>(options);
  tj::Device device = options.target && options.target->rfind("model:", 0) == 0 ? kHost : runtime->default_device();
  for (const auto& [usual, other] : kInPlace) {
    if (options.target || runtime->target_of(device) != usual) continue;
    std::printf("%s has no steps: %s in its place\n", usual, other);
    options.target = other;
    runtime = std::make_unique<tj::Runtime>(options);
  }
  samples::StepReport report;
  report.target = runtime->target_of(device);
  report.device = tj::to_string(device);
  report.on_model = device.kind == tj::DeviceKind::cpu;
  const Settings settings = parse(words, report);
  if (!settings.output_dir.empty()) samples::check_writable(settings.output_dir);
  say(report, samples::head_lines(report, settings.seq_lens));
  for (const std::int64_t length : settings.seq_lens) run_length(*runtime, device, settings, length, report);
  say(report, samples::summary_lines(report));
  if (!settings.output_dir.empty()) {
    samples::write_files(settings.output_dir, {{"fmha_steps.json", samples::steps_json(report)},
                                               {"fmha_steps.md", samples::steps_markdown(report)},
                                               {"fmha_steps.log", samples::steps_log(report)}});
    std::printf("\nwritten to %s: fmha_steps.json, fmha_steps.md, fmha_steps.log\n", settings.output_dir.c_str());
  }
  return report.right() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return tj::samples::all_written("04_fmha_ladder", main_checked(argc, argv));
  } catch (const tj::Error& error) {
    std::fprintf(stderr, "04_fmha_ladder: %s\n%s", error.what(), error.log.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "04_fmha_ladder: %s\n", error.what());
  }
  return 2;
}
