// The list of archs and how text becomes a target.
#include <array>

#include "arch/arch.hpp"
#include "support/fail.hpp"

namespace tj::arch {
namespace {

constexpr std::string_view kModelPrefix = "model:";

const std::vector<Arch>& storage() {
  static const std::vector<Arch> archs = {
      make_sm90a(),
  };
  return archs;
}

std::string allowed() {
  std::string list;
  for (const Arch* arch : all()) list += support::cat(list.empty() ? "" : ", ", arch->name, ", ", kModelPrefix, arch->name);
  return list;
}

}  // namespace

double Arch::fact(std::string_view fact_name) const {
  const auto found = facts.find(std::string(fact_name));
  if (found == facts.end())
    support::fail(Stage::target, Code::internal, support::cat("arch '", name, "' has no fact '", fact_name, "'; add it with its source"));
  return found->second.value;
}

const std::vector<const Arch*>& all() {
  static const std::vector<const Arch*> pointers = [] {
    std::vector<const Arch*> list;
    for (const Arch& arch : storage()) list.push_back(&arch);
    return list;
  }();
  return pointers;
}

const Arch* find(std::string_view name) {
  for (const Arch* arch : all())
    if (arch->name == name) return arch;
  return nullptr;
}

const Arch* for_device(std::string_view vendor, int major, int minor) {
  for (const Arch* arch : all())
    if (arch->vendor == vendor && arch->device_major == major && arch->device_minor == minor) return arch;
  return nullptr;
}

Target parse_target(std::string_view text) {
  Target target;
  std::string_view name = text;
  if (name.substr(0, kModelPrefix.size()) == kModelPrefix) {
    target.model = true;
    name.remove_prefix(kModelPrefix.size());
  }
  target.arch = find(name);
  if (target.arch == nullptr)
    support::fail(Stage::target, Code::invalid_argument, support::cat("target '", text, "' is unknown; allowed are ", allowed()));
  return target;
}

}  // namespace tj::arch
