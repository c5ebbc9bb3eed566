// The list of archs and how text becomes a target.
#include <algorithm>
#include <set>

#include "arch/arch.hpp"
#include "arch/options.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"

// One line for each arch: src/arch/<file>.cpp defines Arch make_<name>().
#define TJ_ARCHS(ARCH)                                                                                                 \
  ARCH(sm90a)                                                                                                          \
  ARCH(sm100)                                                                                                          \
  ARCH(sm103)                                                                                                          \
  ARCH(sm110)                                                                                                          \
  ARCH(sm100a)                                                                                                         \
  ARCH(sm103a)                                                                                                         \
  ARCH(sm120a)                                                                                                         \
  ARCH(sm121a)                                                                                                         \
  ARCH(sm90)                                                                                                           \
  ARCH(sm89)                                                                                                           \
  ARCH(sm86)                                                                                                           \
  ARCH(sm80)                                                                                                           \
  ARCH(gfx1100)                                                                                                        \
  ARCH(gfx1101)                                                                                                        \
  ARCH(gfx1102)                                                                                                        \
  ARCH(gfx1103)                                                                                                        \
  ARCH(gfx1150)                                                                                                        \
  ARCH(gfx1151)                                                                                                        \
  ARCH(gfx1200)                                                                                                        \
  ARCH(gfx1201)                                                                                                        \
  ARCH(gfx90a)                                                                                                         \
  ARCH(gfx942)                                                                                                         \
  ARCH(gfx950)                                                                                                         \
  /* in this order: the first is what the CPU model stands for when nothing else is asked, and of several for a device \
   * the first serves it: */                                                                                           \
  /* sm100a and sm103a, whose node bodies no device has run, after sm100 and sm103 */

