// One matrix product on ten rungs. The graph is the same; from rung to rung more is left to the scheduler, up to the
// kernel that tj::gemm uses. Runs each, checks it, and says what it adds and what that changed: in the schedule, and in
// the kernel's source.
//
//   02_gemm_ladder [--rungs all|v1,v4,...] [--size M,N,K] [--lines N] [--json FILE] [--markdown FILE]
//
// d = a b^T: a [M, K] and b [N, K] are f16 or bf16, rows contiguous; sums are f32. v1 and v2 serve one tile, and run on
// that part of the size. Exits 0 when every rung is right, 1 when one is not, 2 when something could not run.
#include <tilejit/ladder.hpp>
#include <tilejit/tilejit.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/arguments.hpp"
#include "common/files.hpp"
#include "common/gemm_reference.hpp"
#include "common/half.hpp"
#include "common/ladder_report.hpp"
#include "common/lines_report.hpp"
#include "common/output.hpp"
#include "common/prediction.hpp"
#include "common/random.hpp"
#include "common/rung_texts.hpp"
#include "common/schedule_summary.hpp"

namespace {

namespace samples = tj::samples;

constexpr const char* kUsage =
    "02_gemm_ladder [options]\n"
    "  --rungs all|v1,v4,...   rungs to run, in this order (default: all)\n"
    "  --size M,N,K            default 4096,4096,4096 on a GPU, 192,600,200 on the model; K a multiple of 8\n"
    "  --target sm_90a|model:sm_90a\n"
    "                          default: the first GPU, else the model; TJ_TARGET says the same\n"
    "  --dtype f16|bf16        default f16\n"
    "  --lines N               lines of each rung's schedule and source that are shown, of those that differ from the "
    "rung before (default 8). Kernels are compiled anew for it; 0: they come from the cache, and no source is shown\n"
    "  --json FILE --markdown FILE\n"
    "                          the table in these forms as well\n"
    "  --rounds N --calls N    a time is the median of so many rounds of so many calls in a row (default: 7 and 20 on "
    "a GPU, 1 and 1 on the model)\n"
    "  --settle MS             each rung runs for so long before each of its times (default: 50 on a GPU, 0 on the "
    "model)\n"
    "  --seed N                of the random data (default: fresh, and printed)\n";

constexpr tj::Device kHost{tj::DeviceKind::cpu, 0};
constexpr int kRungs = 10;
constexpr std::int64_t kTileM = 128, kTileN = 128, kTileK = 64;  // what v1 and v2 serve (tilejit/gemm.hpp)
constexpr std::size_t kGuard = 1024;                             // elements behind d that nobody may touch
constexpr std::uint16_t kPoison = 0xffff;                        // NaN: what a kernel leaves out is seen

struct Size {
  std::int64_t m = 0, n = 0, k = 0;
  bool operator<(const Size& other) const { return std::tie(m, n, k) < std::tie(other.m, other.n, other.k); }
};

struct Settings {
  std::vector<int> rungs;
  Size size;
  tj::DType dtype = tj::DType::f16;
  int rounds = 1, calls = 1;
  int settle_ms = 0;  ///< that each rung runs for before it is timed
  std::uint64_t seed = 0;
  std::string json, markdown;
};

/// One size's tensors, in host memory and on the device, and what is expected.
struct Problem {
  std::vector<std::uint16_t> a, b, d;
  std::shared_ptr<void> a_memory, b_memory, d_memory;
  samples::GemmReference reference;
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

std::int64_t number(const std::string& text, const std::string& what) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 1 << 20)
    refuse(what + " has '" + text + "'; allowed: numbers from 1 to 1048576");
  return value;
}

std::vector<int> parse_rungs(const std::string& text) {
  std::vector<int> rungs;
  for (int rung = 1; rung <= kRungs && text == "all"; ++rung) rungs.push_back(rung);
  if (text == "all") return rungs;
  for (const std::string& word : split(text)) {
    int rung = 1;
    while (rung <= kRungs && word != "v" + std::to_string(rung)) ++rung;
    if (rung > kRungs)
      refuse("--rungs has '" + word + "'; allowed: all, or some of v1 to v" + std::to_string(kRungs) +
             ", separated by commas");
    rungs.push_back(rung);
  }
  return rungs;
}

