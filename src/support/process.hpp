// Starting a program without a shell, and how it ended.
//
// Decides that it reads nothing, that its output and errors go to one place, and that it has no signal of this process blocked or ignored.
// Does not decide what it sees of the environment, nor who reads its output. Invariant: no descriptor of this process is passed on on purpose.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tj::support {

/// Starts words[0], a path or a name to look up on PATH, with the other words as its arguments, these variables ("NAME=value") and no others,
/// and `output`, a descriptor, for what it writes. 0, or the errno that says why it could not be started; `child` is for wait_for_process.
int start_process(std::vector<std::string> words, std::vector<std::string> environment, int output, pid_t& child);

/// How a program ended where this process does not let its children be waited for (it ignores SIGCHLD): nobody knows.
inline constexpr int kUnknownStatus = -1000;

/// Waits until it has ended. Its exit status, -signal, or kUnknownStatus.
int wait_for_process(pid_t child);

}  // namespace tj::support
