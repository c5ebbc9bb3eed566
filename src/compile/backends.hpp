// The compilers behind make_compiler(), one maker each.
//
// Decides nothing but their names. Invariant: making one opens no library and starts no process.
#pragma once

#include <memory>

#include "compile/compiler.hpp"

namespace tj::compile {

/// NVIDIA's run-time compiler: CUDA C++ to a cubin.
std::unique_ptr<Compiler> make_nvrtc();
/// AMD's run-time compiler: HIP C++ to a code object.
std::unique_ptr<Compiler> make_hiprtc(const Settings& settings);
/// The host's C++ compiler: a generated unit to a shared object for the CPU model.
std::unique_ptr<Compiler> make_host();

}  // namespace tj::compile
