// See tunings.hpp.
#include "tuning/tunings.hpp"

#include <algorithm>
#include <chrono>

#include "ops/common/graph_choice.hpp"
#include "support/fail.hpp"
#include "support/lasting.hpp"
#include "support/process_end.hpp"
#include "support/text.hpp"
#include "support/uncancelled.hpp"

namespace tj {
namespace {

using support::cat;

constexpr const char* kKind = "tuning";
constexpr std::string_view kFieldPrefix = "field.";
constexpr std::int64_t kClockStepNs =
    100'000'000;  // two changes within one tick of a file system's clock look like one

cache::Key key_of(const TunedMachine& machine, const ops::Op& op, const cache::Fields& problem) {
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

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

cache::Key tuning_key(const TunedMachine& machine, const ops::Op& op, const ops::Problem& problem) {
  return key_of(machine, op, problem.fields);
}

cache::Entry tuning_entry(const TunedMachine& machine, const ops::Op& op, const ops::Problem& problem,
                          const std::string& choice, double measured_us) {
  cache::Entry entry;
  entry.metadata = {{"name", problem.name},         {"target", machine.arch_of(op).name}, {"kind", kKind},
                    {"op", std::string(op.name())}, {"device", machine.device},           {"choice", choice}};
  if (!machine.driver.empty()) entry.metadata.emplace_back("driver", machine.driver);
  if (measured_us > 0) entry.metadata.emplace_back("measured_us", cat(measured_us));
  for (const auto& [name, value] : problem.fields) entry.metadata.emplace_back(cat(kFieldPrefix, name), value);
  return entry;
}

std::optional<NamedTuning> read_tuning(const cache::Key& key, const cache::Entry& entry, const TunedMachine& machine,
                                       std::string& problem) {
  const ops::Op* op = ops::find_tuned(text(entry, "op"));
  const ops::Tunable* tunable = op != nullptr ? op->tunable() : nullptr;
  if (tunable == nullptr) {
    problem = cat("it is about '", text(entry, "op"), "', an op without a choice");
    return std::nullopt;
  }
  cache::Fields fields;
  for (const auto& [name, value] : entry.metadata)
    if (std::string_view(name).starts_with(kFieldPrefix)) fields.emplace_back(name.substr(kFieldPrefix.size()), value);
  auto named = tunable->problem_of(fields);
  if (!named || key_of(machine, *op, fields).request_hex != key.request_hex) {
    problem = "its fields are not those of its name";
    return std::nullopt;
  }
  const std::string* driver = entry.find("driver");
  if (driver != nullptr && !machine.driver.empty() && *driver != machine.driver) {
    problem = cat("it was measured under the driver of '", support::shown(*driver), "', and this is that of '",
                  machine.driver, "'");
    return std::nullopt;
  }
  const arch::Arch& arch = machine.arch_of(*op);
  if (!op->serves(arch)) {
    problem = cat("'", arch.name, "' has no kernel of ", op->name());
    return std::nullopt;
  }
  for (const ops::Variant& variant : tunable->variants(*named, arch))
    if (variant.name == text(entry, "choice"))
      return NamedTuning{{op, tunable->key_of(*named), variant.kernel.choice}, std::move(*named), variant.name};
  problem = cat("'", text(entry, "choice"), "' does not serve ", named->name);
  return std::nullopt;
}

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
  asked_ = std::vector<std::atomic<bool>>(size);
}

const Tuned* TunedTable::place_of(const ops::Op& op, const ops::ProblemKey& key) const noexcept {
  if (slots_.empty()) return nullptr;
  for (std::size_t i = key.hash();; ++i) {
    const Tuned& slot = slots_[i & (slots_.size() - 1)];
    if (slot.op == nullptr) return nullptr;
    if (slot.op == &op && slot.key == key) return &slot;
  }
}

int TunedTable::find(const ops::Op& op, const ops::ProblemKey& key) const noexcept {
  const Tuned* found = place_of(op, key);
  return found != nullptr ? found->choice : kNotTuned;
}

bool TunedTable::first_ask(const ops::Op& op, const ops::ProblemKey& key) const noexcept {
  const Tuned* found = place_of(op, key);
  if (found == nullptr) return false;
  std::atomic<bool>& asked = asked_[static_cast<std::size_t>(found - slots_.data())];
  return !asked.load(std::memory_order_relaxed) && !asked.exchange(true);
}

bool Tunings::served(Device device) const noexcept {
  return device.kind != DeviceKind::cpu && device.index >= 0 && static_cast<std::size_t>(device.index) < kDevices;
}

std::size_t Tunings::place_of(Device device) noexcept {
  return static_cast<std::size_t>(device.index) + (device.kind == DeviceKind::hip ? kDevices : 0);
}

ops::Kernel Tunings::kernel_of(const ops::Op& op, const ops::ProblemKey& problem, Device device,
                               const arch::Arch& arch) {
  if (!used_ || op.tunable() == nullptr) return op.choose(problem, arch);
  const TunedTable& known = table(device);
  const int tuned = known.find(op, problem);
  if (tuned == kNotTuned) return op.choose(problem, arch);
  if (asked_ && known.first_ask(op, problem)) [[unlikely]]
    tell(device, op, problem);
  return op.kernel_of(problem, tuned);
}

void Tunings::tell(Device device, const ops::Op& op, const ops::ProblemKey& problem) {
  const support::Uncancelled whole;
  const TunedMachine machine = this->machine(device);
  NamedTuning told;
  {
    const std::lock_guard lock(mutex_);
    for (const NamedTuning& each : known_[place_of(device)].named)
      if (each.tuned.op == &op && each.tuned.key == problem) told = each;  // the later one of a problem
  }
  if (told.tuned.op != nullptr) asked_(machine, op, told.problem, told.choice);
}

void Tunings::refresh(Device device) {
  if (used_ && served(device)) load(device);
}

const TunedTable& Tunings::no_choices() {
  static constinit support::Lasting<const TunedTable> none;
  return none.get([] { return TunedTable({}); });
}

const TunedTable& Tunings::table(Device device) {
  if (!served(device)) return no_choices();
  const TunedTable* known = known_[place_of(device)].table.load(std::memory_order_acquire);
  return known != nullptr ? *known : load(device);
}

const TunedTable& Tunings::load(Device device) {
  const support::Uncancelled whole;
  const TunedMachine machine = this->machine(device);
  const support::HeldTurn turn(reading_);
  Known& known = known_[place_of(device)];
  const TunedTable* present = known.table.load(std::memory_order_acquire);
  if (turn.is_again()) return present != nullptr ? *present : no_choices();  // a log sink asks while records are read
  const std::int64_t changed_ns = store_ != nullptr ? store_->changed_ns() : 0;
  if (present != nullptr && known.changed_ns == changed_ns) return *present;
  const std::int64_t known_ns = now_ns() - changed_ns < kClockStepNs ? -1 : changed_ns;
  std::vector<NamedTuning> list = read_whole(machine);
  const std::lock_guard lock(mutex_);
  known.changed_ns = known_ns;
  return publish(known, std::move(list));
}

/// Publishes a new table. The caller holds the lock.
const TunedTable& Tunings::publish(Known& known, std::vector<NamedTuning> list) {
  list.insert(list.end(), known.own.begin(), known.own.end());
  std::vector<Tuned> choices;
  for (const NamedTuning& each : list) choices.push_back(each.tuned);
  if (asked_) known.named = std::move(list);
  auto made = std::make_unique<TunedTable>(choices);
  if (!known.tables.empty() && *known.tables.back() == *made) return *known.tables.back();
  known.tables.push_back(std::move(made));
  known.version.fetch_add(1, std::memory_order_release);
  known.table.store(known.tables.back().get(), std::memory_order_release);
  return *known.tables.back();
}

std::vector<NamedTuning> Tunings::read(const TunedMachine& machine) {
  std::vector<NamedTuning> list;
  if (store_ == nullptr) return list;
  const std::string half = key_of(machine, *ops::all().front(), {}).compiler_hex;
  for (const auto& [key, entry] : store_->load_all(half)) {
    std::string problem;
    if (auto tuned = read_tuning(key, entry, machine, problem))
      list.push_back(std::move(*tuned));
    else if (first_report(key))
      log_(LogLevel::warn, cat("kernel cache: the tuning record ", key.request_hex, " is not used: ", problem,
                               "; tj-warm --tune replaces it"));
  }
  if (!list.empty()) log_(LogLevel::debug, cat(list.size(), " measured choices for ", machine.device));
  return list;
}

/// A log sink that measures something meanwhile keeps a record that the list may lack.
std::vector<NamedTuning> Tunings::read_whole(const TunedMachine& machine) {
  for (;;) {
    const std::uint64_t before = kept_;
    std::vector<NamedTuning> list = read(machine);
    if (kept_ == before) return list;
  }
}

bool Tunings::first_report(const cache::Key& key) {
  const std::lock_guard lock(mutex_);
  return reported_.insert(key.request_hex).second;
}

bool Tunings::keep(Device device, const ops::Op& op, const ops::Problem& problem, const ops::Variant& chosen,
                   double measured_us) {
  const support::Uncancelled whole;
  const TunedMachine machine = this->machine(device);
  const bool kept = store_ != nullptr && store_->store(tuning_key(machine, op, problem),
                                                       tuning_entry(machine, op, problem, chosen.name, measured_us));
  if (asked_) asked_(machine, op, problem, chosen.name);
  if (!served(device)) return kept;
  const support::HeldTurn turn(reading_);
  std::vector<NamedTuning> list = read_whole(machine);
  const std::lock_guard lock(mutex_);
  ++kept_;
  Known& known = known_[place_of(device)];
  const Tuned tuned{&op, op.tunable()->key_of(problem), chosen.kernel.choice};
  std::erase_if(known.own, [&](const NamedTuning& own) { return own.tuned.op == &op && own.tuned.key == tuned.key; });
  if (!kept) known.own.push_back({tuned, problem, chosen.name});  // others may tune again what is on disk
  publish(known, std::move(list));
  return kept;
}

std::string tuning_of(const cache::Entry& entry) {
  if (text(entry, "kind") != kKind) return {};
  return cat(text(entry, "name"), " on ", text(entry, "device"), ": ", text(entry, "choice"));
}

}  // namespace tj
