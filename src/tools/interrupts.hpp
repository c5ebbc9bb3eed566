// What a signal that ends a tool leaves behind.
//
// Decides that compilers end and their folders go first. The library itself installs no handlers: signals are their
// program's.
#pragma once

namespace tj::tools {

/// For the start of main(), before any other thread. SIGINT, SIGTERM and SIGHUP still end the process as they would
/// have, and those that are ignored stay so.
void clean_up_on_signals();

}  // namespace tj::tools
