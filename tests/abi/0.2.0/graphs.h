/* Dependence graphs of users' own in C, as graph.hpp has them.
 *
 * A part of tilejit.h, which includes it. */
#include "tilejit.h" /* before the guard: it includes this file, in its order */

#ifndef TILEJIT_GRAPHS_H
#define TILEJIT_GRAPHS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Schedules a dependence graph, as tj::schedule() (graph.hpp) does; needs no runtime and no device.
 *
 * graph_json: src/graph/README.md has the format. options_json: members of tj::ScheduleOptions, such as
 * {"max_stages": 2, "turns": false}, which go before the graph's own "options"; null or "": none. format says what *out
 * is:
 *   - null or "json": the schedule, whose keys src/sched/README.md has;
 *   - "text": a listing; "svg": a picture; "trace": events for Perfetto or chrome://tracing;
 *   - "verify": what Schedule::verify() finds, a line each; "" when the schedule is right.
 * *out lives until this thread's next tj_schedule(); on failure it is null. */
TJ_C_API tj_status tj_schedule(const char* graph_json, const char* options_json, const char* format, const char** out);
/* Reads and checks a graph as tj::Graph::parse() does. format says what *out is:
 *   - null or "json": the graph, without members that have their defaults;
 *   - "text": a listing;
 *   - "machine": the description of its machine as a JSON object, even when the graph only names the machine;
 *   - "resolved": as tj_graph_resolved(), on its machine and with the parameters as they stand.
 * *out lives until this thread's next tj_graph(); on failure it is null. */
TJ_C_API tj_status tj_graph(const char* graph_json, const char* format, const char** out);
/* The JSON text of a graph for one machine and in one form, without expressions and parameters, as Graph::resolved()
 * gives it.
 *
 * target: the graph's machine or one of its "targets"; null or "": its machine. candidate: the name of one of its
 * "candidates"; null or "": the parameters as they stand. Others are TJ_INVALID_ARGUMENT, and the text of
 * tj_last_error() lists those of the graph.
 * *out lives until this thread's next tj_graph_resolved(); on failure it is null. */
TJ_C_API tj_status tj_graph_resolved(const char* graph_json, const char* target, const char* candidate,
                                     const char** out);
/* Writes the JSON text of a graph with a known schedule, as tj::example_graph() (graph_examples.hpp) gives it.
 *
 * name: "simplified_fa", "fa_hopper", "fa_blackwell" or "simple_gemm". parameters_json: members of tj::GraphExample,
 * such as {"costs": {"gemm": 2, "exp": 1}, "sub_tiles": 2, "machine": "blackwell"}; null or "": defaults.
 * *out lives until this thread's next tj_graph_example(); on failure it is null. */
TJ_C_API tj_status tj_graph_example(const char* name, const char* parameters_json, const char** out);

#ifdef __cplusplus
}
#endif

#endif /* TILEJIT_GRAPHS_H */
