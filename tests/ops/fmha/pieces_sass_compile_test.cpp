// Protects what ptxas makes of attention by pieces of keys. Nothing spills. In the main loop's machine code a product
// keeps the side of other pieces' nodes that the schedule gives it; exponentials that the schedule puts beside a
// product stand among its instructions; and another legal order gives other code. Skips itself without NVRTC or
// nvdisasm.
//
// A power belongs to the piece whose product takes its weight, and a product to the piece by how many were added to its
// sums before. Both follow from the registers. ptxas is that of CUDA 13.0. It orders exponentials of two pieces as it
// likes (src/ops/fmha/README.md, "Pieces of keys").
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/device_kernel.hpp"
#include "codegen/disassembled.hpp"
#include "ops/fmha/pieces.hpp"
#include "support/full.hpp"

using namespace tj;

namespace {

struct Instruction {
  std::string name;
  std::vector<int> registers;  ///< the operands' first ones, in their order; -1: another operand
  std::string target;          ///< of a branch
};

struct Code {
  std::vector<Instruction> instructions;
  std::map<std::string, std::size_t> labels;
};

std::vector<int> registers_of(const std::string& operands) {
  std::vector<int> list;
  for (std::size_t at = 0; at < operands.size();) {
    const std::size_t end = std::min(operands.find(',', at), operands.size());
    const std::string operand = operands.substr(at, end - at);
    const std::size_t place = operand.find_first_not_of(" -|");
    const bool is_register = place + 1 < operand.size() && operand[place] == 'R' &&
                             std::isdigit(static_cast<unsigned char>(operand[place + 1])) != 0;
    list.push_back(is_register ? std::stoi(operand.substr(place + 1)) : -1);
    at = end + 1;
  }
  return list;
}

/// "        /*0370*/               @P0 BRA `(.L_x_2) ;" and ".L_x_2:".
Code code_of(const std::string& sass) {
  Code code;
  for (std::size_t at = 0; at < sass.size();) {
    const std::size_t end = std::min(sass.find('\n', at), sass.size());
    std::string line = sass.substr(at, end - at);
    at = end + 1;
    if (line.starts_with(".L_") && line.ends_with(":")) {
      code.labels[line.substr(0, line.size() - 1)] = code.instructions.size();
      continue;
    }
    const std::size_t address = line.find("*/"), semicolon = line.find(';');
    if (!line.starts_with(" ") || address == std::string::npos || semicolon == std::string::npos) continue;
    line = line.substr(address + 2, semicolon - address - 2);
    line.erase(0, line.find_first_not_of(' '));
    if (line.starts_with("@")) line.erase(0, line.find_first_not_of(' ', line.find(' ')));
    const std::size_t space = std::min(line.find(' '), line.size());
    Instruction one{line.substr(0, space), registers_of(line.substr(space)), ""};
    if (const std::size_t label = line.find("`("); one.name == "BRA" && label != std::string::npos)
      one.target = line.substr(label + 2, line.find(')') - label - 2);
    code.instructions.push_back(std::move(one));
  }
  return code;
}

std::vector<Instruction> between(const Code& code, std::size_t first, std::size_t last) {
  const auto at = [&](std::size_t i) { return code.instructions.begin() + static_cast<std::ptrdiff_t>(i); };
  return {at(first), at(last + 1)};
}
long products_of(const std::vector<Instruction>& list) {
  return std::count_if(list.begin(), list.end(), [](const Instruction& i) { return i.name.starts_with("HMMA"); });
}

/// The shortest loop with so many products.
std::vector<Instruction> loop_of(const Code& code, long products) {
  std::vector<Instruction> shortest;
  for (std::size_t i = 0; i < code.instructions.size(); ++i) {
    const auto label = code.labels.find(code.instructions[i].target);
    if (label == code.labels.end() || label->second >= i) continue;
    std::vector<Instruction> loop = between(code, label->second, i);
    if (products_of(loop) == products && (shortest.empty() || loop.size() < shortest.size()))
      shortest = std::move(loop);
  }
  return shortest;
}

/// The places of a node's instructions in the loop: powers, or products.
using Places = std::map<std::pair<bool, int>, std::vector<int>>;  // by {weighs, piece}

/// The instruction that wrote a register last.
struct Written {
  enum By { other, power, rounding } by = other;
  std::vector<int> powers;  ///< of a rounding, their places
};

/// blocks: of sixteen keys, in a piece.
Places places_of(const std::vector<Instruction>& loop, int blocks) {
  Places places;
  std::map<int, Written> written;
  std::map<int, int> added;  // products with values, to sums that begin with a register
  for (std::size_t at = 0; at < loop.size(); ++at) {
    const auto& [name, registers, target] = loop[at];
    const int place = static_cast<int>(at), to = registers.empty() ? -1 : registers[0];
    if (name.starts_with("HMMA")) {
      REQUIRE(registers.size() >= 4);
      std::vector<int> powers;
      bool weights = true;
      for (int word = 0; word < 4; ++word) {
        const Written& of = written[registers[1] + word];
        weights = weights && of.by == Written::rounding;
        powers.insert(powers.end(), of.powers.begin(), of.powers.end());
      }
      if (!weights) continue;
      const int piece = added[registers[3]]++ / blocks;
      if (to != registers[3]) added[to] = added[registers[3]];
      places[{false, piece}].push_back(place);
      std::vector<int>& of_piece = places[{true, piece}];
      for (const int power : powers)
        if (std::find(of_piece.begin(), of_piece.end(), power) == of_piece.end()) of_piece.push_back(power);
      continue;
    }
    if (to < 0 || name.starts_with("ST")) continue;
    Written by;
    if (name.starts_with("MUFU.EX2")) by = {Written::power, {place}};
    if (name.starts_with("F2F")) {
      by.by = Written::rounding;
      for (std::size_t source = 1; source < registers.size(); ++source)
        if (const Written& of = written[registers[source]]; of.by == Written::power)
          by.powers.insert(by.powers.end(), of.powers.begin(), of.powers.end());
    }
    for (int word = 0; word < (name.starts_with("LDSM") ? 4 : 1); ++word) written[to + word] = by;
  }
  return places;
}

double middle(const std::vector<int>& places) {
  double sum = 0;
  for (const int place : places) sum += place;
  return sum / static_cast<double>(places.size());
}

/// Does the code keep what the schedule says of each two nodes of pieces?
void check_order(const Choice& choice, Places& places) {
  const auto name = [](const test::PieceNode& node) {
    return (node.weighs ? "weigh_" : "pv_") + std::to_string(node.piece);
  };
  for (const test::PieceNode& a : test::nodes_of_pieces(choice))
    for (const test::PieceNode& b : test::nodes_of_pieces(choice)) {
      const std::vector<int>&first = places[{a.weighs, a.piece}], &second = places[{b.weighs, b.piece}];
      CAPTURE(name(a));
      CAPTURE(name(b));
      REQUIRE(!first.empty());
      if (a.end <= b.begin && !(a.weighs && b.weighs)) CHECK(middle(first) < middle(second));
      // A product, and exponentials that begin beside it.
      if (a.weighs || !b.weighs || b.begin < a.begin || b.begin >= a.end) continue;
      CHECK(*std::min_element(second.begin(), second.end()) < *std::max_element(first.begin(), first.end()));
      CHECK(*std::min_element(first.begin(), first.end()) < *std::max_element(second.begin(), second.end()));
    }
}

struct Compiled {
  std::string sass;
  Places places;
};

Compiled compiled(compile::Compiler& compiler, const std::string& tool, const Choice& choice, const arch::Arch& arch,
                  const ops::FmhaKernel& kernel) {
  compile::Job job;
  job.name = choice.candidate.graph.name + ".cu";
  job.text = codegen::emit(choice.candidate.graph, choice.schedule, arch.primitives).text;
  job.arch = arch.base.empty() ? arch.name : arch.base;
  job.headers = headers_for({&arch, false});
  const compile::Binary binary = compiler.compile(job);
  CHECK(binary.spill_bytes == 0);
  CHECK(binary.warnings.empty());
  const auto launch = choice.candidate.geometry.as<ops::FmhaLaunch>();
  const int warps = choice.schedule.roles[0].warps;
  // Of a warp, with 16 x 8 sums and 16 of depth each.
  const long products =
      static_cast<long>(launch.rows_per_block) / warps / 16 * launch.block_n / 8 * kernel.head_dim / 16;
  Compiled made;
  made.sass = test::disassembled(tool, binary.bytes);
  for (const char* local : {" STL", " LDL"}) CHECK(test::count(made.sass, local) == 0);
  made.places = places_of(loop_of(code_of(made.sass), 2 * products), kernel.pieces / 16);
  long found = 0;
  for (const auto& [node, places] : made.places)
    if (!node.first) found += static_cast<long>(places.size());
  CHECK(found == products);
  std::printf("%-44s II %4d, %5.0f ms, %d registers\n", choice.candidate.graph.name.c_str(), choice.schedule.ii,
              binary.milliseconds, binary.registers);
  return made;
}

}  // namespace

