// Counts of a runtime: look-ups on disk, waits, compiles, entries that were written, evicted or rejected.
//
// Decides the meaning of each number. Invariant: numbers only grow while a runtime lives, but for those of devices,
// which say what is held now. Hot calls count nothing. A forked child goes on from its parent's numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilejit/export.hpp>

namespace tj {

/// Counts of one runtime since it was made. A kernel is looked up on disk when a call asks for it and the runtime has
/// it not in memory. Such a look-up is one of `hits` of a layer, or one of `misses`. A miss ends as one of `shared`,
/// `remote_hits`, `compiles`, `failed_compiles` or `refused`, or with a quick kernel (Options::on_miss). The best one
/// behind that is a compile or a failed one, or a hit where another process was faster. A kernel that a driver refuses
/// is compiled again without a miss.
struct Counters {
  /// A folder of the cache: of TJ_CACHE_DIR, in its order.
  struct Layer {
    std::string directory;
    std::uint64_t hits = 0;        ///< kernels that were found there
    std::uint64_t bytes_read = 0;  ///< of entries that were found whole, measured choices too
  };
  /// Entries that are there and were not used, each counted once by its path.
  struct Rejected {
    /// - "damaged": cut short, or its checksum does not match;
    /// - "version": of another version of the format;
    /// - "other_key": made for another key than its name says;
    /// - "untrusted": another user's, a link, or others can write it;
    /// - "unreadable": the system gave an error;
    /// - "fields": whole, and no kernel of this library;
    /// - "driver": the driver did not load it.
    std::string reason;
    std::uint64_t entries = 0;
  };
  /// A device that kernels were loaded on, and what the runtime holds there now.
  struct DeviceUse {
    std::string device;                      ///< "cuda:0"
    std::uint64_t kernels = 0;               ///< that are loaded
    std::uint64_t code_bytes = 0;            ///< of their binaries; a driver tells of no module how much it takes
    std::uint64_t workspace_bytes = 0;       ///< of the library's pool, free ones too, as the driver tells; else 0
    std::uint64_t workspace_used_bytes = 0;  ///< of these, what calls have now or had last
    std::uint64_t allocated_bytes = 0;       ///< by Runtime::allocate(), and not freed
  };
  std::vector<Layer> layers;
  std::vector<DeviceUse> devices;
  std::vector<Rejected> rejected;  ///< every reason, also those that did not occur
  std::uint64_t misses = 0;        ///< look-ups that found no kernel
  std::uint64_t alias_hits = 0;    ///< look-ups on disk that found what text the request has, and made none
  std::uint64_t alias_misses = 0;  ///< look-ups that did not, whose text was made again; the binary may be a hit
  /// Hits whose binaries come from packs, where another compiler made them than the one at hand
  /// (Options::pack_compiler).
  std::uint64_t other_compiler_hits = 0;
  std::uint64_t shared = 0;           ///< misses that another call, thread or process had made meanwhile
  std::uint64_t waits = 0;            ///< times that a call waited for another thread or process
  std::uint64_t compiles = 0;         ///< kernels made, without quick ones
  std::uint64_t failed_compiles = 0;  ///< kernels that could not be made
  std::uint64_t refused = 0;          ///< misses that Options::on_miss `error` refused
  std::uint64_t quick_kernels = 0;    ///< quick kernels that calls took (Options::on_miss `quick`), on each device
  std::uint64_t quick_replaced = 0;   ///< those in whose place the best one came; the others still serve
  std::uint64_t remote_hits = 0;      ///< misses whose kernel a remote store had (Options::remote)
  std::uint64_t remote_misses = 0;    ///< questions that it had no kernel for
  std::uint64_t remote_failures = 0;  ///< functions that failed or took too long
  std::uint64_t remote_rejected = 0;  ///< values that were not what was asked for, or not signed by a key
  std::uint64_t remote_skipped = 0;   ///< questions that were not asked, behind repeated failures
  std::uint64_t remote_puts = 0;      ///< values that it keeps
  std::uint64_t remote_bytes_read = 0, remote_bytes_written = 0;
  std::uint64_t loads = 0;    ///< kernels that a driver loaded
  std::uint64_t unloads = 0;  ///< kernels that Runtime::trim() or Options::code_max_size_bytes had unloaded
  std::uint64_t bytes_unloaded = 0;
  std::uint64_t stores = 0;         ///< entries written, measured choices too
  std::uint64_t alias_stores = 0;   ///< aliases written, beside these
  std::uint64_t failed_stores = 0;  ///< entries that could not be written
  std::uint64_t bytes_written = 0;
  std::uint64_t evictions = 0;  ///< entries removed to stay within TJ_CACHE_MAX_SIZE
  std::uint64_t bytes_evicted = 0;
  double wait_s = 0;  ///< seconds, summed over threads, as the others
  double schedule_s = 0, codegen_s = 0, compile_s = 0, load_s = 0;

  /// A JSON object with these names; `rejected` is an object of reasons.
  TJ_API std::string json() const;
  /// The same in Prometheus' text format, names beginning with "tilejit_". Pages of several runtimes must be told apart
  /// by labels of the scraper's.
  TJ_API std::string prometheus() const;
};

}  // namespace tj
