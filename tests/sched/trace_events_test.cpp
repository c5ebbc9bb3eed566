// Protects the document that traces of schedules and of timelines share: threads in their order, events as they were
// given, any text.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "sched/picture/trace_events.hpp"

using tj::sched::TraceEvents;

TEST_CASE("a document has names, the order of threads, events and what is known besides") {
  TraceEvents events;
  events.name_process(3, "block 0");
  events.name_thread(3, 7, "load");
  events.add({3, 7, "copy", "flight", 5, 20, {{"iteration", 1}}});
  events.add({3, 7, "copy", "", -5, 0, {}});
  const std::string text = events.document({{"ii", 9}});
  CHECK_MESSAGE(text.find("\n \"traceEvents\": [\n  {\n") != std::string::npos, "a line for each field: ", text);
  CHECK(text.back() == '\n');
  const auto document = nlohmann::json::parse(text);
  CHECK(document.at("otherData") == nlohmann::json{{"ii", 9}});
  const auto list = document.at("traceEvents");
  REQUIRE(list.size() == 5);
  CHECK(list[0] == nlohmann::json::parse(R"({"name": "process_name", "ph": "M", "pid": 3, "tid": 0,
                                             "args": {"name": "block 0"}})"));
  CHECK(list[1] == nlohmann::json::parse(R"({"name": "thread_name", "ph": "M", "pid": 3, "tid": 7,
                                             "args": {"name": "load"}})"));
  CHECK(list[2] == nlohmann::json::parse(R"({"name": "thread_sort_index", "ph": "M", "pid": 3, "tid": 7,
                                             "args": {"sort_index": 7}})"));
  CHECK(list[3] == nlohmann::json::parse(R"({"name": "copy", "cat": "flight", "ph": "X", "pid": 3, "tid": 7,
                                             "ts": 5, "dur": 20, "args": {"iteration": 1}})"));
  CHECK_MESSAGE(!list[4].contains("cat"), "a category that nobody gave");
  CHECK(list[4].at("ts") == -5);
}

TEST_CASE("text that is not UTF-8 is replaced; a second document begins empty") {
  TraceEvents events;
  events.name_process(1, "a\xff");
  CHECK(nlohmann::json::parse(events.document({{"graph", "\xfe"}})).at("traceEvents").size() == 1);
  CHECK(nlohmann::json::parse(events.document({})).at("traceEvents").empty());
}
