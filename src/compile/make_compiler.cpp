// The compiler that a name stands for. Knows only the makers.
#include <memory>
#include <string_view>

#include "compile/backends.hpp"
#include "compile/compiler.hpp"
#include "support/fail.hpp"

namespace tj::compile {

std::unique_ptr<Compiler> make_compiler(std::string_view kind, const Settings& settings) {
  if (kind == "nvrtc") return make_nvrtc();
  if (kind == "hiprtc") return make_hip(settings);
  if (kind == "host") return make_host(settings);
  support::fail(Stage::compile, Code::internal,
                support::cat("compiler kind \"", kind, "\" is unknown; an arch names one of nvrtc, hiprtc, host"));
}

}  // namespace tj::compile