TEST_CASE("pieces of 16 and of 32 keys: no spill, the schedule's order, and another one where it has another") {
  const auto compiler = test::nvrtc_or_skip();
  const std::string tool = test::disassembler_or_skip();
  const struct {
    const char* target;
    DType dtype;
    int head_dim;
    bool causal;
    int pieces;
  } rows[] = {
      {"sm_90", DType::f16, 64, false, 16},  {"sm_90", DType::bf16, 128, false, 16},
      {"sm_90", DType::f16, 128, true, 32},  {"sm_90+smem=99K", DType::bf16, 64, true, 32},
      {"sm_80", DType::bf16, 64, true, 16},  {"sm_80", DType::f16, 128, false, 16},
      {"sm_86", DType::f16, 128, true, 16},  {"sm_89", DType::bf16, 64, false, 32},
      {"sm_89", DType::f16, 128, false, 32},
  };
  int place = 0;
  for (const auto& row : rows) {
    if (testing::sampled_out(place++)) continue;
    CAPTURE(row.target);
    CAPTURE(row.head_dim);
    CAPTURE(row.pieces);
    ops::FmhaKernel kernel;
    kernel.dtype = row.dtype, kernel.head_dim = row.head_dim, kernel.causal = row.causal, kernel.pieces = row.pieces;
    const arch::Arch& arch = arch::parse_arch(row.target);
    const Choice choice = test::choice_of(kernel, arch), moved = test::all_weights_first(choice);
    Compiled usual = compiled(*compiler, tool, choice, arch, kernel),
             other = compiled(*compiler, tool, moved, arch, kernel);
    check_order(choice, usual.places);
    check_order(moved, other.places);
    CHECK(test::order_of_pieces(moved) != test::order_of_pieces(choice));
    CHECK(usual.places != other.places);
  }
}
