// Facts of one arch that a user's file replaces: what was measured of the card at hand, in the place of what is
// shipped.
//
// Decides the format (src/arch/README.md), what is refused of a file, and its facts' hash. Does not measure
// (tools/calibrate.hpp) and does not decide who reads which file. Invariant: an arch with a file's facts bears their
// hash in its name, "sm_90a+facts=<16 digits>", so cache keys, manifests, measured choices and reports never mix those
// of two files. The same facts have one hash, whatever else their files say.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "arch/arch.hpp"

namespace tj::arch {

/// The facts of a file, kept as long as the process.
struct FactFile {
  std::string path;  ///< of the file that was read first with these facts
  std::string arch;  ///< without options
  std::string hash;  ///< 16 hexadecimal digits: of the arch's name and of each fact's name and value
  std::map<std::string, Fact> facts;
};

inline constexpr std::size_t kMostFactFileBytes = std::size_t{1} << 20;

/// The facts of a text. path: for messages, and for FactFile::path. from: who named the file, "TJ_FACTS". Throws
/// tj::Error(argument) that names from, path, key, value and what is allowed. Any thread may call it.
const FactFile& read_facts(std::string_view text, const std::string& path, std::string_view from);
/// The same of a file. Throws tj::Error(argument, not_found or io) where it cannot be read.
const FactFile& load_facts(const std::string& path, std::string_view from);
/// Facts with this hash that were read in this process; else null.
const FactFile* find_facts(std::string_view hash);

/// The arch with the file's facts; the arch itself where file is null, or where it has them already. Throws
/// tj::Error(target, invalid_argument) where the file is for another arch, or where the arch has another file's facts.
const Arch& with_facts(const Arch& arch, const FactFile* file);
/// Whether with_facts() would take it.
bool fits(const Arch& arch, const FactFile& file);
/// The name without its facts: "sm_90a+smem=99K" of "sm_90a+smem=99K+facts=0123456789abcdef".
std::string shipped_name(const Arch& arch);
/// The same of a target's name, whether its file has been read or not.
std::string shipped_name(std::string_view target);

/// The place that a fact comes from, as tools print it.
struct FactOrigin {
  std::string name;
  double value = 0;
  std::string kind;    ///< "file", or of those shipped: "measured", "document", "estimate", "guess"
  std::string source;  ///< the file and what it says, or the shipped source
};
/// All facts of the arch in the order of their names, and clock_ghz and sm_count where a file replaces them.
std::vector<FactOrigin> fact_origins(const Arch& arch);

}  // namespace tj::arch
