// Machine code for NVIDIA's GPUs as text, by nvdisasm, which comes with CUDA's toolkit or, as NVRTC does, in a wheel of
// its own (nvidia-cuda-nvdisasm). Skips the test where there is none.
#pragma once

#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "compile/library_search.hpp"
#include "support/environment.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace tj::test {

inline std::string disassembler() {
  std::vector<std::string> folders = compile::split_path(support::environment_variable("PATH").value_or(""));
  for (const std::string& libraries :
       compile::split_path(support::environment_variable("LD_LIBRARY_PATH").value_or("")))
    folders.push_back(libraries + "/../bin");
  for (const char* toolkit : {"/usr/local/cuda/bin", "/opt/cuda/bin"}) folders.emplace_back(toolkit);
  for (const std::string& folder : folders)
    if (std::error_code failed; std::filesystem::is_regular_file(folder + "/nvdisasm", failed))
      return folder + "/nvdisasm";
  return "";
}

inline std::string disassembled(const std::string& tool, const std::string& cubin) {
  testing::Scratch scratch;
  testing::write_bytes(scratch / "kernel.cubin", cubin);
  const int output = ::open((scratch / "kernel.sass").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  REQUIRE(output >= 0);
  pid_t child = 0;
  REQUIRE(support::start_process({tool, "-c", scratch / "kernel.cubin"}, {}, output, child) == 0);
  REQUIRE(support::wait_for_process(child) == 0);
  ::close(output);
  return testing::read_bytes(scratch / "kernel.sass");
}

inline int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

inline std::string disassembler_or_skip() {
  std::string tool = disassembler();
  if (!tool.empty()) return tool;
  std::puts("skipped: no nvdisasm on this machine");
  std::exit(77);
}

}  // namespace tj::test
