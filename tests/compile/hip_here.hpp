// The compiler of HIP that makes code for an arch on this machine, or a skipped test.
//
// Decides by presence, and for hiprtc by its own refusal of an arch that is too new for it. Such a machine lacks a
// compiler like a machine without any. Invariant: what is left out is said in a line with the reason.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "compile/compiler.hpp"
#include "compile/hip_kernel.hpp"
#include "support/skip.hpp"

namespace tj::testing {

inline constexpr const char* kNoHipCompiler = "no HIP compiler on this machine; install clang-19 and lld-19, or ROCm";

/// Why the compiler is none for the arch here; empty when it is one. Clang's version is known before it is chosen.
inline std::string lack_of(compile::Compiler& compiler, const std::string& arch) {
  const compile::Identity identity = compiler.identity();
  if (!identity.present()) return kNoHipCompiler;
  if (!identity.kind.starts_with("hiprtc")) return {};
  try {
    compiler.compile(hip_job(arch));
  } catch (const Error& error) {
    if (error.code != Code::unsupported) throw;
    return error.message;
  }
  return {};
}

/// Null where there is none, which is said.
inline std::unique_ptr<compile::Compiler> hip_compiler(const std::string& arch, const std::string& which = "auto") {
  auto compiler = compile::make_compiler("hiprtc", {which, arch});
  const std::string lack = lack_of(*compiler, arch);
  if (lack.empty()) return compiler;
  std::printf("not checked for %s: %s\n", arch.c_str(), lack.c_str());
  return nullptr;
}

/// Skips the test where none of the archs has a compiler. First in a file, so that a failure is never hidden by it.
inline void need_hip_compiler(const std::vector<std::string>& archs) {
  for (const std::string& arch : archs)
    if (lack_of(*compile::make_compiler("hiprtc", {"auto", arch}), arch).empty()) return;
  skip(lack_of(*compile::make_compiler("hiprtc", {"auto", archs.front()}), archs.front()));
}

}  // namespace tj::testing
