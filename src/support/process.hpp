// Starting a program without a shell, and how it ended.
//
// Decides that it reads nothing, and that its output and errors go to one place. It has no signal of this process
// blocked or ignored, and it does not outlive this process. Does not decide what it sees of the environment, nor who
// reads its output. Invariant: no descriptor of this process is passed on on purpose.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "support/bounded_log.hpp"
#include "support/file_descriptor.hpp"

namespace tj::support {

/// The group of the caller gets a terminal's signals together with it. One of its own can be ended with all that the
/// program has started, and ends with this process, however and whenever that ends.
enum class ProcessGroup { callers, own };

/// Starts words[0], a path or a name to look up on PATH, with the other words as its arguments. The program gets these
/// variables ("NAME=value") and no others, and writes to the descriptor `output`. Returns 0, or the errno that says why
/// it could not be started. `child` is for wait_for_process, which the same thread must call: the kernel ends the
/// program when that thread is gone.
int start_process(std::vector<std::string> words, std::vector<std::string> environment, int output, pid_t& child,
                  ProcessGroup group = ProcessGroup::callers);

/// The errno of start_process() in words, with advice: `otherwise` where none is known.
std::string start_failure(int error, std::string_view otherwise);

/// How a program ended where this process does not let its children be waited for (it ignores SIGCHLD): nobody knows.
inline constexpr int kUnknownStatus = -1000;

/// Waits until the program has ended. Returns its exit status, -signal, or kUnknownStatus.
int wait_for_process(pid_t child);

/// The output of a program, through a pipe: no file grows with it. Throws std::bad_alloc; without a pipe, error() is
/// its errno.
class ProgramOutput {
 public:
  ProgramOutput();
  int error() const noexcept { return error_; }
  int into() const noexcept { return into_.get(); }  ///< for start_process
  std::string text() const { return log_.text(); }

 private:
  friend int wait_for_process(pid_t child, double limit_s, bool& over, ProgramOutput* output);
  void started() noexcept { into_.reset(); }
  void read_some();

  FileDescriptor from_, into_;
  int error_ = 0;
  BoundedLog log_;
  std::vector<char> part_;  ///< what is read at a time; there before a program is started
};

/// Waits for a program with a group of its own, which is ended, `over` set, after limit_s seconds (0: never). Reads
/// `output` meanwhile; what the program has left running may write on and is not waited for. The group ends with this
/// call where that throws std::bad_alloc.
int wait_for_process(pid_t child, double limit_s, bool& over, ProgramOutput* output = nullptr);

/// Ends the programs that wait_for_process(child, limit_s, over) waits for, at the end of this process. None is started
/// from now on (ECANCELED). A thread that waits for one does not go on for two seconds, in which this process is
/// expected to be gone: otherwise it would tell failures that nobody asked for.
void end_processes() noexcept;

}  // namespace tj::support
