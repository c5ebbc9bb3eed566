// Protects what is measured for chunk outputs: problems and their fields, their tensors and lists, the items that an
// arch can have, and that a measured choice is the kernel that calls of its sizes take.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "ops/chunk_o/chunk_o.hpp"
#include "ops/common/tunable.hpp"
#include "support/expect.hpp"

using namespace tj;
using testing::error_of;
using testing::has;

namespace {

using Flags = std::map<std::string, std::vector<std::string>>;

const ops::Tunable& tunable() { return ops::chunk_o_tunable(); }
std::string refusal(const Flags& flags) {
  return error_of([&] { tunable().problems(flags); }).message;
}
ops::Problem problem_of(const Flags& flags) { return tunable().problems(flags).front(); }
std::vector<std::string> items(const Flags& flags, const char* arch) {
  std::vector<std::string> list;
  for (const ops::Variant& variant : tunable().variants(problem_of(flags), *arch::find(arch)))
    list.push_back(variant.name);
  return list;
}
/// The problem's descriptor over made-up memory.
void with_args(const ops::Problem& problem, const std::function<void(const ChunkOArgs&)>& use) {
  std::vector<void*> places;
  for (std::size_t i = 0; i < tunable().operands(problem).size(); ++i)
    places.push_back(reinterpret_cast<void*>((i + 1) << 44));
  tunable().with_args(problem, {DeviceKind::cuda, 0}, places,
                      [&](const void* args) { use(*static_cast<const ChunkOArgs*>(args)); });
}

}  // namespace

TEST_CASE("a problem survives its fields, and its call is the same problem") {
  for (const char* variable : {"true", "false"})
    for (const char* v_heads : {"16", "32"}) {
      const ops::Problem problem = problem_of({{"tokens", {"4096"}},
                                               {"sequences", {"4"}},
                                               {"heads", {"8"}},
                                               {"v-heads", {v_heads}},
                                               {"variable", {variable}}});
      CAPTURE(problem.name);
      const auto again = tunable().problem_of(problem.fields);
      REQUIRE(again);
      CHECK(again->name == problem.name);
      CHECK(tunable().key_of(*again) == tunable().key_of(problem));
      with_args(problem, [&](const ChunkOArgs& args) {
        ops::chunk_o_op().validate(&args, false);
        CHECK(ops::chunk_o_op().problem_key(&args) == tunable().key_of(problem));
        CHECK(tunable().problem_of(&args).fields == problem.fields);
        ChunkOArgs limited = args;
        limited.max_sms = 100;
        CHECK_FALSE(ops::chunk_o_op().problem_key(&limited) == tunable().key_of(problem));
        CHECK(has(error_of([&] { tunable().problem_of(&limited); }).message, "max_sms is 100; allowed in tuning: 0"));
      });
    }
  ops::Problem other = problem_of({{"tokens", {"4096"}}});
  for (auto& [name, value] : other.fields)
    if (name == "sequences") value = "8192";
  CHECK_FALSE(tunable().problem_of(other.fields).has_value());
}

TEST_CASE("a record's problem names no item: that is what was chosen") {
  for (const char* heads : {"1", "2", "3"}) {
    const ops::Request request =
        ops::chunk_o_op().requests({{"head-ratio", {"6"}}, {"variable", {"true"}}, {"item-heads", {heads}}}).front();
    auto fields = request.fields;
    for (const auto& [size, value] :
         {std::pair{"heads", "4"}, {"v-heads", "24"}, {"tokens", "4096"}, {"sequences", "1"}})
      fields.emplace_back(size, value);
    CHECK_FALSE(tunable().problem_of(fields).has_value());
  }
}

TEST_CASE("lists name every chunk of sequences that come out as even as they can") {
  const ops::Problem problem = problem_of({{"tokens", {"200"}}, {"sequences", {"3"}}, {"gated", {"true"}}});
  std::vector<std::vector<std::int32_t>> lists;
  for (const ops::Operand& operand : tunable().operands(problem))
    if (operand.dtype == DType::i32) lists.push_back(operand.numbers);
  REQUIRE(lists.size() == 3);
  CHECK(lists[0] == std::vector<std::int32_t>{0, 66, 133, 200});
  CHECK(lists[1] == std::vector<std::int32_t>{0, 0, 0, 1, 1, 0, 1, 1, 2, 0, 2, 1});
  CHECK(lists[2] == std::vector<std::int32_t>{6});
}

TEST_CASE("the scheduler's item comes first, then those that the arch and the ratio can have") {
  CHECK(items({{"tokens", {"8192"}}, {"head-ratio", {"6"}}}, "sm_90a") ==
        std::vector<std::string>{"auto", "2", "3", "1"});
  CHECK(items({{"tokens", {"8192"}}, {"head-ratio", {"1"}}}, "sm_90a") == std::vector<std::string>{"auto", "1"});
  CHECK(items({{"tokens", {"8192"}}, {"head-ratio", {"6"}}}, "sm_100a") == std::vector<std::string>{"auto", "2", "1"});
  const ops::Problem problem = problem_of({{"tokens", {"8192"}}, {"head-ratio", {"6"}}});
  const arch::Arch& arch = *arch::find("sm_90a");
  for (const ops::Variant& variant : tunable().variants(problem, arch)) {
    const ops::Kernel kernel = ops::chunk_o_op().kernel_of(tunable().key_of(problem), variant.kernel.choice);
    CHECK(kernel == variant.kernel);
    const auto candidates = ops::chunk_o_op().candidates(ops::chunk_o_op().request_of(kernel), arch);
    if (variant.name == "auto")
      CHECK(kernel == ops::chunk_o_op().choose(tunable().key_of(problem), arch));
    else
      CHECK(std::to_string(candidates.front().geometry.as<ops::ChunkOLaunch>().heads) == variant.name);
  }
}

TEST_CASE("what is no problem is refused by flag, value and what is allowed") {
  CHECK(refusal({}) == "--tokens is missing; items of heads are measured for sizes");
  CHECK(has(refusal({{"tokens", {"64"}}, {"item-heads", {"1"}}}), "--item-heads is given; it is what is measured"));
  CHECK(
      has(refusal({{"tokens", {"64"}}, {"sequences", {"65"}}}), "--sequences is 65; allowed with --tokens 64: up to"));
  CHECK(has(refusal({{"tokens", {"64"}}, {"sequences", {"3"}}, {"variable", {"false"}}}),
            "--sequences is 3; allowed with --tokens 64: what divides them"));
  CHECK(has(refusal({{"tokens", {"64"}}, {"heads", {"4"}}, {"v-heads", {"6"}}}),
            "--v-heads is 6; allowed with --heads 4"));
  CHECK(has(refusal({{"tokens", {"64"}}, {"heads", {"4"}}, {"v-heads", {"8"}}, {"head-ratio", {"3"}}}),
            "--v-heads is 8; allowed with --heads 4 and --head-ratio 3"));
}
