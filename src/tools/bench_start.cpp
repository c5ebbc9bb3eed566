// tj-bench --start: what a process pays before its first calls, whose kernels lie in the cache or in a pack.
//
// Decides which kernels are got ready, when that is given up, and what counts as a compiler. Decides nothing about how
// they are found. The device's own start is timed apart. Invariant: nothing is compiled. A kernel that the cache lacks,
// or whose binary the driver refuses, ends the run at once. A run in which a compiler's library was opened is a
// failure, too, whatever the times.
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <exception>
#include <initializer_list>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tilejit/tilejit.hpp>

#include "backends.hpp"
#include "cache/cache.hpp"
#include "maker.hpp"
#include "ops/op.hpp"
#include "support/atomic_file.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/json.hpp"
#include "support/patience.hpp"
#include "support/text.hpp"
#include "tools/bench.hpp"
#include "tools/bench_numbers.hpp"
#include "tools/options.hpp"
#include "tuning/tunings.hpp"

namespace tj::tools {
namespace {

using support::cat;
using support::Json;
using Clock = std::chrono::steady_clock;

/// Files of this process that are a compiler's.
std::set<std::string> compilers_in_process() {
  std::set<std::string> found;
  const auto look = [](dl_phdr_info* library, std::size_t, void* out) {
    const std::string path = library->dlpi_name, name = path.substr(path.rfind('/') + 1);
    for (const char* each : {"libnvrtc", "libhiprtc", "libamd_comgr"})
      if (name.starts_with(each)) static_cast<std::set<std::string>*>(out)->insert(path);
    return 0;
  };
  ::dl_iterate_phdr(look, &found);
  return found;
}

/// A kernel that is got ready.
struct Wanted {
  const ops::Op* op;
  ops::Request request;
  arch::Target target;
};

/// What a process has that starts from a cache, as far as kernels need it.
struct Start {
  explicit Start(const BenchArguments& arguments)
      : settings(support::resolve_settings(bench_options(arguments))),
        log(bench_log(arguments)),
        backends(settings, log),
        store(
            settings.cache_dir, settings.cache_max_size_bytes,
            [this](LogLevel level, std::string_view text) { log(level, text); }, settings.pack_keys),
        maker(settings, log, backends, &store),
        tunings(&store, log, [this](Device device) { return tuned_machine(backends, device); }, settings.use_tuning) {}

  const support::Settings settings;
  const support::Log log;
  Backends backends;
  cache::Store store;
  KernelMaker maker;
  Tunings tunings;
};

/// Time by two clocks, in milliseconds.
struct Spent {
  double wall = 0, cpu = 0;
  Spent& operator+=(const Spent& other) {
    wall += other.wall;
    cpu += other.cpu;
    return *this;
  }
};

double thread_cpu_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

/// Both clocks of this thread.
class Watch {
 public:
  Spent spent() const { return {ms_since(wall_), thread_cpu_ms() - cpu_}; }

 private:
  const Clock::time_point wall_ = Clock::now();
  const double cpu_ = thread_cpu_ms();
};

/// What was found on the way.
struct Found {
  std::size_t ready = 0, wanted = 0;
  std::string missing;    ///< the first kernel that the cache lacks, or that the driver refuses; empty: none
  std::string why;        ///< it is missing
  Spent look_ups, loads;  ///< summed over threads
};

/// Refuses layers that cannot serve, by their names: with a name that was mistyped nothing is to be made.
void require_layers(const Start& start) {
  const std::vector<cache::LayerState> layers = start.store.layers();
  if (layers.empty()) bad_use("--start: there is no cache; give --cache-dir, or TJ_CACHE_DIR, a folder or a pack");
  for (const cache::LayerState& layer : layers) {
    struct stat status{};
    std::string problem = layer.problem;
    if (problem.empty() && layers.size() == 1 && ::stat(layer.directory.c_str(), &status) != 0)
      problem = support::errno_text(errno);
    if (!problem.empty())
      bad_use(cat("--start: the cache '", support::shown_path(layer.directory), "' cannot be used: ", problem,
                  "; give --cache-dir, or TJ_CACHE_DIR, a folder or a pack that tj-warm has filled"));
  }
}

/// The kernels of the ops that were named, else the default set of each op that the device has kernels of.
std::vector<Wanted> wanted_kernels(const BenchArguments& arguments, Start& start, Device device) {
  std::vector<const ops::Op*> chosen;
  for (const std::string& name : arguments.ops) chosen.push_back(&find_op(name));
  if (chosen.empty())
    for (const ops::Op* op : ops::all())
      if (op->described()) chosen.push_back(op);
  start.tunings.refresh(device);
  std::vector<Wanted> wanted;
  for (const ops::Op* op : chosen) {
    const arch::Target target = start.backends.target(device, *op);
    const ops::ChooseKernel choose{
        [&](const ops::ProblemKey& problem) { return start.tunings.kernel_of(*op, problem, device, *target.arch); },
        [&]() -> const arch::Arch& { return *target.arch; }};
    for (const ops::NeededKernel& needed : op->needed_kernels(arguments.op_flags, *target.arch, choose)) {
      ops::Request request = needed.op->request_of(needed.kernel);
      if (!arguments.ops.empty() || serves(*needed.op, request, *target.arch))
        wanted.push_back({needed.op, std::move(request), start.backends.target(device, *needed.op)});
    }
  }
  return wanted;
}

/// Tells of progress where it takes long, as from a slow disk.
class Words {
 public:
  explicit Words(std::ostream& err) : err_(err) {}
  void ready(const Found& found) {
    if (!patience_.word_is_due()) return;
    err_ << "tj-bench: " << found.ready << " of " << found.wanted << " kernels are ready" << std::endl;
  }

