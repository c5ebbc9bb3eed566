// Protects the order of work on tensor memory. A loop of products, loads and stores as attention has it runs clean
// whatever the seed. Without any one of its waits, fences, commits and arrivals it is a fault at every seed.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/model_unit.hpp"
#include "model/primitive_texts.hpp"

namespace {

using tj::Code;
using tj::Error;
using tj::testing::contains;
using tj::testing::outcome_of;

struct Params {
  float* out;
  int count, which;
};

tj::testing::ModelUnit& unit() {
  static tj::testing::ModelUnit made(tj::testing::tensor_order_text(), "sm_100a");
  return made;
}

constexpr const char* kNothing = "nothing was thrown";

Error run(const char* symbol, int count, int which, std::vector<float>& out) {
  out.assign(128 * 32, -1.0f);
  return outcome_of([&] { unit().run(symbol, Params{out.data(), count, which}, 160, 1024 + 16384 + 4096); });
}

TEST_CASE("a loop over tensor memory runs clean at every seed") {
  std::vector<float> out;
  for (int count : {1, 2, 5})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      unit().options({seed, {}, 1, {}});
      CHECK(run("loop", count, 0, out).message == kNothing);
      int wrong = 0;
      for (float v : out) wrong += v != 32.0f * static_cast<float>(count);
      CHECK(wrong == 0);
    }
  unit().options({});
}

TEST_CASE("without any one of its waits, fences, commits and arrivals it is a fault at every seed") {
  struct Case {
    int site;
    const char* says;  ///< where it is no deadlock
  };
  std::vector<float> out;
  for (const Case& c : {Case{1, "a proxy_fence is missing"},
                        Case{2, ""},
                        Case{3, "columns 384-415"},
                        Case{4, "a tensor_after_sync is missing"},
                        Case{5, ""},
                        Case{6, "lanes 0-31"},
                        Case{7, "a tensor_after_sync is missing"},
                        Case{8, ""},
                        Case{9, "columns 384-415 of tensor memory, "},
                        Case{10, "a tensor_after_sync is missing"},
                        Case{11, "tensor_load_wait"},
                        Case{12, "a tensor_before_sync is missing after the tensor_load_wait"},
                        Case{13, "tensor_load_wait"},
                        Case{14, ""},
                        Case{15, "columns 416-4"},
                        Case{16, "a tensor_after_sync is missing"},
                        Case{17, "tensor_store_wait"},
                        Case{18, "a tensor_before_sync is missing after the tensor_store_wait"},
                        Case{19, ""},
                        Case{20, "columns 448-479 of tensor memory, where"},
                        Case{21, "a tensor_after_sync is missing"},
                        Case{22, ""}})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      CAPTURE(c.site);
      CAPTURE(seed);
      unit().options({seed, {c.site}, 1, {}});
      const Error e = run("loop", 4, 0, out);
      INFO(e.message);
      CHECK(e.stage == tj::Stage::model);
      CHECK((e.code == Code::deadlock || contains(e.message, c.says)));
    }
  unit().options({});
}

TEST_CASE("each rule by a kernel that breaks it") {
  struct Case {
    int which;
    const char* says;
    const char* and_says = "";
  };
  std::vector<float> out;
  for (const Case& c :
       {Case{0, "some of which nobody has written since their allocation"}, Case{1, "adds to lanes 0-127"},
        Case{2, "has issued a product on as sums lanes 0-127, columns 384-415"},
        Case{3, " issues a product whose sums are lanes 0-127, columns 384-447 of tensor memory, where warp 4, lane ",
             " has issued a product on as sums"},
        Case{4, "tensor_free of 128 columns from 384 on"}, Case{5, "a tensor_store_wait is missing between the two"},
        Case{6, "a tensor_load_wait is missing between the two"}, Case{7, kNothing},
        Case{8,
             "a tensor_before_sync is missing after the tensor_store_wait there and before the sync, in all lanes of "
             "the warp"},
        Case{9, "which warp 4, lane ", " had read by a matrix instruction"}, Case{10, kNothing}})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(c.which);
      unit().options({seed, {}, 1, {}});
      const Error e = run("rules", 1, c.which, out);
      INFO(e.message);
      CHECK(contains(e.message, c.says));
      CHECK(contains(e.message, c.and_says));
    }
  unit().options({});
}

}  // namespace
