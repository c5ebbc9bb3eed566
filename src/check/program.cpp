// See program.hpp.
#include "check/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "compile/host_process.hpp"
#include "support/atomic_file.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/file_descriptor.hpp"
#include "support/json.hpp"
#include "support/patience.hpp"
#include "support/process.hpp"

namespace tj::check {
namespace {

using support::cat;

constexpr std::uintmax_t kMostReportBytes = 64 << 20;  // a kernel's line has some kilobytes, and each kernel one
constexpr std::size_t kTailBytes = 4000;               // tail of what it printed: the end tells why it failed

struct Ended {
  int status = 0;  ///< exit status of the process, or -signal
  std::string output;
};

std::string joined(const std::vector<support::SiteName>& sites) {
  std::string text;
  for (const support::SiteName& site : sites) text += (text.empty() ? "" : ",") + support::to_string(site);
  return text;
}

using Waits = std::function<void(double waited_s)>;

/// Until there is something to read, or the process is gone.
void wait_for(int descriptor, support::Patience& patience, const Waits& waits) {
  constexpr std::chrono::seconds kLongestStep{60};
  pollfd event{descriptor, POLLIN, 0};
  do {
    if (patience.word_is_due() && waits) waits(patience.waited_s());
    const auto step = std::chrono::ceil<std::chrono::milliseconds>(patience.step(kLongestStep));
    ::poll(&event, 1, static_cast<int>(step.count()));
  } while (event.revents == 0);
}

/// Output and error are read until both are closed.
Ended run(const std::vector<std::string>& words, std::vector<std::string> environment, const Waits& waits) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) support::fail(Stage::model, Code::io, cat("pipe: ", support::errno_text(errno)));
  const support::FileDescriptor from(ends[0]);
  support::FileDescriptor into(ends[1]);
  pid_t child = 0;
  if (const int failed = support::start_process(words, std::move(environment), into.get(), child); failed != 0)
    support::fail(
        Stage::argument, Code::invalid_argument,
        cat("the program is '", words.front(), "': ", support::errno_text(failed), "; allowed: one that can be run"));
  into.reset();
  Ended ended;
  support::Patience patience(0);
  char buffer[4096];
  for (ssize_t got = 1; got != 0;) {
    wait_for(from.get(), patience, waits);
    got = ::read(from.get(), buffer, sizeof buffer);
    if (got < 0 && errno != EINTR) break;
    if (got > 0) ended.output.append(buffer, static_cast<std::size_t>(got));
    if (ended.output.size() > 2 * kTailBytes) ended.output.erase(0, ended.output.size() - kTailBytes);
  }
  const support::FileDescriptor end(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  if (end) wait_for(end.get(), patience, waits);  // it may have closed its output long before
  ended.status = support::wait_for_process(child);
  if (ended.status == support::kUnknownStatus)
    support::fail(Stage::argument, Code::unsupported,
                  cat("how '", words.front(),
                      "' ended is not known, as this process ignores SIGCHLD; allowed: its default action"));
  return ended;
}

/// The lines that one run appended.
struct Lines {
  std::vector<LaunchedKernel> kernels;
  std::vector<Fault> faults;
};
Lines read_lines(const std::string& path) {
  Lines lines;
  std::error_code absent;
  const std::uintmax_t bytes = std::filesystem::file_size(path, absent);
  if (!absent && bytes > kMostReportBytes)
    support::fail(Stage::argument, Code::invalid_argument,
                  cat("the program left ", bytes, " bytes in the file that TJ_MODEL_REPORT names; allowed: at most ",
                      kMostReportBytes, ", which the library writes"));
  if (!std::filesystem::is_regular_file(path, absent)) return lines;
  std::ifstream file(path);
  file.exceptions(std::ios::badbit);  // lines that cannot be read, for want of memory say, are not the end
  for (std::string text; std::getline(file, text);) {
    const auto line = support::parse_shallow<support::SortedJson>(text, false);
    if (line.is_object() && line.contains("kernel"))
      lines.kernels.push_back({line.value("kernel", std::string()), sites_of(text)});
    if (line.is_object() && line.contains("finding"))
      lines.faults.push_back(
          {line.value("finding", std::string()),
           line.value("code", std::string()) == to_string(Code::deadlock) ? Code::deadlock : Code::model_fault,
           line.value("message", std::string()), line.value("log", std::string())});
  }
  return lines;
}

std::string names_of(const std::vector<LaunchedKernel>& kernels) {
  std::string names;
  for (const LaunchedKernel& kernel : kernels)
    names += cat(names.empty() ? "" : ", ", kernel.name, " with ", kernel.sites.size(),
                 kernel.sites.size() == 1 ? " site" : " sites");
  return names;
}

/// A site that no kernel has, or that cannot do less, would leave the kernels as they are. A run that found something
/// may have ended before the kernel with the site.
void check_sites(const char* flag, const std::vector<support::SiteName>& wanted, bool weaken,
                 const ProgramReport& report) {
  for (const support::SiteName& name : wanted) {
    const Site *found = nullptr, *weak = nullptr;
    bool launched = false;
    for (const LaunchedKernel& kernel : report.kernels) {
      if (!name.kernel.empty() && kernel.name != name.kernel) continue;
      launched = launched || !name.kernel.empty();
      for (const Site& site : kernel.sites)
        if (site.id == name.id) (can_be_weakened(site) ? weak : found) = &site;
    }
    if (found == nullptr && weak == nullptr && (launched || report.findings.empty()))
      support::fail(Stage::argument, Code::invalid_argument,
                    cat(flag, " is '", support::to_string(name), "'; allowed: a site of ", names_of(report.kernels),
                        " (--list-sites)"));
    if (weaken && weak == nullptr && found != nullptr)
      support::fail(Stage::argument, Code::invalid_argument,
                    cat(flag, " is '", support::to_string(name), "', a site of kind '", found->kind,
                        "'; allowed: a wait for groups, an announcement, a turn"));
  }
}

void add_finding(std::vector<Finding>& findings, std::vector<std::string>& known, Fault fault, std::uint64_t seed) {
  const std::string plain = cat(fault.kernel, ": ", without_numbers(fault.message));
  const auto found = std::find(known.begin(), known.end(), plain);
  if (found != known.end()) {
    ++findings[static_cast<std::size_t>(found - known.begin())].seeds;
    return;
  }
  known.push_back(plain);
  findings.push_back({std::move(fault), seed, 1});
}

}  // namespace

