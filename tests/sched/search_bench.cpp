// Times the scheduler on this machine: shipped graphs, loops taken apart, random graphs. Prints; decides nothing.
//
//   build/release/tests/sched.search_bench [budget [part of the graphs' names]]
//
// Graphs without a schedule are counted and left out of the times.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "graph/examples.hpp"
#include "loop_graphs.hpp"
#include "ops/op.hpp"
#include "pipeline.hpp"
#include "random_graphs.hpp"
#include "sched/schedule.hpp"

namespace {

using namespace tj;

struct Row {
  std::string name;
  double milliseconds = 0;  ///< median of the repetitions
  sched::Schedule schedule;
};

/// Processor time of this thread: other work of the machine does not count.
double now_ms() {
  std::timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

/// A group of graphs, whose names have `part`.
class Group {
 public:
  Group(const char* title, std::string part, int repetitions)
      : title_(title), part_(std::move(part)), repetitions_(repetitions) {}
  void measure(const graph::Graph& graph, const sched::Options& options) {
    if (graph.name.find(part_) == std::string::npos) return;
    try {
      rows_.push_back(row_of(graph, options));
    } catch (const Error& none) {
      std::printf("  %-28s no schedule: %s\n", graph.name.c_str(), none.what());
      ++without_;
    }
  }
  void print(bool each);

 private:
  Row row_of(const graph::Graph& graph, const sched::Options& options) const;

  const char* title_;
  std::string part_;
  int repetitions_, without_ = 0;
  std::vector<Row> rows_;
};

Row Group::row_of(const graph::Graph& graph, const sched::Options& options) const {
  Row row;
  row.name = graph.name;
  std::vector<double> times;
  for (int i = 0; i < repetitions_; ++i) {
    const double begin = now_ms();
    row.schedule = sched::schedule(graph, options);
    times.push_back(now_ms() - begin);
  }
  std::sort(times.begin(), times.end());
  row.milliseconds = times[times.size() / 2];
  return row;
}

void Group::print(bool each) {
  if (without_ > 0) std::printf("%s: %d without a schedule\n", title_, without_);
  if (rows_.empty()) return;
  std::vector<Row> rows = rows_;
  int ii = 0, length = 0;
  std::vector<std::uint64_t> visited;
  if (each)
    for (const Row& row : rows)
      std::printf("  %-28s %3zu nodes  II %5d %-10s length %6d %-10s %8.3f ms %8llu visited\n", row.name.c_str(),
                  row.schedule.cycle.size(), row.schedule.ii, row.schedule.proven_ii ? "proven" : "not proven",
                  row.schedule.length, row.schedule.proven_length ? "proven" : "not proven", row.milliseconds,
                  static_cast<unsigned long long>(row.schedule.search_nodes));
  for (const Row& row : rows) {
    ii += row.schedule.proven_ii ? 1 : 0;
    length += row.schedule.proven_length ? 1 : 0;
    visited.push_back(row.schedule.search_nodes);
  }
  std::sort(visited.begin(), visited.end());
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.milliseconds < b.milliseconds; });
  std::printf(
      "%s: %zu graphs, median %.3f ms, 90%% %.3f ms, largest %.3f ms (%s), median of visited %llu; II proven %d, "
      "length proven %d\n",
      title_, rows.size(), rows[rows.size() / 2].milliseconds, rows[rows.size() * 9 / 10].milliseconds,
      rows.back().milliseconds, rows.back().name.c_str(), static_cast<unsigned long long>(visited[visited.size() / 2]),
      ii, length);
}

/// Every tile of every op, for every arch that has its node bodies.
std::vector<ops::Candidate> shipped() {
  std::vector<ops::Candidate> list;
  for (const ops::Op* op : ops::all())
    for (const ops::Request& request : op->requests({}))
      for (const arch::Arch* arch : arch::all()) {
        try {
          for (ops::Candidate& candidate : op->candidates(request, *arch)) list.push_back(std::move(candidate));
        } catch (const Error&) {
          continue;  // the op does not run on this arch
        }
      }
  return list;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

}  // namespace

int main(int argc, char** argv) {
  sched::Options options;
  if (argc > 1) options.node_budget = std::strtoull(argv[1], nullptr, 10);
  std::printf("one thread of %s; budget %s\n", processor().c_str(), argc > 1 ? argv[1] : "by size");
  const std::string part = argc > 2 ? argv[2] : "";
  Group examples("examples", part, 20);
  for (const std::string& name : graph::example_names()) examples.measure(graph::example(name), options);
  examples.print(true);
  Group tiles("shipped tiles, with roles", part, 20);
  for (const ops::Candidate& candidate : shipped()) tiles.measure(candidate.graph, options_for(candidate, options));
  tiles.print(true);
  Group loops("loops taken apart", part, 5);
  for (const graph::Graph& graph : test::loop_graphs()) loops.measure(graph, options);
  loops.print(true);
  if (!part.empty()) return 0;
  Group random("random graphs of 40 nodes", part, 1);
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    random.measure(test::random_graph(test::forty_nodes(), seed), options);
  random.print(false);
}