Settings parse(samples::Arguments& words, bool model) {
  Settings settings;
  settings.rungs = parse_rungs(words.take("--rungs").value_or("all"));
  settings.size = model ? Size{192, 600, 200} : Size{4096, 4096, 4096};
  if (const auto size = words.take("--size")) {
    const std::vector<std::string> parts = split(*size);
    if (parts.size() != 3) refuse("--size is '" + *size + "'; allowed: M,N,K");
    settings.size = {number(parts[0], "--size"), number(parts[1], "--size"), number(parts[2], "--size")};
  }
  if (settings.size.k % 8 != 0)
    refuse("--size has K " + std::to_string(settings.size.k) +
           "; it must be a multiple of 8: rows begin at multiples of 16 bytes");
  if (const auto dtype = words.take("--dtype")) {
    if (*dtype != "f16" && *dtype != "bf16") refuse("--dtype is '" + *dtype + "'; allowed: f16, bf16");
    settings.dtype = *dtype == "bf16" ? tj::DType::bf16 : tj::DType::f16;
  }
  settings.rounds = static_cast<int>(words.take_number("--rounds", 1, 1000).value_or(model ? 1 : 7));
  settings.settle_ms = static_cast<int>(words.take_number("--settle", 0, 10000).value_or(model ? 0 : 50));
  settings.calls = static_cast<int>(words.take_number("--calls", 1, 100000).value_or(model ? 1 : 20));
  settings.seed = words.take_number("--seed", 0, UINT64_MAX).value_or(samples::fresh_seed());
  settings.json = words.take("--json").value_or("");
  settings.markdown = words.take("--markdown").value_or("");
  samples::require_different("--json", settings.json, "--markdown", settings.markdown);
  if (!words.rest().empty()) refuse("'" + words.rest().front() + "' means nothing to this sample; see --help");
  return settings;
}

Size size_of_rung(int rung, Size size) {
  if (rung <= 2) size = {std::min(size.m, kTileM), std::min(size.n, kTileN), size.k};
  if (rung == 1) size.k = std::min(size.k, kTileK);
  return size;
}

Problem make_problem(tj::Runtime& runtime, tj::Device device, const Settings& settings, const Size& size) {
  Problem p;
  const auto m = static_cast<std::size_t>(size.m), n = static_cast<std::size_t>(size.n),
             k = static_cast<std::size_t>(size.k);
  p.a = samples::random_normal(m * k, settings.dtype, settings.seed);
  p.b = samples::random_normal(n * k, settings.dtype, settings.seed + 1);
  p.d.assign(m * n + kGuard, kPoison);
  p.reference = samples::gemm_reference(p.a, p.b, size.m, size.n, size.k, settings.dtype, settings.seed + 2);
  const auto upload = [&](const std::vector<std::uint16_t>& data) {
    std::shared_ptr<void> memory = runtime.allocate(device, data.size() * 2);
    runtime.copy(memory.get(), device, data.data(), kHost, data.size() * 2);
    return memory;
  };
  p.a_memory = upload(p.a), p.b_memory = upload(p.b), p.d_memory = upload(p.d);
  return p;
}

tj::GemmArgs args_of(const Problem& p, tj::Device device, const Settings& settings, const Size& size) {
  tj::GemmArgs args;
  args.a = tj::Tensor::contiguous(p.a_memory.get(), device, settings.dtype, {size.m, size.k});
  args.b = tj::Tensor::contiguous(p.b_memory.get(), device, settings.dtype, {size.n, size.k});
  args.d = tj::Tensor::contiguous(p.d_memory.get(), device, settings.dtype, {size.m, size.n});
  return args;
}

/// The texts of a rung's kernel that are compared with those of the rung before.
struct Texts {
  std::string schedule, unit;
};

/// Runs a rung once over a poisoned result and compares.
samples::Rung check(tj::Runtime& runtime, tj::Device device, const Settings& settings, int rung, const Size& size,
                    Problem& p, Texts& texts) {
  samples::Rung result;
  result.name = "v" + std::to_string(rung);
  result.adds = samples::rung_adds(rung);
  result.m = size.m, result.n = size.n, result.k = size.k;
  const tj::GemmArgs args = args_of(p, device, settings, size);
  const tj::KernelReport report = tj::Ladder(runtime).prepare(args, rung);
  result.kernel = report.name;
  result.schedule = samples::schedule_facts(report.schedule_json);
  result.predicted_ms =
      samples::predicted_ms(result.schedule, samples::gemm_tiles(result.schedule, size.m, size.n, size.k));
  texts = {samples::schedule_summary(report.schedule_json, ""),
           samples::code_lines(samples::text_of_file(report.source_path), report.name)};
  std::fill(p.d.begin(), p.d.end(), kPoison);
  runtime.copy(p.d_memory.get(), device, p.d.data(), kHost, p.d.size() * 2);
  tj::Ladder(runtime).run(args, rung);
  runtime.synchronize(device);
  runtime.copy(p.d.data(), kHost, p.d_memory.get(), device, p.d.size() * 2);
  result.guarded = std::all_of(p.d.end() - kGuard, p.d.end(), [](std::uint16_t each) { return each == kPoison; });
  result.error = samples::gemm_error(p.reference, p.d, settings.dtype);
  result.limit = samples::max_gemm_error(settings.dtype);
  result.rows_compared = static_cast<std::int64_t>(p.reference.rows.size());
  return result;
}

