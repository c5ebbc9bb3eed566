// Targets with options: "sm_90+copies=threads+smem=99K" is an arch with less than sm_90 has, so that one device stands
// for others.
//
// Decides which options there are, what each takes away, and the one name of each result. Values that a target has
// anyway are left out of the name; the rest stands in a fixed order. One option takes nothing: it puts a file's facts
// in the place of those shipped (fact_file.hpp). Does not decide what runs: an arch made here is data like any other.
// Invariant: nothing is ever added, and an arch that was made lives, at one address, as long as the process.
#include "arch/options.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "arch/fact_file.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"
#include "support/text.hpp"

namespace tj::arch {
namespace {

using support::cat;
using support::shown;

constexpr char kSeparator = '+';
constexpr std::string_view kCode = "code", kCopies = "copies", kSmem = "smem", kSmemSm = "smem-sm", kFacts = "facts";
constexpr std::string_view kPtx = "ptx";
constexpr std::int64_t kKilobyte = 1024;
// CUDA occupancy data: an SM gives shared memory in units of 128 bytes from compute capability 8.0 on.
constexpr std::int64_t kSmemStep = 128;
// Family whose node bodies choose between the copy engine and threads' copies, and its primitives without the engine.
constexpr std::string_view kThreadCopiesFamily = "sm80", kThreadCopiesPrimitives = "sm80";
constexpr std::string_view kCopyEngine = "TMA";
// Family whose node bodies need nothing but what every later GPU has, too. Kernels as PTX do without its primitives
// that move registers.
constexpr std::string_view kPtxFamily = "sm80";
// Facts that are measured of the engine alone and of blocks that share copies; an arch whose threads copy has none of
// them.
constexpr std::string_view kCopyEngineFacts[] = {"copy_latency_cycles",
                                                 "copy_cycles_per_kb",
                                                 "copy_outside_row_cycles",
                                                 "unaligned_copy_bytes_per_cycle",
                                                 "sustained_copy_bytes_per_cycle",
                                                 "loaded_copy_cycles_per_kb",
                                                 "multicast_copy_factor",
                                                 "joint_copy_bytes_per_cycle",
                                                 "joint_outside_rows_per_cycle",
                                                 "cluster_start_cycles"};

struct Less {
  bool ptx = false;
  bool thread_copies = false;
  std::int64_t smem_bytes = 0, smem_sm_bytes = 0;  ///< bytes of a block and of an SM; 0: all that the arch has
  const FactFile* facts = nullptr;                 ///< that replace the arch's; null: none
};

template <class... Parts>
[[noreturn]] void refuse(std::string_view text, const Parts&... parts) {
  support::fail(Stage::target, Code::invalid_argument, cat("target '", shown(text), "': ", parts...));
}

std::string size_text(std::int64_t bytes) { return bytes % kKilobyte == 0 ? cat(bytes / kKilobyte, "K") : cat(bytes); }

/// A cap on the bytes of `of`, which has `most` on that arch.
std::int64_t read_smem(std::string_view text, std::string_view key, std::string_view value, const Arch& base,
                       std::int64_t most, const char* of) {
  std::int64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  const bool kilobytes = stop + 1 == end && (*stop == 'K' || *stop == 'k');
  const std::int64_t unit = kilobytes ? kKilobyte : 1;
  if (error != std::errc() || (stop != end && !kilobytes) || number < 0 || number > most / unit ||
      number * unit < kKilobyte || number * unit % kSmemStep != 0)
    refuse(text, key, " is '", shown(value), "'; '", base.name, "' has ", size_text(most), " ", of,
           ", and a cap only takes away: allowed are 1K to ", size_text(most), ", in bytes or as <n>K, in steps of ",
           kSmemStep, " bytes");
  return number * unit;
}

bool read_copies(std::string_view text, std::string_view value, const Arch& base) {
  if (value != "threads" && value != "engine")
    refuse(text, "copies is '", shown(value), "'; allowed are threads and engine");
  const bool engine = base.has_unit(kCopyEngine);
  if (value == "engine" && !engine)
    refuse(text, "copies is 'engine', and '", base.name, "' has no copy engine; allowed is threads");
  if (value == "threads" && engine && base.family != kThreadCopiesFamily)
    refuse(text, "copies is 'threads', and '", base.name, "' is of family '", base.family,
           "', whose kernels need the copy engine; threads copy in family '", kThreadCopiesFamily, "'");
  return value == "threads" && engine;
}

bool read_code(std::string_view text, std::string_view value, const Arch& base) {
  if (value != kPtx) refuse(text, "code is '", shown(value), "'; allowed is ", kPtx);
  if (base.family != kPtxFamily)
    refuse(text, "code is '", kPtx, "', and '", base.name, "' is of family '", base.family,
           "', whose instructions other GPUs lack; PTX is for family '", kPtxFamily, "'");
  return true;
}

/// The facts of a file that was read before, by their hash.
const FactFile& read_hash(std::string_view text, std::string_view value, const Arch& base) {
  const FactFile* const file = find_facts(value);
  if (file == nullptr)
    refuse(text, kFacts, " is '", shown(value),
           "', which no file of facts has that was given; allowed: the hash of the file that TJ_FACTS, "
           "Options::facts_file or --facts names");
  if (file->arch != base.name)
    refuse(text, kFacts, " is '", value, "', which is of facts of '", file->arch, "'; allowed: facts of '", base.name,
           "'");
  return *file;
}

Less read_options(std::string_view text, const Arch& base) {
  Less less;
  std::vector<std::string_view> seen;
  for (std::size_t at = text.find(kSeparator); at != text.npos;) {
    const std::size_t next = text.find(kSeparator, at + 1);
    const std::string_view option = text.substr(at + 1, next == text.npos ? next : next - at - 1);
    const std::size_t equals = std::min(option.find('='), option.size());
    const std::string_view key = option.substr(0, equals), value = option.substr(std::min(equals + 1, option.size()));
    if (key != kCode && key != kCopies && key != kSmem && key != kSmemSm && key != kFacts)
      refuse(text, "option '", shown(option), "' is unknown; ", options_help(),
             support::meant(key, {std::string(kCode), std::string(kCopies), std::string(kSmem), std::string(kSmemSm),
                                  std::string(kFacts)}));
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      refuse(text, "option '", key, "' is given twice; give it once");
    seen.push_back(key);
    if (key == kCode)
      less.ptx = read_code(text, value, base);
    else if (key == kCopies)
      less.thread_copies = read_copies(text, value, base);
    else if (key == kFacts)
      less.facts = &read_hash(text, value, base);
    else if (key == kSmem)
      less.smem_bytes = read_smem(text, key, value, base, base.smem_per_block_bytes, "a block");
    else
      less.smem_sm_bytes = read_smem(text, key, value, base, base.smem_per_sm_bytes, "an SM");
    at = next;
  }
  // A block has at most what is left of its SM; caps that change nothing are none.
  const std::int64_t of_sm = less.smem_sm_bytes == 0 ? base.smem_per_sm_bytes : less.smem_sm_bytes;
  const std::int64_t of_block =
      std::min(less.smem_bytes == 0 ? base.smem_per_block_bytes : less.smem_bytes, base.smem_per_block_bytes);
  const std::int64_t fits = std::min(of_block, of_sm - base.smem_reserved_bytes);
  if (fits < kKilobyte)
    refuse(text, kSmemSm, " is ", size_text(of_sm), ", of which a block's ", size_text(base.smem_reserved_bytes),
           " are the system's; at least 1K more is needed");
  less.smem_bytes = of_block < std::min(base.smem_per_block_bytes, of_sm - base.smem_reserved_bytes) ? of_block : 0;
  less.smem_sm_bytes = of_sm < base.smem_per_sm_bytes ? of_sm : 0;
  return less;
}

/// Facts are replaced before options take anything away. So an arch lacks what options took, whatever a file says.
void replace_facts(Arch& arch, const FactFile& file) {
  arch.facts_file = &file;
  for (const auto& [name, fact] : file.facts) {
    if (name == "clock_ghz")
      arch.clock_ghz = fact.value;
    else if (name == "sm_count")
      arch.sm_count = static_cast<int>(fact.value);
    else
      arch.facts[name] = fact;
  }
}

Arch without(const Arch& base, const Less& less) {
  Arch arch = base;
  arch.base = base.name;
  if (less.facts != nullptr) replace_facts(arch, *less.facts);
  if (less.ptx) {
    arch.name += cat(kSeparator, kCode, "=", kPtx);
    arch.ptx = cat("compute_", base.device_major, base.device_minor);
    arch.register_roles = false;
  }
  if (less.thread_copies) {
    arch.name += cat(kSeparator, kCopies, "=threads");
    arch.primitives = kThreadCopiesPrimitives;
    std::erase_if(arch.units, [](const Unit& unit) { return unit.name == kCopyEngine; });
    for (const std::string_view fact : kCopyEngineFacts) arch.facts.erase(std::string(fact));
    arch.max_cluster = 1;  // these primitives have no clusters, no grids that overlap, no registers that move
    arch.overlapped_launch = false;
    arch.register_roles = false;
  }
  if (less.smem_bytes > 0) {
    arch.name += cat(kSeparator, kSmem, "=", size_text(less.smem_bytes));
    arch.smem_per_block_bytes = less.smem_bytes;
  }
  if (less.smem_sm_bytes > 0) {
    arch.name += cat(kSeparator, kSmemSm, "=", size_text(less.smem_sm_bytes));
    arch.smem_per_sm_bytes = less.smem_sm_bytes;
    arch.smem_per_block_bytes = std::min(arch.smem_per_block_bytes, less.smem_sm_bytes - base.smem_reserved_bytes);
  }
  if (less.facts != nullptr) arch.name += cat(kSeparator, kFacts, "=", less.facts->hash);
  return arch;
}

struct Made {
  support::Mutex mutex;
  std::map<std::string, std::unique_ptr<const Arch>, std::less<>> by_name;
};

Made& made() {
  static constinit support::Lasting<Made> all;
  return all.get();
}

const Arch& kept(Arch arch) {
  const std::lock_guard lock(made().mutex);
  std::unique_ptr<const Arch>& slot = made().by_name[arch.name];
  if (!slot) slot = std::make_unique<const Arch>(std::move(arch));
  return *slot;
}

}  // namespace

std::string_view name_before_options(std::string_view text) { return text.substr(0, text.find(kSeparator)); }

bool has_options(std::string_view text) { return text.find(kSeparator) != text.npos; }

std::string options_help() {
  return cat("options, each after a '", kSeparator, "', take away what others lack: ", kCopies,
             "=threads (no copy engine; family '", kThreadCopiesFamily, "'), ", kSmem, "=<bytes> or ", kSmem,
             "=<n>K (most shared memory of a block), ", kSmemSm, "=<n>K (of an SM), ", kCode, "=", kPtx,
             " (PTX, which drivers compile for later GPUs; family '", kPtxFamily, "')");
}

const Arch& with_options(std::string_view text, const Arch& base) {
  const Less less = read_options(text, base);
  const bool other =
      less.ptx || less.thread_copies || less.smem_bytes > 0 || less.smem_sm_bytes > 0 || less.facts != nullptr;
  return other ? kept(without(base, less)) : base;
}

const Arch* as_ptx(const Arch& arch) {
  if (!arch.ptx.empty()) return &arch;
  return arch.family == kPtxFamily ? &parse_arch(cat(arch.name, kSeparator, kCode, "=", kPtx)) : nullptr;
}

const Arch& capped(const Arch& arch, std::int64_t smem_bytes) {
  const std::int64_t bytes = std::max(smem_bytes / kSmemStep * kSmemStep, kKilobyte);
  return bytes < arch.smem_per_block_bytes ? parse_arch(cat(arch.name, kSeparator, kSmem, "=", bytes)) : arch;
}

const Arch* find_made(std::string_view name) {
  const std::lock_guard lock(made().mutex);
  const auto found = made().by_name.find(name);
  return found == made().by_name.end() ? nullptr : found->second.get();
}

}  // namespace tj::arch