namespace tj::arch {

#define TJ_DECLARE(name) Arch make_##name();
TJ_ARCHS(TJ_DECLARE)
#undef TJ_DECLARE

namespace {

constexpr std::string_view kModelPrefix = "model:";

const std::vector<Arch>& storage() {
  static constinit support::Lasting<const std::vector<Arch>> archs;
#define TJ_MAKE(name) make_##name(),
  return archs.get([] { return std::vector<Arch>{TJ_ARCHS(TJ_MAKE)}; });
#undef TJ_MAKE
}

std::string allowed() {
  std::string list;
  for (const Arch* arch : all()) list += (list.empty() ? "" : ", ") + arch->name;
  return support::cat(list, "; each with ", kModelPrefix, " before it for the CPU's model; ", options_help());
}

}  // namespace

std::string Arch::file_name() const {
  std::string file = name;
  std::replace_if(file.begin(), file.end(), [](char c) { return c == '+' || c == '='; }, '-');
  return file;
}

bool Arch::has_unit(std::string_view unit) const {
  return std::any_of(units.begin(), units.end(), [&](const Unit& each) { return each.name == unit; });
}

bool Arch::has_fact(std::string_view fact_name) const { return facts.count(std::string(fact_name)) != 0; }

double Arch::fact(std::string_view fact_name) const {
  const auto found = facts.find(std::string(fact_name));
  if (found == facts.end())
    support::fail(Stage::target, Code::internal,
                  support::cat("arch '", name, "' has no fact '", fact_name, "'; add it with its source"));
  return found->second.value;
}

const std::vector<const Arch*>& all() {
  static constinit support::Lasting<const std::vector<const Arch*>> pointers;
  return pointers.get([] {
    std::vector<const Arch*> list;
    for (const Arch& arch : storage()) list.push_back(&arch);
    return list;
  });
}

const Arch* find(std::string_view name) {
  for (const Arch* arch : all())
    if (arch->name == name) return arch;
  return has_options(name) ? find_made(name) : nullptr;
}

const Arch* for_device(std::string_view vendor, int major, int minor) {
  for (const Arch* arch : all())
    if (arch->vendor == vendor && arch->device_names.empty() && arch->device_major == major &&
        arch->device_minor == minor)
      return arch;
  const std::pair device{major, minor};
  for (const Arch* arch : all())
    if (arch->vendor == vendor &&
        std::find(arch->further_devices.begin(), arch->further_devices.end(), device) != arch->further_devices.end())
      return arch;
  return nullptr;
}

namespace {

/// "gfx90a" of "gfx90a:sramecc+:xnack-": text behind the first colon says how a device is set up, not which it is.
std::string_view without_features(std::string_view device_name) { return device_name.substr(0, device_name.find(':')); }

std::string serves_nothing(std::string_view vendor) {
  return support::cat("no device of vendor '", vendor, "' is served by this version");
}

}  // namespace

const Arch* for_device(std::string_view vendor, std::string_view device_name) {
  const std::string_view name = without_features(device_name);
  for (const Arch* arch : all())
    if (arch->vendor == vendor &&
        std::find(arch->device_names.begin(), arch->device_names.end(), name) != arch->device_names.end())
      return arch;
  return nullptr;
}

std::string why_unserved(std::string_view vendor, std::string_view device_name) {
  std::string list;
  for (const Arch* arch : all())
    if (arch->vendor == vendor)
      for (const std::string& name : arch->device_names) list += (list.empty() ? "" : ", ") + name;
  if (list.empty()) return serves_nothing(vendor);
  return support::cat("'", without_features(device_name),
                      "' has no matrix instructions that kernels here use, or is newer than this version; served are ",
                      list);
}

std::string why_unserved(std::string_view vendor, int major, int minor) {
  std::set<std::pair<int, int>> served;
  for (const Arch* arch : all())
    if (arch->vendor == vendor && arch->device_names.empty()) {
      served.insert({arch->device_major, arch->device_minor});
      served.insert(arch->further_devices.begin(), arch->further_devices.end());
    }
  const auto text = [](const std::pair<int, int>& device) { return support::cat(device.first, ".", device.second); };
  std::string list;
  for (const auto& device : served) list += (list.empty() ? "" : ", ") + text(device);
  const std::pair device{major, minor};
  if (served.empty()) return serves_nothing(vendor);
  const std::string why = device < *served.begin() ? support::cat("is older than ", text(*served.begin()),
                                                                  ", the least that kernels here need")
                                                   : "is not known to this version; a newer one may serve it";
  return support::cat("compute capability ", text(device), " ", why, "; served are ", list);
}

const Arch* for_newer_device(std::string_view vendor, int major, int minor, std::int64_t smem_bytes) {
  const auto capability = [](const Arch& arch) { return std::pair(arch.device_major, arch.device_minor); };
  const Arch* closest = nullptr;
  for (const Arch* arch : all())
    if (arch->vendor == vendor && arch->device_names.empty() && capability(*arch) < std::pair(major, minor) &&
        as_ptx(*arch) != nullptr && (closest == nullptr || closest->device_major < arch->device_major))
      closest = arch;
  return closest != nullptr ? &capped(*as_ptx(*closest), smem_bytes) : nullptr;
}

bool runs_on(const Arch& arch, const Arch& device) {
  return same_devices(arch, device) ||
         (!arch.ptx.empty() && arch.vendor == device.vendor &&
          std::pair(arch.device_major, arch.device_minor) <= std::pair(device.device_major, device.device_minor));
}

bool same_devices(const Arch& one, const Arch& other) {
  return one.ptx.empty() == other.ptx.empty() && one.vendor == other.vendor && one.device_major == other.device_major &&
         one.device_minor == other.device_minor && one.device_names == other.device_names;
}

std::string lacks(const Arch& arch, const Needs& needs) {
  std::string list;
  const auto add = [&](const char* kind, const std::string& name) {
    list += support::cat(list.empty() ? "" : ", ", kind, " '", name, "'");
  };
  if (!needs.families.empty() &&
      std::find(needs.families.begin(), needs.families.end(), arch.family) == needs.families.end()) {
    add("node bodies for family", arch.family);
    return list;
  }
  for (const std::string& unit : needs.units)
    if (!arch.has_unit(unit)) add("unit", unit);
  for (const std::string& fact : needs.facts)
    if (!arch.has_fact(fact)) add("fact", fact);
  return list;
}

bool serves(const Arch& arch, const std::vector<Needs>& kinds) {
  return std::any_of(kinds.begin(), kinds.end(), [&](const Needs& needs) { return lacks(arch, needs).empty(); });
}

void require(const Arch& arch, std::string_view op, const Needs& needs) {
  require(arch, op, std::vector<Needs>{needs});
}

void require(const Arch& arch, std::string_view op, const std::vector<Needs>& kinds) {
  const auto missing = [&](const Arch& asked) {
    std::string fewest;
    for (const Needs& needs : kinds) {
      std::string list = lacks(asked, needs);
      const bool meant = std::find(needs.families.begin(), needs.families.end(), asked.family) != needs.families.end();
      if (list.empty()) return list;
      if (fewest.empty() || meant) fewest = std::move(list);
    }
    return fewest;
  };
  const std::string lacking = missing(arch);
  if (lacking.empty()) return;
  std::string served, here;  // here: archs on the devices of the requested arch
  for (const Arch* other : all()) {
    if (!serves(*other, kinds)) continue;
    served += support::cat(served.empty() ? "" : ", ", other->name, ", ", kModelPrefix, other->name);
    if (same_devices(arch, *other))
      here += support::cat(here.empty() ? "; the same devices run it with TJ_TARGET=" : " or ", other->name,
                           ", the CPU with ", kModelPrefix, other->name);
  }
  support::fail(Stage::target, Code::unsupported,
                support::cat(op, " does not run on '", arch.name, "', which lacks ", lacking, here, "; it runs on ",
                             served.empty() ? "no arch of this version" : served));
}

namespace {

bool is_one_of(char c, std::string_view set) { return set.find(c) != set.npos; }

/// The reason why there is no kernel for a GPU of this name, where the name is well written; else empty.
std::string why_gpu_unserved(std::string_view name) {
  const auto digits = [](std::string_view text, std::string_view set) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) { return is_one_of(c, set); });
  };
  if (name.substr(0, 3) == "gfx" && name.size() >= 6 && name.size() <= 7 && digits(name.substr(3), "0123456789abcdef"))
    return why_unserved("amd", name);
  if (name.substr(0, 3) != "sm_") return {};
  std::string_view number = name.substr(3);
  if (!number.empty() && is_one_of(number.back(), "af")) number.remove_suffix(1);
  if (number.size() < 2 || number.size() > 3 || !digits(number, "0123456789")) return {};
  const int value = std::stoi(std::string(number));
  const auto served = [&](const Arch* arch) {
    return arch->vendor == "nvidia" && arch->device_major == value / 10 && arch->device_minor == value % 10;
  };
  return std::any_of(all().begin(), all().end(), served) ? std::string()
                                                         : why_unserved("nvidia", value / 10, value % 10);
}

