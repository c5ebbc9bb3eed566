// The compilers behind make_compiler(), one maker each.
//
// Decides nothing but their names. Invariant: making one opens no library and starts no process.
#pragma once

#include <memory>

#include "compile/compiler.hpp"
#include "compile/library_search.hpp"

namespace tj::compile {

/// NVIDIA's run-time compiler: CUDA C++ to a cubin. All of a process stay with the file that the first one found
/// (found_library.hpp).
std::unique_ptr<Compiler> make_nvrtc();
/// NVIDIA's compiler, with the library looked for in another place.
std::unique_ptr<Compiler> make_nvrtc(const LibrarySearch& search);
/// HIP C++ to a code object, by AMD's run-time compiler or by clang, as the settings say.
std::unique_ptr<Compiler> make_hip(const Settings& settings);
/// AMD's compiler, with hiprtc looked for in another place.
std::unique_ptr<Compiler> make_hip(const Settings& settings, const LibrarySearch& search);
/// AMD's run-time compiler alone. `arch` is the architecture that a clang in its place would have to know; empty: any.
std::unique_ptr<Compiler> make_hiprtc(const LibrarySearch& search, std::string arch = {});
/// clang alone, for the settings' architecture.
std::unique_ptr<Compiler> make_clang(const Settings& settings);
/// The host's C++ compiler: a generated unit to a shared object for the CPU model.
std::unique_ptr<Compiler> make_host(const Settings& settings = {});

}  // namespace tj::compile