ProgramReport try_program(const Program& program, const Seeds& seeds, const std::function<void()>& done,
                          const Waits& waits) {
  const support::PrivateDirectory directory;
  ProgramReport report;
  std::vector<std::string> known;
  for (std::uint64_t i = 0; i < seeds.count; ++i) {
    const std::uint64_t seed = seeds.first + i;
    const std::string path = cat(directory.path(), "/", seed);
    const Ended ended = run(program.words,
                            support::environment_with({{"TJ_TARGET", program.target},
                                                       {"TJ_MODEL_SEED", cat(seed)},
                                                       {"TJ_MODEL_REPORT", path},
                                                       {"TJ_MODEL_DISABLE", joined(program.disabled)},
                                                       {"TJ_MODEL_WEAKEN", joined(program.weakened)}}),
                            waits);
    Lines lines = read_lines(path);
    for (LaunchedKernel& kernel : lines.kernels)
      if (std::none_of(report.kernels.begin(), report.kernels.end(),
                       [&](const LaunchedKernel& each) { return each.name == kernel.name; }))
        report.kernels.push_back(std::move(kernel));
    if (report.kernels.empty() && ended.status == 0)
      support::fail(
          Stage::argument, Code::invalid_argument,
          cat("the program is '", program.words.front(), "', which ended well and launched no kernel on ",
              program.target, "; allowed: one that leaves the target to TJ_TARGET and has its tensors in host memory"),
          ended.output);
    const bool silent = lines.faults.empty() && ended.status != 0;
    for (Fault& fault : lines.faults) add_finding(report.findings, known, std::move(fault), seed);
    if (silent)
      add_finding(report.findings, known,
                  {program.words.front(), Code::model_fault,
                   cat("ended with ", ended.status < 0 ? "signal " : "status ", std::abs(ended.status),
                       lines.kernels.empty() ? ", before it launched a kernel on the model"
                                             : ", and the model reported nothing"),
                   ended.output},
                  seed);
    if (!report.kernels.empty()) {
      check_sites("--disable-site", program.disabled, false, report);
      check_sites("--weaken-site", program.weakened, true, report);
    }
    if (done) done();
  }
  return report;
}

}  // namespace tj::check
