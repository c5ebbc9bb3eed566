// The start of a program, as posix_spawn() does it, with memory shared until the program runs.
//
// Decides how the child becomes the program: its group, its life's end, its signals and descriptors. Does not wait for
// it, and decides no environment. Invariant: what runs in the child calls the kernel alone, so that no lock of a
// library and no sanitizer is in the way.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tj::support {

constexpr pid_t kCallersGroup = -1;

/// What a program is started with, besides its words. posix_spawn() cannot tie its life to its parent's.
struct ProgramStart {
  char* const* files = nullptr;  ///< these three are start_program()'s own
  char* const* words = nullptr;
  char* const* environment = nullptr;
  int input = -1;  ///< -1: nothing
  int output = -1;
  /// 0: its own; kCallersGroup; else that one, which has a leader. A child in another namespace of processes than its
  /// parent cannot join one: it gets its own, and writes 0.
  pid_t group = 0;
  pid_t parent = 0;  ///< the process whose end ends the program; 0: none
  int error = 0;     ///< written by the child
  /// Written by the child: it is process 1 of a namespace that unshare() has made, where nothing starts once it is
  /// gone.
  bool first = false;
};

/// Returns 0, or the errno that says why it could not be started. words[0] is looked up on PATH. Throws std::bad_alloc
/// before there is a child.
int start_program(std::vector<std::string> words, std::vector<std::string> environment, pid_t& child,
                  ProgramStart& how);

/// Waits for the end of a process, and says it as wait_for_process() does.
int reap_process(pid_t child);

}  // namespace tj::support
