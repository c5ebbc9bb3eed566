// Protects the table of a kernel's fields: what a request, a name, a hot key, a command line and a Config say of a
// field comes from its row, and is read back as the same kernel.
#include <doctest/doctest.h>

#include <array>
#include <string>

#include "ops/chunk_o/fields.hpp"
#include "ops/common/fields.hpp"
#include "ops/fmha/fields.hpp"
#include "support/expect.hpp"

using namespace tj;
using ops::Constant;
using ops::Field;
using testing::error_of;
using testing::has;

namespace {

struct Toy {
  unsigned type = 0, width = 0, mask = 0, rung = 0;
  bool operator==(const Toy&) const = default;
};

constexpr const char* kTypes[] = {"f16", "bf16"};
constexpr const char* kWidths[] = {"64", "128", "256"};
constexpr const char* kRungs[] = {"none", "v1"};
constexpr const char* kRungNumbers[] = {"0", "1"};

constexpr std::array<Field<Toy>, 4> kFields = {{{.name = "dtype",
                                                 .get = [](const Toy& toy) { return toy.type; },
                                                 .set = [](Toy& toy, unsigned value) { toy.type = value; },
                                                 .words = ops::words<kTypes>,
                                                 .bits = 1,
                                                 .flags = {"f16", "bf16"},
                                                 .defaults = 2,
                                                 .tag = "_%",
                                                 .constant = "Element",
                                                 .kind = Constant::element},
                                                {.name = "width",
                                                 .get = [](const Toy& toy) { return toy.width; },
                                                 .set = [](Toy& toy, unsigned value) { toy.width = value; },
                                                 .words = ops::words<kWidths>,
                                                 .bits = 2,
                                                 .flags = {"128", "64", "256", "widest"},
                                                 .set_other = [](Toy& toy) { toy.width = 2; },
                                                 .other = "widest",
                                                 .tag = "_d%",
                                                 .tag_place = 1,
                                                 .constant = "kWidth",
                                                 .kind = Constant::integer},
                                                {.name = "causal",
                                                 .get = [](const Toy& toy) { return toy.mask; },
                                                 .set = [](Toy& toy, unsigned value) { toy.mask = value; },
                                                 .words = ops::words<ops::kTruth>,
                                                 .bits = 1,
                                                 .flags = {"both", "true", "false"},
                                                 .tag = "_causal",
                                                 .tagged = [](const Toy& toy) { return toy.mask != 0; },
                                                 .constant = "kCausal",
                                                 .kind = Constant::boolean},
                                                {.name = "rung",
                                                 .get = [](const Toy& toy) { return toy.rung; },
                                                 .set = [](Toy& toy, unsigned value) { toy.rung = value; },
                                                 .words = ops::words<kRungs>,
                                                 .also = ops::words<kRungNumbers>,
                                                 .bits = 1,
                                                 .more_flags = [] { return std::vector<std::string>{"none", "v1"}; },
                                                 .tag = "_%",
                                                 .tagged = [](const Toy& toy) { return toy.rung != 0; },
                                                 .optional = true,
                                                 .tag_place = 1,
                                                 .constant = "kRung",
                                                 .kind = Constant::place}}};

/// A table's words have room in the hot key, and what it offers on a command line is read.
template <const auto& kTable, class Kernel>
void check_table(const char* op) {
  CAPTURE(op);
  for (const Field<Kernel>& field : kTable) {
    CAPTURE(field.name);
    const ops::Words words = field.words();
    CHECK(words.size() <= std::size_t{1} << field.bits);
    for (unsigned place = 0; place < words.size(); ++place) {
      Kernel kernel;
      field.set(kernel, place);
      CHECK(field.get(kernel) == place);
      CHECK(field.get(ops::kernel_of_key<kTable, Kernel>(ops::key_of_fields<kTable>(kernel))) == place);
      CHECK(std::string(ops::word_of(field, kernel)) == words[place]);
    }
  }
  for (const ops::FlagChoice& choice : ops::choices_of_fields<kTable>())
    for (const std::string& word : choice.allowed) {
      CAPTURE(choice.name);
      CHECK(!ops::kernels_of_flags<kTable, Kernel>(op, {{choice.name, {word}}}, ops::choices_of_fields<kTable>())
                 .empty());
    }
}

}  // namespace

TEST_CASE("the tables of ops: each word has room in the hot key, and is read back") {
  check_table<ops::kFmhaFields, ops::FmhaKernel>("fmha");
  check_table<ops::kChunkOFields, ops::ChunkOKernel>("chunk_o");
}

TEST_CASE("every kernel has a name, a key and a request of its own, and is read back from it") {
  std::vector<std::string> names;
  std::vector<std::uint64_t> keys;
  for (unsigned type = 0; type < 2; ++type)
    for (unsigned width = 0; width < 3; ++width)
      for (unsigned mask = 0; mask < 2; ++mask)
        for (unsigned rung = 0; rung < 2; ++rung) {
          const Toy toy{type, width, mask, rung};
          const ops::Request request = ops::request_of_fields<kFields>("toy", toy);
          CHECK(ops::kernel_of_fields<kFields, Toy>(request) == toy);
          CHECK(std::find(names.begin(), names.end(), request.name) == names.end());
          names.push_back(request.name);
          const std::uint64_t key = ops::key_of_fields<kFields>(toy);
          CHECK(ops::kernel_of_key<kFields, Toy>(key) == toy);
          CHECK(std::find(keys.begin(), keys.end(), key) == keys.end());
          keys.push_back(key);
        }
}