/// Milliseconds of a call.
double time_call(tj::Runtime& runtime, tj::Device device, const tj::GemmArgs& args, int rung, int calls) {
  tj::Ladder ladder(runtime);
  return runtime.time_ms(device, [&] {
    for (int call = 0; call < calls; ++call) ladder.run(args, rung);
  }) / calls;
}

/// Rungs take turns, so that none has the cooler device. Each runs for a while before it is timed: a device that the
/// rung before has heated, or has not, runs at another clock.
void time_rungs(tj::Runtime& runtime, tj::Device device, const Settings& settings, std::map<Size, Problem>& problems,
                samples::Ladder& ladder) {
  std::vector<std::vector<double>> times(ladder.rungs.size());
  for (int round = 0; round < settings.rounds; ++round)
    for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
      const Size size{ladder.rungs[i].m, ladder.rungs[i].n, ladder.rungs[i].k};
      const tj::GemmArgs args = args_of(problems.at(size), device, settings, size);
      for (double ran = 0; ran < settings.settle_ms;)
        ran += settings.calls * time_call(runtime, device, args, settings.rungs[i], settings.calls);
      times[i].push_back(time_call(runtime, device, args, settings.rungs[i], settings.calls));
    }
  for (std::size_t i = 0; i < times.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    ladder.rungs[i].ms = times[i][times[i].size() / 2];
  }
}

void write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    throw tj::Error(tj::Stage::argument, tj::Code::io,
                    "cannot write '" + path + "': " + std::strerror(errno != 0 ? errno : EIO) +
                        "; give a file in a folder that exists and may be written");
}

int main_checked(int argc, char** argv) {
  samples::Arguments words(argc, argv);
  if (words.take_switch("--help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  tj::Options options;
  options.target = words.take("--target");
  const std::size_t lines = words.take_number("--lines", 0, 10000).value_or(8);
  std::optional<samples::SourceFolder> sources;
  if (lines > 0) {
    options.dump_dir = sources.emplace().path();
    options.use_disk_cache = false;  // sources are those of kernels that are made now
  }
  tj::Runtime runtime(options);
  const bool on_model = options.target && options.target->rfind("model:", 0) == 0;
  const tj::Device device = on_model ? kHost : runtime.default_device();
  samples::Ladder ladder;
  ladder.target = runtime.target_of(device);
  ladder.device = tj::to_string(device);
  ladder.on_model = device.kind == tj::DeviceKind::cpu;
  const Settings settings = parse(words, ladder.on_model);
  ladder.dtype = tj::to_string(settings.dtype);
  ladder.rounds = settings.rounds, ladder.calls = settings.calls, ladder.settle_ms = settings.settle_ms;
  std::printf("target   %s on %s\ndata     normal random, seed %llu\ntimes    %s\n", ladder.target.c_str(),
              ladder.device.c_str(), static_cast<unsigned long long>(settings.seed), ladder.timing_text().c_str());

  std::map<Size, Problem> problems;
  Texts texts;  // of the rung before
  for (const int rung : settings.rungs) {
    const Size size = size_of_rung(rung, settings.size);
    if (problems.count(size) == 0) problems.emplace(size, make_problem(runtime, device, settings, size));
    Texts now_texts;
    ladder.rungs.push_back(check(runtime, device, settings, rung, size, problems.at(size), now_texts));
    samples::Rung& now = ladder.rungs.back();
    if (ladder.rungs.size() > 1) {
      now.changes = samples::rung_changes(ladder.rungs[ladder.rungs.size() - 2], now);
      now.schedule_lines = samples::changed_lines(texts.schedule, now_texts.schedule);
      now.unit_lines = samples::changed_lines(texts.unit, now_texts.unit);
    }
    texts = std::move(now_texts);
    std::printf("\n%s", samples::rung_paragraph(now, lines).c_str());
  }
  time_rungs(runtime, device, settings, problems, ladder);
  std::printf("\n%s\n", samples::ladder_text(ladder).c_str());
  write_file(settings.json, samples::ladder_json(ladder));
  write_file(settings.markdown, samples::ladder_markdown(ladder, lines));
  std::printf("check    %s: each rung against f64 within %.0e, and nothing written beside the result\n",
              ladder.right() ? "ok" : "WRONG", samples::max_gemm_error(settings.dtype));
  return ladder.right() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return tj::samples::all_written("02_gemm_ladder", main_checked(argc, argv));
  } catch (const tj::Error& error) {
    std::fprintf(stderr, "02_gemm_ladder: %s\n%s", error.what(), error.log.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "02_gemm_ladder: %s\n", error.what());
  }
  return 2;
}
