// Protects: a code object's metadata is read as it is written, and damaged or foreign bytes are refused without a read
// outside of them.
#include <doctest/doctest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/code_object.hpp"
#include "support/made_code_object.hpp"

namespace {

using nlohmann::json;
using tj::support::read_code_object;
using tj::testing::kMetadataOwner;
using tj::testing::note;
using tj::testing::object_with_notes;

std::string object_with_metadata(const json& map) {
  const std::vector<std::uint8_t> packed = json::to_msgpack(map);
  return object_with_notes(note("GNU", 3, "12345") +
                           note(kMetadataOwner, 32, std::string(packed.begin(), packed.end())));
}

json kernel() {
  return {{".name", "some_kernel"},
          {".symbol", "some_kernel.kd"},
          {".vgpr_count", 180},
          {".agpr_count", 4},
          {".sgpr_count", 40},
          {".vgpr_spill_count", 3},
          {".sgpr_spill_count", 2},
          {".max_flat_workgroup_size", 128},
          {".wavefront_size", 32},
          {".private_segment_fixed_size", 16},
          {".group_segment_fixed_size", 16384},
          {".kernarg_segment_size", 352},
          {".uses_dynamic_stack", true},
          {".workgroup_processor_mode", 1},
          {".args",
           {{{".offset", 0}, {".size", 90}, {".value_kind", "by_value"}},
            {{".offset", 96}, {".size", 4}, {".value_kind", "hidden_block_count_x"}}}}};
}

TEST_CASE("metadata that is nested too deep is damaged, however deep that is") {
  const auto nested = [](std::size_t depth) {
    json map = {{"amdhsa.target", "amdgcn-amd-amdhsa--gfx90a"}, {"amdhsa.kernels", {kernel()}}};
    const std::vector<std::uint8_t> packed = json::to_msgpack(map);
    std::string text(packed.begin(), packed.end());
    text[0] = static_cast<char>(0x83);  // a map of three
    text +=
        "\xa1"
        "x" +
        std::string(depth, '\x91') + '\x01';
    std::string problem;
    const auto object = read_code_object(object_with_notes(note(kMetadataOwner, 32, text)), &problem);
    CHECK(object.has_value() == problem.empty());
    return problem;
  };
  CHECK(nested(20).empty());
  CHECK(nested(100) == "its metadata note is damaged");
  CHECK(nested(30'000'000) == "its metadata note is damaged");  // was a stack that overflows
}

TEST_CASE("every number of a kernel is read, among other notes and sections") {
  const auto object =
      read_code_object(object_with_metadata({{"amdhsa.target", "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"},
                                             {"amdhsa.version", {1, 2}},
                                             {"amdhsa.kernels", {kernel()}}}));
  REQUIRE(object.has_value());
  CHECK(object->processor == "gfx90a");
  CHECK(object->features == "sramecc+:xnack-");
  REQUIRE(object->kernels.size() == 1);
  const tj::support::CodeObjectKernel& read = object->kernels[0];
  CHECK(read.name == "some_kernel");
  CHECK(read.vgprs == 180);
  CHECK(read.agprs == 4);
  CHECK(read.sgprs == 40);
  CHECK(read.vgpr_spills == 3);
  CHECK(read.sgpr_spills == 2);
  CHECK(read.max_threads == 128);
  CHECK(read.wave == 32);
  CHECK(read.scratch_bytes == 16);
  CHECK(read.lds_bytes == 16384);
  CHECK(read.kernarg_bytes == 352);
  CHECK(read.params_bytes == 90);
  CHECK(read.hidden_arguments);
  CHECK(read.dynamic_stack);
  CHECK(read.two_units);
}

TEST_CASE("what a compiler leaves out or writes in another form is no error") {
  json other = kernel();
  other.erase(".agpr_count");
  other[".workgroup_processor_mode"] = false;
  other[".args"] = {{{".size", 8}, {".value_kind", "global_buffer"}}, {{".size", 8}, {".value_kind", "global_buffer"}}};
  other[".name"] = 7;
  const auto object = read_code_object(object_with_metadata(
      {{"amdhsa.target", "amdgcn-amd-amdhsa--gfx1100"}, {"amdhsa.kernels", {other, 3, kernel()}}}));
  REQUIRE(object.has_value());
  CHECK(object->processor == "gfx1100");
  CHECK(object->features == "");
  REQUIRE(object->kernels.size() == 2);
  CHECK(object->kernels[0].name == "");
  CHECK(object->kernels[0].agprs == 0);
  CHECK_FALSE(object->kernels[0].two_units);
  CHECK(object->kernels[0].params_bytes == 0);  // two arguments
  CHECK_FALSE(object->kernels[0].hidden_arguments);
  REQUIRE(read_code_object(object_with_metadata(json::object())).has_value());
  CHECK(read_code_object(object_with_metadata(json::object()))->kernels.empty());
}

TEST_CASE("foreign and damaged bytes are refused with a reason") {
  const auto problem_of = [](const std::string& bytes) {
    std::string problem;
    CHECK_FALSE(read_code_object(bytes, &problem).has_value());
    return problem;
  };
  CHECK(problem_of("").find("no ELF file") != std::string::npos);
  CHECK(problem_of(std::string(100, 'x')).find("no ELF file") != std::string::npos);
  std::string nvidia = object_with_metadata({{"amdhsa.kernels", {kernel()}}});
  nvidia[18] = static_cast<char>(190);  // EM_CUDA
  CHECK(problem_of(nvidia).find("no ELF file") != std::string::npos);
  std::string wider = object_with_metadata({{"amdhsa.kernels", {kernel()}}});
  wider[58] = static_cast<char>(wider[58] + 8);  // e_shentsize
  CHECK(problem_of(wider).find("section headers are of another size") != std::string::npos);
  CHECK(problem_of(object_with_notes(note("GNU", 3, "12345"))).find("no metadata") != std::string::npos);
  CHECK(problem_of(object_with_notes(note(kMetadataOwner, 32, "\xc1 is no message"))).find("damaged") !=
        std::string::npos);
  CHECK_FALSE(read_code_object("").has_value());  // and nobody asks why
}

TEST_CASE("cut off or changed anywhere, an object is read within its bytes or refused") {
  const std::string whole =
      object_with_metadata({{"amdhsa.target", "amdgcn-amd-amdhsa--gfx1100"}, {"amdhsa.kernels", {kernel()}}});
  for (std::size_t size = 0; size < whole.size(); ++size) read_code_object(std::string(whole, 0, size));
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ change);
      read_code_object(changed);
    }
  CHECK(read_code_object(whole).has_value());
}

}  // namespace