 private:
  std::ostream& err_;
  support::Patience patience_{0};
};

/// Threads that take one kernel after the other.
class Readying {
 public:
  Readying(const std::vector<Wanted>& wanted, Start& start, Device device, std::ostream& err)
      : wanted_(wanted),
        start_(start),
        device_(device),
        driver_(start.backends.driver(device)),
        words_(err),
        loaded_(wanted.size()) {
    found_.wanted = wanted.size();
  }

  Found run(int threads) {
    {
      std::vector<std::jthread> helpers;  // waited for, come what may
      try {
        for (int t = 1; t < threads; ++t) helpers.emplace_back([this] { work(); });
      } catch (const std::exception&) {  // fewer threads then
      }
      work();
    }
    tell_missing();
    return found_;
  }

 private:
  /// No exception leaves it: in a helper's thread it would end the process.
  void work() {
    Spent look_ups, loads;
    for (std::size_t at; !over_ && (at = next_++) < wanted_.size();) try {
        make_ready(at, look_ups, loads);
      } catch (...) {
        fail(at, std::current_exception());
      }
    const std::lock_guard lock(mutex_);
    found_.look_ups += look_ups;
    found_.loads += loads;
  }

  void make_ready(std::size_t at, Spent& look_ups, Spent& loads) {
    const Wanted& each = wanted_[at];
    arch::Target target = each.target;
    const Watch looking;
    const Artifact artifact = start_.maker.get_for(*each.op, each.request, target, device_, MissPolicy::error);
    look_ups += looking.spent();
    const Watch loading;
    loaded_[at] =
        start_.maker.load(*each.op, each.request, target, driver_, device_.index, artifact, MissPolicy::error);
    loads += loading.spent();
    const std::lock_guard lock(mutex_);
    ++found_.ready;
    words_.ready(found_);
  }

  /// The first kernel of the list counts.
  void fail(std::size_t at, std::exception_ptr error) {
    over_ = true;
    const std::lock_guard lock(mutex_);
    if (at >= first_failed_) return;
    first_failed_ = at;
    failed_ = std::move(error);
  }

  /// In the caller's thread: a kernel that is not served is told of, and any other error is the caller's.
  void tell_missing() {
    if (!failed_) return;
    try {
      std::rethrow_exception(failed_);
    } catch (const Error& error) {
      if (error.code != Code::not_in_cache) throw;
      const Wanted& lacked = wanted_[first_failed_];
      found_.missing = cat(lacked.request.name, " for ", lacked.target.name());
      found_.why = error.message;
    }
  }

