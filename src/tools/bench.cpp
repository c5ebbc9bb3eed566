// tj-bench: options, and which way of working they ask for.
//
// Options that belong to an op (--dtype, --head-dim, --seq-q, ...) are not listed here: they are handed to the op,
// which names what it allows. So a new op needs no change in this file. A way of working is a line of kModes.
#include "tools/bench.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <ostream>
#include <string_view>
#include <utility>

#include <tilejit/error.hpp>

#include "ops/common/op_flags.hpp"
#include "support/dynamic_library.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"
#include "tools/calibrate.hpp"
#include "tools/command_line.hpp"
#include "tools/facts.hpp"
#include "tools/measure_bodies.hpp"
#include "tools/options.hpp"
#include "tools/output_file.hpp"
#include "tools/process.hpp"
#include "tools/timeline.hpp"

namespace tj::tools {
namespace {

using support::cat;

/// A way of working. Calls are timed where no flag names one.
struct Mode {
  const char* flag;
  const char* help;
  int (*run)(const BenchArguments&);
};
constexpr Mode kModes[] = {
    {"--dispatch",
     "time what the host pays for a hot call and for a plan's run, beside the bare launch beneath it. Needs a GPU's "
     "driver, or one that "
     "does nothing (--driver)",
     run_dispatch},
    {"--start",
     "time how a process gets kernels ready that the cache or a pack has, beside the device's own start. A kernel that "
     "is missing, or a compiler's library that is opened, is a failure; nothing is compiled",
     run_start},
    {"--compile", "time how kernels are made: schedule, source, the compiler's phases, load. Needs no GPU",
     run_compile},
};

/// A way with a command line of its own: it is handed all words but its flag, and keeps to what bench() promises.
struct OwnMode {
  const char* flag;
  const char* help;
  int (*run)(const std::vector<std::string>& words, std::ostream& out, std::ostream& err);
};
const std::vector<OwnMode>& own_modes() {
  static constinit support::Lasting<const std::vector<OwnMode>> all;
  return all.get([] {
    return std::vector<OwnMode>{
        {"--timeline",
         "record when a kernel's roles come to their nodes and waits, and show it beside the schedule as a table, a "
         "trace, a picture. The CPU model counts steps, no cycles",
         timeline},
        {"--measure-bodies",
         "measure the cycles of a kernel's node bodies on a GPU, and show them beside the graph's costs; of a graph of "
         "your own, write them into it",
         measure_bodies},
        {"--calibrate",
         "measure facts of the card at hand, and write them into the file that is named behind it, for TJ_FACTS",
         calibrate_card},
    };
  });
}

constexpr const char* kFooter =
    "With --op alone calls are timed on the device at hand, in two ways: single calls with the caches flushed, and "
    "calls replayed from a graph\n"
    "(back to back where there are none). Operands hold normal random values. A call that leaves some of its output "
    "unwritten is a failure.\n"
    "Further flags select kernels and sizes and belong to the op, as with tj-warm and tj-check; several values are "
    "separated by commas, and all\n"
    "combinations are timed. A flag that is left out has the op's first value, a size one that keeps a device busy.\n"
    "  fmha: as tj-warm lists them, --rung, and --batch --heads --kv-heads --seq-q --seq-k   (kv-heads: as heads; "
    "seq-k: as seq-q)\n"
    "  gemm: as tj-warm lists them, --rung v1,..., and --m --n --k --batch; without --tile what a call takes\n"
    "  grouped_gemm: as tj-warm lists them, and --n --k --counts 512,512 (rows of groups)\n"
    "  chunk_o: as tj-warm lists them, and --heads --lengths 8192,8192 (of sequences)\n"
    "  chunk_indices: --lengths\n"
    "  chunk_cumsum: --dtype --v-heads --lengths\n"
    "  chunk_states: as tj-warm lists them, and --heads --v-heads --lengths\n"
    "  chunk_solve, chunk_wu: --dtype --head-dim --heads --v-heads --lengths\n"
    "  merge_states: --dtype --out --states --heads --rows --d\n"
    "  quantise: --dtype --gate --row-indices --m --k --block-rows 1,128\n"
    "  gated_delta_rule: as tj-warm lists them, and --heads --v-heads --lengths 1,1,1 (of sequences)\n"
    "  combine: --dtype --out --tokens --columns --choices\n"
    "  copy_rows: --batch --rows --columns\n"
    "  sum_parts: --out --m --n --parts\n"
    "Examples:\n"
    "  tj-bench --op gemm --m 4096 --n 4096 --k 4096 --dtype bf16 --json gemm.json\n"
    "  tj-bench --op fmha --batch 4 --heads 32 --seq-q 4096 --head-dim 128 --dtype bf16 --causal true\n"
    "  tj-bench --dispatch                          every op, small problems\n"
    "  tj-bench --dispatch --driver FOLDER          the same with the libcuda.so.1 of a folder\n"
    "  tj-bench --start --cache-dir model.tjp       the default kernels of every op, from a pack\n"
    "  tj-bench --start --threads 4 --op fmha       those of attention, by four threads\n"
    "  tj-bench --compile --op gemm --tile 128x256x64 --target sm_90a,sm_100a\n"
    "  tj-bench --compile --target all              the first kernel of every op, everywhere\n"
    "  tj-bench --calibrate card.json               facts of this card, for TJ_FACTS=card.json\n"
    "Exit codes: 0 done, 1 something could not be timed, gave no result or was missing under --start, 2 bad use or an "
    "output that cannot be "
    "written.";

void add_options(CLI::App& app, BenchArguments& arguments, std::array<bool, std::size(kModes)>& modes) {
  app.set_version_flag("--version", cat("tj-bench ", version(), " (", build_id(), ")"),
                       "print the version and the library's build id");
  app.add_option("--op", arguments.ops, "fmha, gemm, chunk_o, ...")->delimiter(',')->check(no_flag);
  app.add_option("--target", arguments.targets,
                 "sm_90a, model:sm_90a, gfx1100, ... (default: TJ_TARGET, else the device at hand); --compile takes "
                 "several, and all")
      ->delimiter(',')
      ->check(no_flag);
  app.add_option("--cache-dir", arguments.cache_dir, "in place of TJ_CACHE_DIR")->check(some_folder);
  add_facts_option(app, arguments.facts);
  app.add_option("--driver", arguments.driver, "a libcuda.so.1, or the folder that has it, in place of the system's")
      ->check(no_flag);
  app.add_option("--json", arguments.json, "also write one JSON document to this file")->check(no_flag);
  app.add_option(
         "--overlap", arguments.overlap,
         "launches begin beside those before them, where the device can (true), or behind them (false); default: "
         "as the op says")
      ->check(CLI::IsMember({"true", "false"}));
  app.add_flag("--cycles", arguments.cycles,
               "with --op alone: also measure the SM clock beside each way, by a small kernel, and say it with the "
               "interval that each kernel's schedule has");
  bounded(app.add_option("--threads", arguments.threads, "under --start: threads that get kernels ready (default: 1)"),
          1, 256);
  bounded(app.add_option("--rounds", arguments.rounds, "how often each thing is timed"), 1, 100000);
  bounded(app.add_option("--seed", arguments.seed, "of the random values that operands hold (default: 1)"), 0,
          std::uint64_t{1} << 62);
  std::array<CLI::Option*, std::size(kModes)> flags{};
  for (std::size_t i = 0; i < std::size(kModes); ++i) {
    CLI::Option* flag = app.add_flag(kModes[i].flag, modes[i], kModes[i].help);
    for (std::size_t other = 0; other < i; ++other) flag->excludes(flags[other]);
    flags[i] = flag;
  }
  for (const OwnMode& mode : own_modes()) {
    const std::string help = cat(mode.help, "; ", mode.flag, " --help has its options");
    app.add_flag(mode.flag, help);
  }
  app.allow_extras();
  app.footer(kFooter);
}

/// Fills arguments and mode, null where no flag names one; an exit code when there is nothing left to do (help, or a
/// mistake that was reported).
std::optional<int> parse(const std::vector<std::string>& words, BenchArguments& arguments, const Mode*& mode) {
  CLI::App app("Times calls of the library, what lies beneath them, and how kernels are made.", "tj-bench");
  std::array<bool, std::size(kModes)> modes{};
  add_options(app, arguments, modes);
  if (const std::optional<int> done = parse_words(app, words, *arguments.out, *arguments.err)) return done;
  for (const ops::GivenFlag& flag : ops::read_flags(app.remaining())) {
    auto& values = arguments.op_flags[flag.name];
    if (flag.values.empty()) values.emplace_back("true");
    values.insert(values.end(), flag.values.begin(), flag.values.end());
  }
  arguments.own_flags = own_flags(app);
  if (arguments.ops.empty() && !arguments.op_flags.empty())
    refuse_without_op("tj-bench", arguments.op_flags, arguments.own_flags);
  for (const std::string& name : arguments.ops) find_op(name);
  for (std::size_t i = 0; i < std::size(kModes); ++i)
    if (modes[i]) mode = &kModes[i];
  if (mode != nullptr && !arguments.overlap.empty())
    bad_use(
        cat("--overlap is '", arguments.overlap, "'; allowed with ", mode->flag, ": leave it out, it is for calls"));
  if (mode != nullptr && arguments.cycles)
    bad_use(cat("--cycles is given; allowed with ", mode->flag, ": leave it out, it is for calls"));
  return std::nullopt;
}

/// Loads the driver that was given: whoever asks for "libcuda.so.1" from now on gets it.
void take_driver(const std::string& given) {
  if (given.empty()) return;
  std::string searched;
  auto library = support::DynamicLibrary::open_first({given + "/libcuda.so.1", given}, &searched);
  if (library == nullptr || library->symbol("cuInit") == nullptr)
    bad_use(cat("--driver is '", given, "'; allowed: a libcuda.so.1, or the folder that has it",
                library == nullptr ? "; tried " + searched : "; cuInit is not in there"));
  support::keep_open(std::move(library));
}

int run(const std::vector<std::string>& words, BenchArguments& arguments) {
  const Mode* mode = nullptr;  // of kModes
  if (const std::optional<int> done = parse(words, arguments, mode)) return *done;
  take_driver(arguments.driver);
  try {
    return mode != nullptr ? mode->run(arguments) : run_calls(arguments);
  } catch (const Error& error) {
    rethrow_with_own_flag(error.message, arguments.own_flags);
    throw;
  }
}

}  // namespace

Options bench_options(const BenchArguments& arguments) {
  Options options;
  if (!arguments.cache_dir.empty()) options.cache_dir = arguments.cache_dir;
  set_facts(options.facts_file, arguments.facts);
  if (!arguments.targets.empty()) options.target = arguments.targets.front();
  options.log_sink = [err = arguments.err](LogLevel, std::string_view text) {
    *err << cat("tj-bench: ", text, "\n") << std::flush;
  };
  return options;
}

support::Log bench_log(const BenchArguments& arguments) {
  const Options options = bench_options(arguments);
  return support::Log(support::resolve_settings(options).log_level, options.log_sink);
}

void write_json(const BenchArguments& arguments, const support::Json& document) {
  if (arguments.json.empty()) return;
  write_output_file("--json", arguments.json,
                    document.dump(2, ' ', false, support::Json::error_handler_t::replace) + "\n");
}

int bench(const std::vector<std::string>& words, std::ostream& out, std::ostream& err,
          std::function<std::uint64_t()> allocations) {
  return run_tool("tj-bench", BadUse::targets_too, out, err, [&] {
    for (const OwnMode& mode : own_modes())
      if (const auto flag = std::find(words.begin(), words.end(), mode.flag); flag != words.end()) {
        std::vector<std::string> others(words.begin(), flag);
        others.insert(others.end(), flag + 1, words.end());
        return mode.run(others, out, err);
      }
    BenchArguments arguments;
    arguments.out = &out;
    arguments.err = &err;
    arguments.allocations = std::move(allocations);
    return run(words, arguments);
  });
}

}  // namespace tj::tools
