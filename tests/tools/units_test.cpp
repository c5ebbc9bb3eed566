// Protects the texts of all kernels across changes that must keep them: moves of files, other layouts of sources, new
// ways to build a graph. No compiler runs.
//
// data/units.txt has a line for each unit that tj-warm makes for each target: target, op, kernel and a hash. Some archs
// have lines for further forms of each op, too: layouts, epilogues, tiles, steps, rungs. The hash is of the unit's text
// without the lines that include the op's templates, of the names defined for its compiler, and of its launch. `model:`
// targets have no lines: their units are those of the arch.
//
// data/templates.txt has a line for each file of kernel_templates: a hash of its tokens and of what it includes outside
// ops/, a hash of the units that name it, their number, and its path. The path is not compared, so a file of ops/ may
// move.
//
// The names of all units are compared, and the hashes of every fourth; TJ_TEST_FULL=1 compares all. TJ_TEST_WRITE=1
// writes both files. TJ_TEST_DUMP=FOLDER writes the texts there, so that `diff -r` shows what differs between two
// commits.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "codegen/templates.hpp"
#include "ops/common/op_flags.hpp"
#include "ops/forms.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/op.hpp"
#include "pipeline.hpp"
#include "support/full.hpp"
#include "support/hash.hpp"
#include "support/pinned.hpp"
#include "support/tokens.hpp"
#include "tools/options.hpp"

using namespace tj;

namespace {

const std::string kUnits = "tests/tools/data/units.txt";
const std::string kTemplates = "tests/tools/data/templates.txt";
constexpr std::size_t kHashLetters = 12;

std::string letters(const support::FieldHash& hash) { return support::to_hex(hash.finish()).substr(0, kHashLetters); }

struct Wanted {
  const arch::Arch* arch = nullptr;
  const ops::Op* op = nullptr;
  ops::Request request;