  const std::vector<Wanted>& wanted_;
  Start& start_;
  const Device device_;
  const std::shared_ptr<launch::Driver> driver_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> over_{false};
  std::mutex mutex_;  // of what is below, but for loaded_, each of which is one thread's
  Words words_;
  Found found_;
  std::size_t first_failed_ = std::numeric_limits<std::size_t>::max();
  std::exception_ptr failed_;
  std::vector<std::unique_ptr<LoadedKernel>> loaded_;
};

/// A part of the time: of a look-up or a load where `of` names one.
struct Share {
  const char* name;
  const char* of;
  double wall_ms;
  std::optional<double> cpu_ms = {};
};

/// before, after: what the store had counted when the look-ups began, and at their end.
std::vector<Share> shares_of(const Spent& verifying, const Spent& choosing, const Found& found,
                             const cache::StoreCounts& before, const cache::StoreCounts& after,
                             const launch::LoadShares& driver) {
  std::vector<Share> shares = {{"packs verified", "", verifying.wall, verifying.cpu},
                               {"choosing", "", choosing.wall, choosing.cpu}};
  const auto add = [&](const char* of, const Spent& whole,
                       std::initializer_list<std::pair<const char*, double>> parts) {
    shares.push_back({of, "", whole.wall, whole.cpu});
    double rest = whole.wall;
    for (const auto& [name, seconds] : parts) {
      shares.push_back({name, of, seconds * 1e3});
      rest -= seconds * 1e3;
    }
    shares.push_back({"the rest", of, std::max(rest, 0.0)});
  };
  add("look-ups", found.look_ups,
      {{"layers opened", after.open_s - before.open_s},
       {"entries read", after.read_s - before.read_s},
       {"checksums", after.check_s - before.check_s}});
  add("loads", found.loads,
      {{"modules", driver.module_s},
       {"functions", driver.function_s},
       {"code", driver.code_s},
       {"attributes", driver.attributes_s}});
  return shares;
}

void print(const std::vector<Share>& shares, int threads, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {
      {cat("ms, summed over ", threads, threads == 1 ? " thread" : " threads"), "wall", "CPU"}};
  for (const Share& share : shares)
    rows.push_back({cat(*share.of != '\0' ? "  of these: " : "", share.name), number_text(share.wall_ms, 1),
                    share.cpu_ms ? number_text(*share.cpu_ms, 1) : ""});
  print_table(rows, out);
}

Json to_json(const std::vector<Share>& shares) {
  Json list = Json::array();
  for (const Share& share : shares) {
    Json each = {{"name", share.name}, {"wall_ms", share.wall_ms}};
    if (*share.of != '\0') each["of"] = share.of;
    if (share.cpu_ms) each["cpu_ms"] = *share.cpu_ms;
    list.push_back(std::move(each));
  }
  return list;
}

}  // namespace

int run_start(const BenchArguments& arguments) {
  if (arguments.targets.size() > 1)
    bad_use(cat("--target is given ", arguments.targets.size(), " times; allowed without --compile: one"));
  const std::set<std::string> before = compilers_in_process();
  Start start(arguments);
  const Watch opening;
  require_layers(start);
  const Spent verifying = opening.spent();
  const Clock::time_point begin = Clock::now();
  const Device device = start.backends.default_device();
  const std::string target = start.backends.target(device).name();
  const auto first = start.backends.driver(device)->allocate(device.index, 1);
  const double device_ms = ms_since(begin);

  const Clock::time_point ready = Clock::now();
  const Watch choice;
  const std::vector<Wanted> wanted = wanted_kernels(arguments, start, device);
  const Spent choosing = choice.spent();
  const cache::StoreCounts before_look_ups = start.store.counts();
  Readying readying(wanted, start, device, *arguments.err);
  const Found found = readying.run(arguments.threads);
  const double kernels_ms = ms_since(ready);
  const std::vector<Share> shares = shares_of(verifying, choosing, found, before_look_ups, start.store.counts(),
                                              start.backends.driver(device)->load_shares());

  std::set<std::string> opened = compilers_in_process();
  for (const std::string& path : before) opened.erase(path);
  const double load_ms = start.maker.counters().load_s * 1e3;
  std::ostream& out = *arguments.out;
  out << "on " << target << ": the device was there in " << number_text(device_ms, 1) << " ms (driver and context), "
      << found.ready << " kernels beside that in " << number_text(kernels_ms, 1) << " ms (" << number_text(load_ms, 1)
      << " ms of them in the driver's loading)\n"
      << found.ready << " of " << found.wanted << " kernels were in the cache, none was compiled\n"
      << "compiler libraries opened: " << (opened.empty() ? "none" : "");
  for (const std::string& path : opened) out << (path == *opened.begin() ? "" : ", ") << path;
  out << '\n';
  print(shares, arguments.threads, out);
  if (!found.missing.empty())
    *arguments.err << "tj-bench: stopped, as the cache '" << support::shown_path(start.settings.cache_dir)
                   << "' does not serve " << found.missing << "; " << found.ready << " of " << found.wanted
                   << " kernels were ready by then. Make them ahead by tj-warm, with the same flags, and give "
                      "--cache-dir. As a service under TJ_ON_MISS=error would say: "
                   << found.why << '\n';
  write_json(arguments, {{"mode", "start"},
                         {"target", target},
                         {"device_ms", device_ms},
                         {"kernels", found.ready},
                         {"kernels_ms", kernels_ms},
                         {"load_ms", load_ms},
                         {"threads", arguments.threads},
                         {"shares", to_json(shares)},
                         {"missing", found.missing},
                         {"compilers_opened", opened}});
  const bool served = found.missing.empty() && found.ready > 0;
  return served && opened.empty() ? kExitOk : kExitFailures;
}

}  // namespace tj::tools
