// Places of a compiler's program.
//
// Decides which folders are searched and what counts as a program, by stat alone. Starts nothing.
#pragma once

#include <string>
#include <vector>

namespace tj::compile {

/// PATH, or what stands for it where a process has none. Compilers need it to find their assembler and linker.
std::string program_path();

/// The folders of PATH, without relative ones: those would mean another compiler wherever the process changes to.
std::vector<std::string> path_folders();

/// A file that this process may run.
bool is_program(const std::string& path);

/// The first folder of PATH that has a program of this name, as a path; empty when none has.
std::string find_program(const std::string& name);

/// The folders that are searched, for messages: "/usr/bin, /bin", or what PATH is where it has none of them.
std::string path_text();
/// "/usr/bin, /bin": for messages.
std::string join(const std::vector<std::string>& folders);

}  // namespace tj::compile