  std::string name() const { return arch->name + " " + std::string(op->name()) + " " + request.name; }
};

/// All archs, and some with less than they have: copies by threads, less shared memory. Some kernels find no room
/// there.
std::vector<const arch::Arch*> targets() {
  std::vector<const arch::Arch*> list = arch::all();
  for (const char* name : {"sm_90+copies=threads", "sm_90+copies=threads+smem=99K", "sm_90a+smem=163K",
                           "sm_100a+smem=163K", "sm_120a+copies=threads", "sm_80+smem=64K"})
    list.push_back(&arch::parse_arch(name));
  return list;
}

/// One arch for each file of primitives: others of its kind differ in numbers alone.
bool has_further_forms(const arch::Arch& arch) {
  const std::set<std::string> names = {"sm_90a",  "sm_100",  "sm_100a", "sm_89",
                                       "gfx1100", "gfx1200", "gfx90a",  "gfx942"};
  return names.count(arch.name) != 0;
}

/// The forms that tests of costs look at, epilogues together, and values of flags that nobody gets by default.
std::vector<ops::Request> all_forms(const ops::Op& op, const arch::Arch& arch) {
  std::vector<ops::Request> list = testing::forms_of(op, arch);
  const auto more = [&](const ops::Flags& flags) {
    for (ops::Request& request : op.requests_for(flags, arch)) list.push_back(std::move(request));
  };
  if (op.name() == "fmha") more({{"general-scale", {"both"}}, {"causal", {"both"}}});
  if (op.name() == "chunk_o") more({{"head-ratio", {"1", "2", "3", "6"}}, {"item-heads", {"1"}}});
  if (op.name() != "gemm") return list;
  std::vector<std::string> wide, narrow;
  for (const ops::GemmTile& tile : ops::gemm_tiles())
    (tile.element_bytes == 2 ? wide : narrow).push_back(ops::gemm_tile_name(tile));
  for (const char* activation : {"relu", "silu"})
    more({{"dtype", {"bf16"}},
          {"tile", wide},
          {"a-major", {"m"}},
          {"b-major", {"n"}},
          {"bias", {"true"}},
          {"add-c", {"true"}},
          {"activation", {activation}},
          {"d-aligned", {"both"}}});
  more({{"dtype", {"e4m3"}},
        {"tile", narrow},
        {"out", {"f16"}},
        {"bias", {"true"}},
        {"add-c", {"true"}},
        {"activation", {"gelu"}},
        {"parts", {"both"}}});
  return list;
}

/// The kernels that the targets serve, each once.
std::vector<Wanted> wanted_units() {
  std::vector<Wanted> list;
  for (const arch::Arch* arch : targets())
    for (const ops::Op* op : ops::all()) {
      std::set<std::string> seen;
      for (ops::Request& request : has_further_forms(*arch) ? all_forms(*op, *arch) : op->requests_for({}, *arch))
        if (seen.insert(request.name).second && tools::serves(*op, request, *arch))
          list.push_back({arch, op, std::move(request)});
    }
  std::sort(list.begin(), list.end(), [](const Wanted& a, const Wanted& b) { return a.name() < b.name(); });
  return list;
}

struct Made {
  std::string hash;  ///< or "refused": the op serves the target, and its scheduler finds no room
  std::vector<std::string> includes;
  std::string error;
};

/// The text without the lines that name the op's templates.
std::string without_includes(std::string text, const std::vector<std::string>& includes) {
  for (const std::string& include : includes) {
    const std::string line = "#include \"" + include + "\"\n";
    const std::size_t place = text.find(line);
    if (place == text.npos) throw Error(Stage::codegen, Code::internal, "the text does not include " + include);
    text.erase(place, line.size());
  }
  return text;
}

void dump(const Wanted& wanted, const std::string& text) {
  const char* folder = std::getenv("TJ_TEST_DUMP");
  if (folder == nullptr) return;
  const std::filesystem::path place = std::filesystem::path(folder) / wanted.arch->file_name();
  std::filesystem::create_directories(place);
  std::ofstream(place / (wanted.request.name + ".cu")) << text;
}

Made made(const Wanted& wanted) {
  Made unit;
  try {
    const Choice choice = choose(*wanted.op, wanted.request, *wanted.arch);
    const codegen::Unit emitted = codegen::emit(choice.candidate.graph, choice.schedule, wanted.arch->primitives);
    unit.includes = choice.candidate.graph.includes;
    const std::string text = without_includes(emitted.text, unit.includes);
    dump(wanted, text);
    support::FieldHash hash;
    hash.field("text", text).field("symbol", emitted.shape.symbol);
    for (const std::string& definition : choice.candidate.definitions) hash.field("definition", definition);
    hash.field("threads", std::uint64_t{emitted.shape.threads}).field("cluster", std::uint64_t{emitted.shape.cluster});
    hash.field("blocks_per_sm", std::uint64_t{emitted.shape.blocks_per_sm})
        .field("smem_bytes", static_cast<std::uint64_t>(emitted.shape.smem_bytes));
    unit.hash = letters(hash);
  } catch (const Error& error) {
    if (error.code == Code::unsupported)
      unit.hash = "refused";
    else
      unit.error = wanted.name() + ": " + error.message;
  }
  return unit;
}

/// Makes the units at every step-th place; the others stay empty.
std::vector<Made> make_each(const std::vector<Wanted>& wanted, std::size_t step) {
  std::vector<Made> units(wanted.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = step * next++; i < wanted.size(); i = step * next++) units[i] = made(wanted[i]);
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return units;
}

/// A line for each file, its path last: it is not compared. users: the units that include a template, by its path.
std::vector<std::string> template_lines(const std::map<std::string, std::vector<std::string>>& users) {
  std::vector<std::string> lines;
  for (const codegen::TemplateFile& file : codegen::templates()) {
    const std::string path(file.name);
    support::FieldHash tokens, units;
    const testing::Tokens read = testing::tokens_of(file.text);
    for (const std::string& token : read.tokens) tokens.field("token", token);
    for (const std::string& include : read.includes)
      if (include.rfind("ops/", 0) != 0) tokens.field("include", include);
    const auto found = users.find(path);
    const std::size_t count = found == users.end() ? 0 : found->second.size();
    for (std::size_t i = 0; i < count; ++i) units.field("unit", found->second[i]);
    lines.push_back(letters(tokens) + " " + (count == 0 ? "-" : letters(units)) + " " + std::to_string(count) + " " +
                    path);
  }
  return lines;
}

std::string first_words(const std::string& line, int count) {
  std::size_t end = 0;
  for (int i = 0; i < count && end != line.npos; ++i) end = line.find(' ', end + (i > 0 ? 1 : 0));
  return line.substr(0, end);
}

/// Lines of one list that the other lacks, by their first words, each as often as it is missing.
std::string lacking(std::vector<std::string> in, const std::vector<std::string>& among, int words) {
  std::multiset<std::string> known;
  for (const std::string& line : among) known.insert(first_words(line, words));
  std::string list;
  for (const std::string& line : in) {
    const auto found = known.find(first_words(line, words));
    if (found == known.end())
      list += "\n  " + line;
    else
      known.erase(found);
  }
  return list;
}

void check_same(const std::string& file, const std::vector<std::string>& pinned, const std::vector<std::string>& now,
                int words) {
  const std::string gone = lacking(pinned, now, words), added = lacking(now, pinned, words);
  CHECK_MESSAGE((gone.empty() && added.empty()), file,
                ": if this is meant, run the test with TJ_TEST_WRITE=1 and say why in the commit.\nno longer so:", gone,
                "\nnow:", added);
}

constexpr std::size_t kSampleStep = 4;
constexpr int kWholeLine = 4;

}  // namespace

TEST_CASE("every unit's text, and the tokens of every template, are those that are pinned") {
  const bool all = testing::writes_pinned() || testing::full_run();
  const std::vector<Wanted> wanted = wanted_units();
  const std::vector<Made> units = make_each(wanted, all ? 1 : kSampleStep);
  const std::vector<std::string> pinned = testing::pinned_lines(kUnits);
  std::map<std::string, std::string> pinned_hashes;
  for (const std::string& line : pinned) pinned_hashes[first_words(line, 3)] = line;
  std::vector<std::string> lines;
  std::map<std::string, std::vector<std::string>> users;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string name = wanted[i].name();
    CHECK_MESSAGE(units[i].error.empty(), units[i].error);
    const bool is_made = !units[i].hash.empty();
    lines.push_back(is_made || pinned_hashes.count(name) == 0 ? name + " " + units[i].hash : pinned_hashes[name]);
    for (std::size_t at = 0; at < units[i].includes.size(); ++at)
      users[units[i].includes[at]].push_back(name + " " + std::to_string(at));
  }
  const std::vector<std::string> templates = template_lines(users);
  if (testing::writes_pinned()) {
    testing::write_pinned(kUnits, lines);
    testing::write_pinned(kTemplates, templates);
    return;
  }
  check_same(kUnits, pinned, lines, kWholeLine);
  check_same(kTemplates, testing::pinned_lines(kTemplates), templates, all ? 3 : 1);
}
