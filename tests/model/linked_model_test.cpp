// Protects the model with links by hand-made work: equal seeds give equal orders, memory of works is freed, and reports
// name the right work, once.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/link_order.hpp"
#include "model/linked.hpp"
#include "model/model_unit.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace {

using namespace tj;
using model::LinkOrder;
using testing::has;

constexpr unsigned kHangs_s = 60;

Stream stream_of(char& name) { return {&name}; }

TEST_CASE("a run ends that frees scratch memory of its works, and so does one behind it") {
  CHECK(testing::wait_for(testing::start_child([] {
          ::alarm(kHangs_s);
          char name = 0;
          const auto model = model::open_linked_model();
          for (int n = 0; n < 2; ++n) {
            void* const memory = model->scratch(0, 64, stream_of(name)).get();
            model->zero(0, memory, 64, stream_of(name));
            model->run();
          }
          static_cast<void>(model->scratch(0, 64, stream_of(name)));
          model->begin(1);
          return 0;
        })) == 0);
}

TEST_CASE("a copy of no rows does nothing") {
  CHECK(testing::wait_for(testing::start_child([] {
          char name = 0;
          const auto model = model::open_linked_model();
          launch::RowsToCopy none;
          none.rows = 0;
          none.row_bytes = 16;
          model->copy_rows(0, none, stream_of(name));
          model->run();
          return 0;
        })) == 0);
}

/// Steps at whose ends the works of each rank's queue were done. The ranks enqueue one behind the other.
std::vector<std::vector<std::uint64_t>> ends_of(model::Linked& model, std::uint64_t seed, bool last_rank_first) {
  constexpr int kRanks = 3, kWorks = 12;
  std::vector<char> names(kRanks);
  std::vector<std::vector<std::byte>> bytes(kRanks, std::vector<std::byte>(64));
  model.begin(seed);
  for (int n = 0; n < kRanks; ++n) {
    const int rank = last_rank_first ? kRanks - 1 - n : n;
    const auto place = static_cast<std::size_t>(rank);
    const Stream stream = stream_of(names[place]);
    model.announce(0, {rank, "has works", 0, -1}, stream);
    for (int work = 0; work < kWorks; ++work) model.zero(0, bytes[place].data(), bytes[place].size(), stream);
  }
  model.run();
  std::vector<std::vector<std::uint64_t>> ends(kRanks);
  for (const model::LinkWork& work : model.works())
    for (int rank = 0; rank < kRanks; ++rank)
      if (work.queue.starts_with("rank " + std::to_string(rank)))
        ends[static_cast<std::size_t>(rank)].push_back(work.ended);
  return ends;
}

TEST_CASE("one seed gives one order of events, whichever rank was the first to enqueue") {
  const auto model = model::open_linked_model();
  const auto first = ends_of(*model, 1, false);
  REQUIRE(first[2].size() == 12);
  CHECK(first[0][0] <= 36);
  int orders = 0;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    CAPTURE(seed);
    const auto ends = ends_of(*model, seed, false);
    CHECK((ends_of(*model, seed, true) == ends));
    orders += ends != first;
  }
  CHECK(orders > 8);
}

TEST_CASE("the report of a queue without a rank says its name once") {
  char one = 0, other = 0;
  std::vector<std::byte> bytes(64);
  const auto model = model::open_linked_model();
  for (char* each : {&one, &other}) model->zero(0, bytes.data(), bytes.size(), stream_of(*each));
  const std::string message = testing::error_of([&] { model->run(); }).message;
  CHECK_MESSAGE(has(message, "queue 0, zeroing of 64 bytes (work 0)"), message);
  CHECK_MESSAGE(has(message, "queue 1, zeroing of 64 bytes (work 0)"), message);
  CHECK_MESSAGE(!has(message, "bytes: queue"), message);
}

TEST_CASE("the first work of a run is not taken for the last one of the run before") {
  LinkOrder order;
  const std::uint32_t word = 0;
  order.use_word({0, {1}, "the work before", false, 0}, &word, true);
  order.settle();
  order.use_word({0, {1}, "the first work", false, 0}, &word, true);
  const std::string message =
      testing::error_of([&] { order.use_word({1, {0, 1}, "another work", false, 0}, &word, false); }).message;
  CHECK_MESSAGE(has(message, "which the first work has stored"), message);
}

struct Params {
  std::uint32_t* words;
};
constexpr const char* kUnit = R"(
#include "arch/nvidia_peers.cuh"
struct Params { unsigned* words; };
TJ_KERNEL(waits, 32, Params, p) {
  if (thread_index() == 0)
    while (load_system(p.words + block_index()) == 0) rest();
}
TJ_NOTES(waits, R"notes({"name": "waits", "sites": []})notes"
                "\n")
)";

TEST_CASE("a launch is called by what was announced of it alone, and a deadlock tells each block's own words") {
  char name = 0;
  const auto model = model::open_linked_model();
  const auto kernel = model->load(0, testing::compile_model_unit(kUnit), "waits", 0);
  const std::shared_ptr<void> memory = model->allocate(0, 2 * sizeof(std::uint32_t));
  auto* const words = static_cast<std::uint32_t*>(memory.get());
  const auto launch = [&] {
    const Params params{words};
    model->launch(0, *kernel, {{2, 1, 1}, {.threads = 32, .cluster = 2}}, &params, sizeof(params), stream_of(name));
  };
  model->announce(0, {0, "was never made", 0, -1}, stream_of(name));
  model->run();
  words[0] = words[1] = 1;
  launch();
  model->run();
  CHECK(model->works().back().text == "launch of waits");
  words[0] = words[1] = 0;
  launch();
  const Error error = testing::error_of([&] { model->run(); });
  CHECK(error.code == Code::deadlock);
  CHECK_MESSAGE(has(error.log, "lane 0 has loaded 0 from byte 0 of allocation 1"), error.log);
  CHECK_MESSAGE(has(error.log, "lane 0 has loaded 0 from byte 4 of allocation 1"), error.log);
  CHECK_MESSAGE(!has(error.log, "of allocation 1 0 from"), error.log);
}

}  // namespace
