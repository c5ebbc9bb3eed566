// Kernels for GPUs that are newer than the compiler at hand, which take PTX.
//
// Decides between a binary and PTX, and remembers what a compiler has refused: in the cache, so that the next process
// does not ask it again. Does not decide which GPUs may take PTX (backends.cpp). Invariant: a binary that is on disk
// goes before PTX, and so does one that a compiler at hand can make.
#include <utility>

#include "maker.hpp"
#include "support/fail.hpp"
#include "support/uncancelled.hpp"

namespace tj {

using support::cat;

namespace {

constexpr const char* kRefused = "refused target";

/// The name of an alias that leads nowhere: another compiler, or the same one in another version, has another.
std::string refusal_hex(const arch::Target& target, const compile::Compiler& compiler) {
  cache::Fields fields = {{"kind", kRefused}, {"arch", target.arch->compiler_name()}};
  for (const auto& [name, value] : compiler_fields(compiler)) fields.emplace_back("compiler." + name, value);
  return cache::make_key(fields, {}).request_hex;
}

}  // namespace

std::string KernelMaker::why_no_binary(const arch::Target& target) {
  const compile::Compiler& compiler = backends_.compiler(target);
  if (!compiler.identity().present())
    return cat("The cache has no binary for it, and no compiler of '", target.name(), "' is here.");
  const std::string hex = refusal_hex(target, compiler);
  const std::string why =
      cat("The compiler at ", compiler.identity().path, " has refused '", target.name(), "' before.");
  {
    const std::lock_guard lock(mutex_);
    if (refused_.count(hex) != 0) return why;
  }
  std::string named;
  if (store_ != nullptr) store_->load_aliased({hex, hex}, &named);
  return named == hex ? why : std::string();
}

void KernelMaker::remember_refusal(const arch::Target& target) {
  const std::string hex = refusal_hex(target, backends_.compiler(target));
  {
    const std::lock_guard lock(mutex_);
    if (!refused_.insert(hex).second) return;
  }
  if (store_ != nullptr) store_->store_alias(hex, {hex, hex}, {{"name", kRefused}, {"target", target.name()}});
}

bool KernelMaker::is_refusal(const arch::Target& target, const Error& error) {
  if (error.stage != Stage::compile || error.code != Code::unsupported) return false;
  remember_refusal(target);
  return true;
}

Artifact KernelMaker::get_for(const ops::Maker& op, const ops::Request& request, arch::Target& target, Device device,
                              MissPolicy on_miss) {
  const support::Uncancelled whole;
  const auto ptx = backends_.ptx_of(device, target);
  if (!ptx) return get(op, request, target, on_miss);
  std::string why = why_no_binary(target), problem;
  const bool compiler_here = backends_.compiler(target).identity().present();
  const bool ptx_serves = !why.empty() && !on_disk(&op, request, target, &problem, false) &&
                          (compiler_here || on_disk(&op, request, *ptx, &problem, false));
  if (!ptx_serves) {
    try {
      return get(op, request, target, on_miss);
    } catch (const Error& error) {
      const bool old_compiler = is_refusal(target, error);
      const bool none_is_made = error.code == Code::not_in_cache || !compiler_here;
      if (!old_compiler && (!none_is_made || !on_disk(&op, request, *ptx, &problem))) throw;
      why = error.message;
    }
  }
  backends_.warn_of_ptx(device, *ptx, why);
  target = *ptx;
  return get(op, request, target, on_miss);
}

}  // namespace tj
