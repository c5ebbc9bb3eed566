// Facts about an architecture, as data.
//
// Decides units, rates, capacities, latencies and which template folder and compiler serve an arch. One data-only file
// per arch beside this; options.cpp makes more, with less in them. Invariant: no code outside this folder decides by an
// arch's name. Only the compilers' backends (src/compile) read its number, to know whether the compiler at hand is new
// enough for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tj::arch {

/// A functional unit: how many instances one SM has for reservation purposes.
struct Unit {
  std::string name;  ///< "TC", "EXP", "ALU", "TMA"
  int capacity = 1;
};

/// One number with its source: a public document or the command that measured it.
struct Fact {
  double value = 0;
  std::string source;
};

struct FactFile;  // fact_file.hpp

struct Arch {
  std::string
      name;  ///< "sm_90a"; with options in their order where it has less than another: "sm_90+copies=threads+smem=99K"
  std::string base = {};                   ///< then that other one's name; else empty
  std::string ptx = {};                    ///< "compute_120" where kernels are PTX, which drivers compile; else empty
  std::string vendor;                      ///< "nvidia", "amd"
  std::string family;                      ///< the node bodies that serve it, the suffix of kernel_templates/ops/:
                                           ///< "sm90"
  std::string primitives;                  ///< its file of kernel_templates/arch/, without the suffix: "sm90"
  std::string compiler;                    ///< "nvrtc", "hiprtc"
  int device_major = 0, device_minor = 0;  ///< compute capability that runs it
  std::vector<std::pair<int, int>> further_devices = {};  ///< other capabilities that its code is for, having no arch
                                                          ///< of their own
  std::vector<std::string> device_names = {};  ///< names of devices that run it, where they go by names (gcnArchName
                                               ///< without its features); no capability then
  std::vector<Unit> units;
  std::map<std::string, Fact> facts;     ///< rates per SM per cycle, latencies in cycles; names in arch/README.md
  const FactFile* facts_file = nullptr;  ///< whose facts stand among them, in the place of shipped ones; null: none do
  std::int64_t smem_per_block_bytes = 0;
  std::int64_t smem_per_sm_bytes = 0;                ///< shared memory of all blocks that run side by side on an SM
  std::int64_t smem_reserved_bytes = 0;              ///< bytes of it that each block takes beyond its own
  std::map<std::string, std::int64_t> memory_bytes;  ///< further spaces that a block has on chip: "TMEM"
  std::int64_t registers_per_sm = 0;
  int max_registers_per_thread = 255;
  int register_step = 8;           ///< granularity of per-role register counts
  bool register_roles = false;     ///< registers can move between roles at run time
  bool overlapped_launch = false;  ///< a grid can wait by itself for the grids before it in its stream
  double least_drawn_waves = 0;    ///< of unequal tiles, from which blocks that draw them end earlier; 0: not known
  bool shared_barriers = true;  ///< barriers in shared memory, for any of a block's warps; without, the only barrier is
                                ///< that of the whole block
  int max_cluster = 1;          ///< blocks that can always run together and reach each other's shared memory
  /// Groups of multiprocessors that clusters with neighbouring numbers go to in turn; 0: not known. L2 gives once what
  /// several multiprocessors of a group read at once.
  int cluster_groups = 0;
  int large_cluster_sms = 0;  ///< multiprocessors that clusters of more than two blocks reach on every such product; 0:
                              ///< not known. For predictions only
  int warp_size = 32;
  int warps_per_group = 4;  ///< warps that share one register count; 1 where registers never move
  int sm_count = 0;         ///< multiprocessors of the usual product, for predictions only
  double clock_ghz = 0;     ///< sustained, for predictions only

  /// The name for the arch's compiler: "sm_90", whatever the options, or "compute_90".
  const std::string& compiler_name() const { return !ptx.empty() ? ptx : base.empty() ? name : base; }
  /// The name as a part of a file's name: letters, digits, '_', '-' and '.' alone.
  std::string file_name() const;
  bool has_unit(std::string_view unit) const;
  bool has_fact(std::string_view fact_name) const;
  /// The fact's value; throws tj::Error(target, internal) naming arch and fact when absent.
  double fact(std::string_view name) const;
};

/// A place where code runs: an arch, on a device or on the CPU model.
struct Target {
  const Arch* arch = nullptr;
  bool model = false;
  std::string name() const { return (model ? "model:" : "") + arch->name; }
};

/// All archs without options, in a fixed order. Pointers stay valid for the life of the process.
const std::vector<const Arch*>& all();
/// Null when no listed arch has this name, nor an arch that parse_arch has made.
const Arch* find(std::string_view name);
/// The arch of a name, with options or without: "sm_90+copies=threads+smem=99K". Equal options in any order give one
/// arch, which lives as long as the process. Throws tj::Error(target, invalid_argument) that lists what is allowed. Any
/// thread may call it.
const Arch& parse_arch(std::string_view name);
/// Facts and node bodies that an op asks of an arch before it can be scheduled for it.
struct Needs {
  std::vector<std::string> units, facts;
  std::vector<std::string> families = {};  ///< families that there are node bodies for; empty: any
};
/// "node bodies for family 'sm100'", "unit 'TC', fact 'exp2_per_cycle'": what the arch lacks; empty when it has all.
/// An arch without node bodies is looked at no further.
std::string lacks(const Arch& arch, const Needs& needs);
/// Throws tj::Error(target, unsupported) when something is lacking. It names what lacks and the archs that have all,
/// first those of the same devices.
void require(const Arch& arch, std::string_view op, const Needs& needs);
/// Throws likewise for an op with node bodies of several kinds, each for its own families.
void require(const Arch& arch, std::string_view op, const std::vector<Needs>& kinds);
/// Would require() let it pass?
bool serves(const Arch& arch, const std::vector<Needs>& kinds);

/// The arch for a device's compute capability, the first in order where several are for it; null when none serves it.
const Arch* for_device(std::string_view vendor, int major, int minor);
/// The arch for a device that goes by a name, with its features or without: "gfx90a:sramecc+:xnack-".
const Arch* for_device(std::string_view vendor, std::string_view device_name);
/// "7.5 is older than 8.0, ...": why for_device finds none, and which compute capabilities are served.
std::string why_unserved(std::string_view vendor, int major, int minor);
/// "gfx906 is not known to this version, ...": the same for names.
std::string why_unserved(std::string_view vendor, std::string_view device_name);
/// Whether devices that run the one run the other: sm_90 and sm_90a. Archs whose kernels are PTX are apart: more
/// devices run them.
bool same_devices(const Arch& one, const Arch& other);
/// Whether devices that `device` serves run kernels of the arch: the same devices, or PTX for them or older ones.
bool runs_on(const Arch& arch, const Arch& device);
/// The arch with PTX in the place of binaries, "sm_100+code=ptx"; null where its kernels have instructions of one
/// generation alone.
const Arch* as_ptx(const Arch& arch);
/// The arch whose PTX serves a device newer than those that are known: the first of the latest generation that is not
/// newer. smem_bytes: shared memory that the device gives a block. Null where there is none.
const Arch* for_newer_device(std::string_view vendor, int major, int minor, std::int64_t smem_bytes);
/// "sm_90a" or "model:sm_90a", either with options (parse_arch). Throws tj::Error(target) that lists what is allowed.
Target parse_target(std::string_view text);

}  // namespace tj::arch
