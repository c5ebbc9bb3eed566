// See tunings.hpp.
#include "tuning/tunings.hpp"

#include <algorithm>
#include <chrono>

#include "support/fail.hpp"
#include "support/lasting.hpp"
#include "support/uncancelled.hpp"

namespace tj {
namespace {

using support::cat;

constexpr const char* kKind = "tuning";
constexpr std::string_view kFieldPrefix = "field.";
constexpr std::int64_t kClockStepNs =
    100'000'000;  // two changes within one tick of a file system's clock look like one

cache::Key key_of(const TunedMachine& machine, const ops::Op& op,
                  const std::vector<std::pair<std::string, std::string>>& problem) {
  cache::Fields request = {{"kind", kKind}, {"op", std::string(op.name())}};
  for (const auto& [name, value] : problem) request.emplace_back(cat(kFieldPrefix, name), value);
  return cache::make_key(request, {{"kind", kKind},
                                   {"arch", machine.arch->name},
                                   {"device", machine.device},
                                   {"sm_count", cat(machine.sm_count)},
                                   {"build", build_id()}});
}

const std::string& text(const cache::Entry& entry, std::string_view name) {
  static constinit support::Lasting<const std::string> none;
  const std::string* found = entry.find(name);
  return found != nullptr ? *found : none.get();
}

/// Empty, and why, when the record is not one of this library for this machine.
std::optional<Tuned> believe(const cache::Key& key, const cache::Entry& entry, const TunedMachine& machine,
                             std::string& problem) {
  const ops::Op* op = ops::find(text(entry, "op"));
  const ops::Tunable* tunable = op != nullptr ? op->tunable() : nullptr;
  if (tunable == nullptr) {
    problem = cat("it is about '", text(entry, "op"), "', an op without a choice");
    return std::nullopt;
  }
  std::vector<std::pair<std::string, std::string>> fields;
  for (const auto& [name, value] : entry.metadata)
    if (std::string_view(name).starts_with(kFieldPrefix)) fields.emplace_back(name.substr(kFieldPrefix.size()), value);
  const auto named = tunable->problem_of(fields);
  if (!named || key_of(machine, *op, fields).request_hex != key.request_hex) {
    problem = "its fields are not those of its name";
    return std::nullopt;
  }
  const arch::Arch& arch = machine.arch_of(*op);
  if (!op->serves(arch)) {
    problem = cat("'", arch.name, "' has no kernel of ", op->name());
    return std::nullopt;
  }
  for (const ops::Variant& variant : tunable->variants(*named, arch))
    if (variant.name == text(entry, "choice")) return Tuned{op, tunable->key_of(*named), variant.kernel.choice};
  problem = cat("'", text(entry, "choice"), "' does not serve ", named->name);
  return std::nullopt;
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

TunedTable::TunedTable(const std::vector<Tuned>& list) {
  if (list.empty()) return;
  std::size_t size = 16;
  while (size < 2 * list.size()) size *= 2;
  slots_.resize(size);
  for (const Tuned& tuned : list) {
    std::size_t i = tuned.key.hash();
    while (slots_[i & (size - 1)].op != nullptr &&
           !(slots_[i & (size - 1)].op == tuned.op && slots_[i & (size - 1)].key == tuned.key))
      ++i;
    slots_[i & (size - 1)] = tuned;  // the later one of a problem
  }
}

int TunedTable::find(const ops::Op& op, const ops::ProblemKey& key) const noexcept {
  if (slots_.empty()) return kNotTuned;
  for (std::size_t i = key.hash();; ++i) {
    const Tuned& slot = slots_[i & (slots_.size() - 1)];
    if (slot.op == nullptr) return kNotTuned;
    if (slot.op == &op && slot.key == key) return slot.choice;
  }
}

bool Tunings::served(Device device) const noexcept {
  return device.kind == DeviceKind::cuda && device.index >= 0 && static_cast<std::size_t>(device.index) < kDevices;
}

ops::Kernel Tunings::kernel_of(const ops::Op& op, const ops::ProblemKey& problem, Device device,
                               const arch::Arch& arch) {
  const int tuned = used_ && op.tunable() != nullptr ? table(device).find(op, problem) : kNotTuned;
  return tuned != kNotTuned ? op.kernel_of(problem, tuned) : op.choose(problem, arch);
}

void Tunings::refresh(Device device) {
  if (used_ && served(device)) load(device);
}

const TunedTable& Tunings::table(Device device) {
  static constinit support::Lasting<const TunedTable> none;
  if (!served(device)) return none.get([] { return TunedTable({}); });
  const TunedTable* known = known_[static_cast<std::size_t>(device.index)].table.load(std::memory_order_acquire);
  return known != nullptr ? *known : load(device);
}

const TunedTable& Tunings::load(Device device) {
  const support::Uncancelled whole;
  const TunedMachine machine = this->machine(device);
  const std::lock_guard turn(reading_);
  Known& known = known_[static_cast<std::size_t>(device.index)];
  const std::int64_t changed_ns = store_ != nullptr ? store_->changed_ns() : 0;
  const TunedTable* present = known.table.load(std::memory_order_acquire);
  if (present != nullptr && known.changed_ns == changed_ns) return *present;
  const std::int64_t known_ns = now_ns() - changed_ns < kClockStepNs ? -1 : changed_ns;
  std::vector<Tuned> list = read(machine);
  const std::lock_guard lock(mutex_);
  known.changed_ns = known_ns;
  return publish(known, std::move(list));
}

/// Publishes a new table. The caller holds the lock.
const TunedTable& Tunings::publish(Known& known, std::vector<Tuned> list) {
  list.insert(list.end(), known.own.begin(), known.own.end());
  auto made = std::make_unique<TunedTable>(list);
  if (!known.tables.empty() && *known.tables.back() == *made) return *known.tables.back();
  known.tables.push_back(std::move(made));
  known.version.fetch_add(1, std::memory_order_release);
  known.table.store(known.tables.back().get(), std::memory_order_release);
  return *known.tables.back();
}

std::vector<Tuned> Tunings::read(const TunedMachine& machine) {
  std::vector<Tuned> list;
  if (store_ == nullptr) return list;
  const std::string half = key_of(machine, *ops::all().front(), {}).compiler_hex;
  for (const auto& [key, entry] : store_->load_all(half)) {
    std::string problem;
    if (const auto tuned = believe(key, entry, machine, problem))
      list.push_back(*tuned);
    else if (first_report(key))
      log_(LogLevel::warn, cat("kernel cache: the tuning record ", key.request_hex, " is not used: ", problem,
                               "; tj-warm --tune replaces it"));
  }
  if (!list.empty()) log_(LogLevel::debug, cat(list.size(), " measured choices for ", machine.device));
  return list;
}

bool Tunings::first_report(const cache::Key& key) {
  const std::lock_guard lock(mutex_);
  return reported_.insert(key.request_hex).second;
}

bool Tunings::keep(Device device, const ops::Op& op, const ops::Problem& problem, const ops::Variant& chosen,
                   double measured_us) {
  const support::Uncancelled whole;
  const TunedMachine machine = this->machine(device);
  cache::Entry entry;
  entry.metadata = {{"name", problem.name},           {"target", machine.arch_of(op).name}, {"kind", kKind},
                    {"op", std::string(op.name())},   {"device", machine.device},           {"choice", chosen.name},
                    {"measured_us", cat(measured_us)}};
  for (const auto& [name, value] : problem.fields) entry.metadata.emplace_back(cat(kFieldPrefix, name), value);
  const bool kept = store_ != nullptr && store_->store(key_of(machine, op, problem.fields), entry);
  if (!served(device)) return kept;
  const std::lock_guard turn(reading_);
  std::vector<Tuned> list = read(machine);
  const std::lock_guard lock(mutex_);
  Known& known = known_[static_cast<std::size_t>(device.index)];
  const Tuned tuned{&op, op.tunable()->key_of(problem), chosen.kernel.choice};
  std::erase_if(known.own, [&](const Tuned& own) { return own.op == tuned.op && own.key == tuned.key; });
  if (!kept) known.own.push_back(tuned);  // others may tune again what is on disk
  publish(known, std::move(list));
  return kept;
}

std::string tuning_of(const cache::Entry& entry) {
  if (text(entry, "kind") != kKind) return {};
  return cat(text(entry, "name"), " on ", text(entry, "device"), ": ", text(entry, "choice"));
}

}  // namespace tj