TEST_CASE(
    "a name says what is not usual, in the order of its tags; an optional field is in a request where the name says "
    "it") {
  const ops::Request plain = ops::request_of_fields<kFields>("toy", Toy{});
  CHECK(plain.op == "toy");
  CHECK(plain.name == "toy_f16_d64");
  CHECK(plain.fields.size() == 3);
  const ops::Request full = ops::request_of_fields<kFields>("toy", Toy{1, 2, 1, 1});
  CHECK(full.name == "toy_bf16_causal_d256_v1");
  CHECK(full.fields == std::vector<std::pair<std::string, std::string>>{
                           {"dtype", "bf16"}, {"width", "256"}, {"causal", "true"}, {"rung", "v1"}});
  CHECK(ops::flags_of_fields<kFields>(Toy{1, 2, 1, 1}) == "--dtype bf16 --width 256 --causal true --rung v1");
}

TEST_CASE("what a command line offers comes in the order in which defaults are wanted") {
  const std::vector<ops::FlagChoice> choices = ops::choices_of_fields<kFields>();
  REQUIRE(choices.size() == 4);
  CHECK(choices[1].allowed == std::vector<std::string>{"128", "64", "256", "widest"});
  CHECK(choices[0].defaults == 2);
  CHECK(choices[3].allowed == std::vector<std::string>{"none", "v1"});
}

TEST_CASE("a word of the command line alone sets a field, and is none of a request's") {
  Toy toy;
  ops::set_flag<kFields>("toy", toy, "width", "widest");
  ops::set_flag<kFields>("toy", toy, "dtype", "bf16");
  CHECK(toy == Toy{1, 2, 0, 0});
  const Error word = error_of([&] { ops::set_field<kFields>("toy", toy, "width", "widest"); });
  CHECK_MESSAGE(has(word.message, "width is 'widest'; allowed are 64, 128, 256"), word.message);
}

TEST_CASE("a kernel without one of its fields has neither its tag, nor its field, nor its flag") {
  const Toy toy{1, 2, 1, 0};
  const ops::Request request = ops::request_of_fields<kFields>("toy", toy, "width");
  CHECK(request.name == "toy_bf16_causal");
  CHECK(request.fields == std::vector<std::pair<std::string, std::string>>{{"dtype", "bf16"}, {"causal", "true"}});
  CHECK(ops::flags_of_fields<kFields>(toy, "width") == "--dtype bf16 --causal true");
}

TEST_CASE("a Config has a line for each field that asks for one") {
  graph::Graph graph;
  ops::add_constants<kFields>("toy", Toy{1, 1, 1, 1}, graph);
  CHECK(graph.config == std::vector<std::pair<std::string, std::string>>{{"using Element", "tj::dev::Bf16"},
                                                                         {"static constexpr int kWidth", "128"},
                                                                         {"static constexpr bool kCausal", "true"},
                                                                         {"static constexpr int kRung", "1"}});
  graph::Graph some;
  ops::add_constants<kFields>("toy", Toy{1, 1, 0, 1}, some, {"causal", "width"});
  CHECK(some.config == std::vector<std::pair<std::string, std::string>>{{"static constexpr bool kCausal", "false"},
                                                                        {"static constexpr int kWidth", "128"}});
}

TEST_CASE("a value may have a further spelling, which is read and never written") {
  Toy toy;
  ops::set_field<kFields>("toy", toy, "rung", "1");
  CHECK(toy.rung == 1);
  CHECK(ops::request_of_fields<kFields>("toy", toy).name == "toy_f16_d64_v1");
}

TEST_CASE("a command line makes every combination of its words") {
  const std::vector<Toy> toys = ops::kernels_of_flags<kFields, Toy>("toy", {{"width", {"256"}}, {"causal", {"both"}}},
                                                                    ops::choices_of_fields<kFields>());
  CHECK(toys == std::vector<Toy>{{0, 2, 0, 0}, {0, 2, 1, 0}, {1, 2, 0, 0}, {1, 2, 1, 0}});
}

TEST_CASE("a word that is none of a field's, and a value without a word, are refused by field and value") {
  Toy toy;
  const Error word = error_of([&] { ops::set_field<kFields>("toy", toy, "width", "96"); });
  CHECK_MESSAGE(has(word.message, "toy: width is '96'; allowed are 64, 128, 256"), word.message);
  const Error value = error_of([] { ops::request_of_fields<kFields>("toy", Toy{0, 3, 0, 0}); });
  CHECK(value.code == Code::internal);
  CHECK_MESSAGE(has(value.message, "'width'"), value.message);
}
