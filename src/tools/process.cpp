// See process.hpp.
#include "tools/process.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>

#include <tilejit/error.hpp>

#include "support/atomic_file.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/log.hpp"
#include "support/text.hpp"
#include "support/variables.hpp"
#include "tools/interrupts.hpp"
#include "tools/options.hpp"

namespace tj::tools {
namespace {

/// A file that is opened later must not get the number of one of the three. False: the output was closed.
bool keep_the_three() {
  bool output = true;
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    ::open("/dev/null", O_RDWR);
    output = output && fd != STDOUT_FILENO;
  }
  return output;
}

bool can_be_rewritten(int fd) {
  return ::isatty(fd) == 1 && support::environment_variable("TERM").value_or("dumb") != "dumb";
}

/// What this process would log; a variable that is wrong is told elsewhere.
LogLevel log_level() {
  try {
    return support::resolve_settings({}).log_level;
  } catch (const Error&) {
    return LogLevel::warn;
  }
}

}  // namespace

void require_written(std::ostream& out) {
  errno = 0;
  if (out.good() && out.flush().good()) return;
  if (errno == 0) {  // the reason of an earlier failure is lost: one byte more fails by the same
    out.clear();
    (out << '\n').flush();
    out.setstate(std::ios::badbit);
  }
  bad_use(support::cat("standard output is '", support::errno_text(errno == 0 ? EIO : errno),
                       "'; allowed: one that can be written"));
}

int run_tool(const char* tool, BadUse bad_use, std::ostream& out, std::ostream& err, const std::function<int()>& work) {
  try {
    support::warn_of_unknown_variables(support::Log(log_level(), [&](LogLevel, std::string_view text) {
      err << tool << ": " << text << '\n' << std::flush;
    }));
    const int code = work();
    require_written(out);
    return code;
  } catch (const Error& error) {
    stop_if_ending();
    err << tool << ": " << error.what() << '\n' << error.log;
    return error.stage == Stage::argument || (bad_use == BadUse::targets_too && error.stage == Stage::target)
               ? kExitBadUse
               : kExitFailures;
  } catch (const std::bad_alloc&) {
    err << tool << ": memory: out of host memory; ask for less at a time (smaller sizes, --jobs 1), or free some\n";
    return kExitFailures;
  } catch (const std::exception& error) {
    stop_if_ending();
    err << tool << ": " << support::one_line(error.what()) << '\n';
    return kExitFailures;
  }
}

int run_process(
    const char* tool, int argc, char** argv,
    const std::function<int(const std::vector<std::string>&, std::ostream&, std::ostream&, Terminal)>& work) {
  clean_up_on_signals();
  std::signal(SIGCHLD, SIG_DFL);  // who starts this may ignore it, and then nobody learns how a program ended
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is told as a full disk is
  std::signal(SIGXFSZ, SIG_IGN);  // so is a limit on the size of files
  if (!keep_the_three()) {
    std::cerr << tool << ": argument: standard output is 'closed'; allowed: one that can be written\n";
    return kExitBadUse;
  }
  const int code = work({argv + (argc > 0 ? 1 : 0), argv + argc}, std::cout, std::cerr,
                        {can_be_rewritten(STDOUT_FILENO), can_be_rewritten(STDERR_FILENO)});
  stop_if_ending();
  return code;
}

}  // namespace tj::tools
