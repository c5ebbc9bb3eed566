// The compiler of HIP that compiles where the settings leave it open.
//
// Decides by stat and the names of files: hiprtc where it is there and new enough for the architecture, else clang.
// Knows no option and no error of either. Invariant: all calls go to the compiler that identity() names at that time.
#include <algorithm>
#include <utility>

#include "compile/backends.hpp"
#include "compile/clang_search.hpp"
#include "compile/hip_version.hpp"
#include "compile/library_search.hpp"
#include "support/fail.hpp"

namespace tj::compile {
namespace {

using support::cat;

class AutoHip final : public Compiler {
 public:
  AutoHip(const Settings& settings, LibrarySearch search)
      : arch_(settings.arch), search_(std::move(search)), hiprtc_(make_hiprtc(search_)), clang_(make_clang(settings)) {}

  Identity identity() const override { return chosen().identity(); }
  bool is_library() const override { return chosen().is_library(); }
  std::vector<std::string> base_options(std::string_view arch) const override { return hiprtc_->base_options(arch); }
  std::vector<std::string> quick_options() const override { return hiprtc_->quick_options(); }
  std::string version() override { return required().version(); }
  Binary compile(const Job& job) override { return required().compile(job); }

 private:
  Compiler& chosen() const {
    const std::string library = find_library(search_);
    // A name such as libhiprtc.so.6 tells less than the library would: without a clang the library itself is asked.
    const bool served = !library.empty() && version_in_file_name(library) >= first_release(arch_);
    return served || !clang_->identity().present() ? *hiprtc_ : *clang_;
  }

  Compiler& required() const {
    Compiler& compiler = chosen();
    if (compiler.identity().present()) return compiler;
    support::fail(Stage::compile, Code::not_found,
                  cat("no compiler for AMD GPUs was found; searched ", describe(search_), "; and ",
                      describe_clang_search(), "; install ROCm ", std::max(first_release(arch_).major, 6),
                      " or newer, or ", clang_advice(arch_), unused_rocm_remark()));
  }

  std::string arch_;
  LibrarySearch search_;
  std::unique_ptr<Compiler> hiprtc_, clang_;
};

}  // namespace

std::unique_ptr<Compiler> make_hip(const Settings& settings, const LibrarySearch& search) {
  if (settings.hip_compiler == "hiprtc") return make_hiprtc(search, settings.arch);
  if (settings.hip_compiler == "clang") return make_clang(settings);
  return std::make_unique<AutoHip>(settings, search);
}

std::unique_ptr<Compiler> make_hip(const Settings& settings) { return make_hip(settings, hiprtc_search()); }

}  // namespace tj::compile
