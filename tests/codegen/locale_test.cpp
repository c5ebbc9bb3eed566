// Protects: a program's locale changes no text of the library. Numbers in a kernel's source, in graphs and in schedules
// are C's, also where the program has asked all of C++ for another way to write them.
#include <doctest/doctest.h>

#include <locale>
#include <string>
#include <vector>

#include "arch/arch.hpp"
#include "codegen/emit.hpp"
#include "graph/graph.hpp"
#include "ops/op.hpp"
#include "pipeline.hpp"
#include "sched/schedule.hpp"
#include "support/fail.hpp"

namespace {

/// 1.234.567,5 and words for booleans, as no installed locale is needed for.
class Elsewhere : public std::numpunct<char> {
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
  char do_decimal_point() const override { return ','; }
  std::string do_truename() const override { return "wahr"; }
};

class WithLocale {
 public:
  WithLocale() : before_(std::locale::global(std::locale(std::locale::classic(), new Elsewhere))) {}
  ~WithLocale() { std::locale::global(before_); }
  WithLocale(const WithLocale&) = delete;
  WithLocale& operator=(const WithLocale&) = delete;

 private:
  std::locale before_;
};

/// The sources and schedules of each op's first kernel.
std::vector<std::string> texts() {
  std::vector<std::string> list;
  for (const char* target : {"sm_90a", "gfx1100"})
    for (const tj::ops::Op* op : tj::ops::all()) {
      const tj::arch::Arch& arch = *tj::arch::find(target);
      const auto requests = op->requests_for({}, arch);
      if (requests.empty()) continue;
      try {
        tj::Choice choice = tj::choose(*op, requests.front(), arch);
        const tj::graph::Graph& graph = choice.candidate.graph;
        choice.schedule.solve_ms = 0;  // a time, which the text shows
        list.push_back(tj::codegen::emit(graph, choice.schedule, arch.primitives).text);
        list.push_back(tj::sched::to_text(graph, choice.schedule) + tj::graph::to_text(graph));
      } catch (const tj::Error& error) {
        list.push_back(error.message);
      }
    }
  return list;
}

TEST_CASE("numbers are C's in any locale") {
  const WithLocale locale;
  CHECK(tj::support::cat(1234567, ' ', 0.5, ' ', true) == "1234567 0.5 1");
}

TEST_CASE("kernels' sources, graphs and schedules are the same in any locale") {
  const std::vector<std::string> usual = texts();
  CHECK(usual.size() > 8);
  const WithLocale locale;
  const std::vector<std::string> elsewhere = texts();
  REQUIRE(elsewhere.size() == usual.size());
  for (std::size_t i = 0; i < usual.size(); ++i) CHECK(elsewhere[i] == usual[i]);
}

}  // namespace
