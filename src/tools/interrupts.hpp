// Signals that end a tool, and what they leave behind.
//
// Decides that compilers and other programs end, and that folders and temporary files go first. The library itself
// installs no handlers: signals belong to the program. Invariant: once such a signal has come, nothing else decides how
// the process ends.
#pragma once

namespace tj::tools {

/// For the start of main(), before any other thread. Signals that end a process on request (SIGINT, SIGTERM, SIGHUP,
/// SIGQUIT, SIGALRM, SIGXCPU, SIGUSR1, SIGUSR2) still end it as they would have, and those that are ignored stay so.
/// Process 1 of a namespace, which no signal of its own ends, exits with 128 + the signal.
/// Programs that this process has started end with it, together with what those have started in their session. Does
/// nothing where no thread can be made.
void clean_up_on_signals();

/// For the end of main() and before a failure is told. Does not return once such a signal has come: the failure may be
/// one of a compiler that was ended, and the process ends by the signal.
void stop_if_ending() noexcept;

}  // namespace tj::tools
