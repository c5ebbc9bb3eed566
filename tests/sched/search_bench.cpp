// Times the scheduler on this machine: shipped graphs, loops taken apart, random graphs. Prints; decides nothing.
//
//   build/release/tests/sched.search_bench [budget [part of the loops' names]]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "arch/arch.hpp"
#include "graph/examples.hpp"
#include "loop_graphs.hpp"
#include "ops/op.hpp"
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

Row measure(const graph::Graph& graph, const sched::Options& options, int repetitions) {
  Row row;
  row.name = graph.name;
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    const double begin = now_ms();
    row.schedule = sched::schedule(graph, options);
    times.push_back(now_ms() - begin);
  }
  std::sort(times.begin(), times.end());
  row.milliseconds = times[times.size() / 2];
  return row;
}

void print(const char* title, std::vector<Row> rows, bool each) {
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
      title, rows.size(), rows[rows.size() / 2].milliseconds, rows[rows.size() * 9 / 10].milliseconds,
      rows.back().milliseconds, rows.back().name.c_str(), static_cast<unsigned long long>(visited[visited.size() / 2]),
      ii, length);
}

/// Every tile of every op, for every arch that has its node bodies.
std::vector<graph::Graph> shipped() {
  std::vector<graph::Graph> list;
  for (const ops::Op* op : ops::all())
    for (const ops::Request& request : op->requests({}))
      for (const arch::Arch* arch : arch::all()) {
        try {
          for (const ops::Candidate& candidate : op->candidates(request, *arch)) list.push_back(candidate.graph);
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
  std::vector<Row> rows;
  for (const std::string& name : graph::example_names()) rows.push_back(measure(graph::example(name), options, 20));
  print("examples", rows, true);
  rows.clear();
  for (const graph::Graph& graph : shipped()) rows.push_back(measure(graph, options, 20));
  print("shipped tiles, with roles", rows, true);
  rows.clear();
  for (const graph::Graph& graph : test::loop_graphs())
    if (graph.name.find(part) != std::string::npos) rows.push_back(measure(graph, options, 5));
  print("loops taken apart", rows, true);
  if (!part.empty()) return 0;
  rows.clear();
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    rows.push_back(measure(test::random_graph(test::forty_nodes(), seed), options, 1));
  print("random graphs of 40 nodes", rows, false);
}
