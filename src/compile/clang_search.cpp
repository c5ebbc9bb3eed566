// See clang_search.hpp.
#include "compile/clang_search.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "compile/hip_version.hpp"
#include "compile/library_search.hpp"
#include "compile/program_search.hpp"
#include "support/fail.hpp"
#include "support/installations.hpp"

namespace tj::compile {
namespace {

using support::cat;

constexpr int kNewest = 22, kOldest = 15;  // 15 is the first that knows a gfx11

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// ld.lld-<version> where clang has a version; else the linker beside the file behind the links, as LLVM and ROCm
/// install it.
std::string lld_of(const std::string& clang, int version) {
  if (std::string numbered = version > 0 ? find_program(cat("ld.lld-", version)) : std::string(); !numbered.empty())
    return numbered;
  std::string beside = folder_of(behind_links(clang)) + "/ld.lld";
  return is_program(beside) ? beside : std::string();
}

/// A compiler cache that goes by clang's name does not count: nobody could tell its version.
bool is_clang(const std::string& path) {
  if (!is_program(path)) return false;
  const std::string file = behind_links(path);
  return file.find("clang", file.rfind('/') + 1) != std::string::npos;
}

struct Candidate {
  std::string path;
  int version = 0;  ///< 0: unknown
};

/// 14 of "/usr/lib/llvm-14/bin/clang" and of "/usr/bin/clang-14": the version that installations give a clang without a
/// number.
int version_behind(const std::string& path) {
  const std::string file = behind_links(path);
  for (const char* before : {"/clang-", "/llvm-"}) {
    const std::size_t at = file.rfind(before);
    if (at == std::string::npos) continue;
    const int version = std::atoi(file.c_str() + at + std::strlen(before));
    if (version > 0) return version;
  }
  return 0;
}

std::vector<Candidate> candidates() {
  std::vector<Candidate> found;
  const std::vector<std::string> folders = path_folders();
  const auto add = [&](std::string path, int version) {
    const auto same = [file = behind_links(path)](const Candidate& other) { return behind_links(other.path) == file; };
    if (is_clang(path) && std::none_of(found.begin(), found.end(), same))
      found.push_back({std::move(path), version});  // /bin may be /usr/bin
  };
  for (int version = kNewest; version >= kOldest; --version)
    for (const std::string& folder : folders) add(cat(folder, "/clang-", version), version);
  for (const std::string& root : support::rocm_roots())
    for (const char* name : {"/bin/amdclang++", "/llvm/bin/amdclang++", "/llvm/bin/clang++"}) add(root + name, 0);
  for (const std::string& folder : folders) add(folder + "/clang", version_behind(folder + "/clang"));
  return found;
}

}  // namespace

HipClang find_hip_clang(std::string_view arch, std::vector<std::string>* rejected) {
  const int needed = first_clang(arch);
  for (const Candidate& candidate : candidates()) {
    std::string lld = lld_of(candidate.path, candidate.version);
    const bool old = candidate.version > 0 && candidate.version < needed;
    if (!lld.empty() && !old) return {candidate.path, std::move(lld)};
    if (rejected == nullptr) continue;
    rejected->push_back(old ? cat(candidate.path, " is older than ", needed, ", the first for ", arch)
                            : cat(candidate.path, " has no ld.lld of its version",
                                  candidate.version > 0 ? cat(" (Debian: lld-", candidate.version, ")") : ""));
  }
  return {};
}

std::string clang_advice(std::string_view arch) {
  constexpr int kOfDebian = 19;  // 12
  const int needed = std::max(kOldest, first_clang(arch));
  return cat("clang ", needed, " or newer with its lld",
             needed <= kOfDebian ? cat(" (Debian: apt-get install clang-", kOfDebian, " lld-", kOfDebian, ")") : "");
}

std::string describe_clang_search() {
  return cat("clang-", kNewest, " to clang-", kOldest, " and clang in ", path_text(), "; amdclang++ and clang++ below ",
             join(support::rocm_roots()));
}

}  // namespace tj::compile