[[noreturn]] void refuse_unknown(std::string_view name, std::string_view text) {
  const std::string prefix(text.substr(0, kModelPrefix.size()) == kModelPrefix ? kModelPrefix : "");
  std::vector<std::string> names;
  for (const Arch* arch : all()) names.push_back(prefix + arch->name);
  const std::string why = why_gpu_unserved(name), near = support::meant(support::cat(prefix, name), names);
  const std::string rest =
      !why.empty() ? ": " + why : support::cat(near, near.empty() ? "; a" : " A", "llowed are ", allowed());
  support::fail(Stage::target, Code::invalid_argument,
                support::cat("target '", support::shown(text), "' is unknown", rest));
}

const Arch& parse_arch(std::string_view name, std::string_view text) {
  const Arch* base = find(name_before_options(name));
  if (base == nullptr) refuse_unknown(name_before_options(name), text);
  return has_options(name) ? with_options(name, *base) : *base;
}

}  // namespace

const Arch& parse_arch(std::string_view name) { return parse_arch(name, name); }

Target parse_target(std::string_view text) {
  Target target;
  std::string_view name = text;
  if (name.substr(0, kModelPrefix.size()) == kModelPrefix) {
    target.model = true;
    name.remove_prefix(kModelPrefix.size());
  }
  target.arch = &parse_arch(name, text);
  return target;
}

}  // namespace tj::arch
