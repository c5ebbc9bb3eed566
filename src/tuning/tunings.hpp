// Choices that were measured on a device: read from the cache's records, looked up by hot calls.
//
// Decides how a record is written, what of it is believed and when records are read. They are read once for a device,
// and again by prepare() when the cache's directory has changed. Does not measure (tune.hpp). Without a record the op's
// own choice stands. Invariant: a look-up takes no lock, allocates nothing and does no I/O; a table, once published,
// never changes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arch/arch.hpp"
#include "cache/cache.hpp"
#include "ops/common/tunable.hpp"
#include "support/fork_safe.hpp"
#include "support/log.hpp"

namespace tj {

/// The machine that measured: a record holds for the same machine and driver only.
struct TunedMachine {
  const arch::Arch* arch = nullptr;
  std::string device;  ///< as its driver names it
  int sm_count = 0;
  std::string driver = {};  ///< "CUDA 13.0"; empty: not known
  /// Ops that the arch does not serve, each with the arch of the same devices that does.
  std::vector<std::pair<const ops::Op*, const arch::Arch*>> others = {};

  const arch::Arch& arch_of(const ops::Op& op) const {
    for (const auto& [other, its] : others)
      if (other == &op) return *its;
    return *arch;
  }
};

/// The measured choice of a problem.
struct Tuned {
  const ops::Op* op = nullptr;
  ops::ProblemKey key;
  int choice = 0;
  friend bool operator==(const Tuned&, const Tuned&) = default;
};

/// The same in words, as a record has it.
struct NamedTuning {
  Tuned tuned;
  ops::Problem problem;
  std::string choice;
};

/// The key of a machine's record of a problem. Its second half is that of all records of the machine, under whichever
/// driver: that of another one is seen, told of and replaced.
cache::Key tuning_key(const TunedMachine& machine, const ops::Op& op, const ops::Problem& problem);
/// The record. measured_us 0: not known, and left out.
cache::Entry tuning_entry(const TunedMachine& machine, const ops::Op& op, const ops::Problem& problem,
                          const std::string& choice, double measured_us);
/// What the record of this key says; empty, and why, when it is not one of this library for this machine.
std::optional<NamedTuning> read_tuning(const cache::Key& key, const cache::Entry& entry, const TunedMachine& machine,
                                       std::string& problem);

inline constexpr int kNotTuned = -1;

class TunedTable {
 public:
  explicit TunedTable(const std::vector<Tuned>& list);
  /// kNotTuned when nothing was measured.
  int find(const ops::Op& op, const ops::ProblemKey& key) const noexcept;
  /// True for the first that asks so about a problem that is here.
  bool first_ask(const ops::Op& op, const ops::ProblemKey& key) const noexcept;
  bool empty() const noexcept { return slots_.empty(); }
  friend bool operator==(const TunedTable& one, const TunedTable& other) { return one.slots_ == other.slots_; }

 private:
  const Tuned* place_of(const ops::Op& op, const ops::ProblemKey& key) const noexcept;
  std::vector<Tuned> slots_;                      ///< a power of two, at most half full; empty when there is nothing
  mutable std::vector<std::atomic<bool>> asked_;  ///< of each slot
};

class Tunings {
 public:
  /// Told of a measured choice when it is first taken, or measured.
  using Asked = std::function<void(const TunedMachine& machine, const ops::Op& op, const ops::Problem& problem,
                                   const std::string& choice)>;
  /// store: null keeps what is measured in memory only; store and log outlive this. machine_of: which machine a device
  /// is; it may throw tj::Error. used: false leaves every choice to the op. asked: empty when nobody wants to know.
  Tunings(cache::Store* store, const support::Log& log, std::function<TunedMachine(Device)> machine_of, bool used,
          Asked asked = {})
      : store_(store), log_(log), machine_of_(std::move(machine_of)), used_(used), asked_(std::move(asked)) {}

  /// The kernel that serves a problem: by the choice that was measured, else by the op's own for this arch. The first
  /// look-up on a device reads its records.
  ops::Kernel kernel_of(const ops::Op& op, const ops::ProblemKey& problem, Device device, const arch::Arch& arch);
  /// Notices records of other runtimes and processes; other devices than GPUs have none.
  void refresh(Device device);

  /// Another number whenever other choices hold on the device.
  std::uint64_t version(Device device) const noexcept {
    return served(device) ? known_[place_of(device)].version.load(std::memory_order_acquire) : 0;
  }

  TunedMachine machine(Device device) const { return machine_of_(device); }
  /// Makes `chosen` the problem's choice on this device from now on. False when the record could not be written
  /// (already logged).
  bool keep(Device device, const ops::Op& op, const ops::Problem& problem, const ops::Variant& chosen,
            double measured_us);

 private:
  static constexpr std::size_t kDevices = 64;  ///< of each kind
  struct Known {
    std::atomic<const TunedTable*> table{nullptr};
    std::atomic<std::uint64_t> version{0};            ///< counts tables that differ from the one before
    std::int64_t changed_ns = -1;                     ///< of the directory, when it was read
    std::vector<NamedTuning> own;                     ///< measured by this runtime
    std::vector<NamedTuning> named;                   ///< what the table has, where somebody is told of it
    std::vector<std::unique_ptr<TunedTable>> tables;  ///< superseded ones too: a hot call may still read one
  };
  bool served(Device device) const noexcept;
  /// The table of a device that is served has this place: CUDA's devices come first, then HIP's.
  static std::size_t place_of(Device device) noexcept;
  static const TunedTable& no_choices();
  const TunedTable& table(Device device);
  const TunedTable& load(Device device);
  std::vector<NamedTuning> read(const TunedMachine& machine);
  std::vector<NamedTuning> read_whole(const TunedMachine& machine);
  bool first_report(const cache::Key& key);
  const TunedTable& publish(Known& known, std::vector<NamedTuning> list);
  void tell(Device device, const ops::Op& op, const ops::ProblemKey& problem);

  cache::Store* store_;
  const support::Log& log_;
  std::function<TunedMachine(Device)> machine_of_;
  bool used_;
  Asked asked_;
  support::Turn reading_;           ///< who reads records, and logs what is wrong with them
  std::uint64_t kept_ = 0;          ///< choices that were measured; of who has that turn
  support::Mutex mutex_;            ///< of what is below
  std::set<std::string> reported_;  ///< records that were said to be of no use
  std::array<Known, 2 * kDevices> known_;
};

/// The text of a record, for listings: "gemm_f16_kk 4096x4096x4096 on NVIDIA H200: 128x256x64"; empty for other
/// entries.
std::string tuning_of(const cache::Entry& entry);

}  // namespace tj
