/* One of the graphs of main.cpp from C: attention's loop with copies of K and V, as JSON with its parameters.
 *
 *   from_c [TMA_CYCLES GEMM_CYCLES EXP_CYCLES [PICTURE.svg [SUB_TILES]]]
 *
 *   cc -std=c99 from_c.c $(pkg-config --cflags --libs tilejit) -o from_c
 *
 * With SUB_TILES (1 to 3) the graph is the library's example with so many sub-tiles.
 * Prints the schedule; the picture is written where a file is named. Exits 0, or 2 when something could not run. */
#include <stdio.h>
#include <stdlib.h>
#include <tilejit/tilejit.h>

static const char kGraph[] =
    "{\"name\": \"fa_hopper\", \"machine\": \"hopper\", \"instructions\": ["
    "{\"name\": \"K_load\", \"cycles\": %d, \"fu\": \"TMA\", \"variable_latency\": true, \"streaming\": true,"
    " \"memory\": {\"SMEM\": 32768}},"
    "{\"name\": \"V_load\", \"cycles\": %d, \"fu\": \"TMA\", \"variable_latency\": true, \"streaming\": true,"
    " \"memory\": {\"SMEM\": 32768}},"
    "{\"name\": \"S\", \"cycles\": %d, \"fu\": \"TC\"},"
    "{\"name\": \"P\", \"cycles\": %d, \"fu\": \"EXP\"},"
    "{\"name\": \"O\", \"cycles\": %d, \"fu\": \"TC\"}], \"values\": ["
    "{\"name\": \"K\", \"slot_bytes\": 32768}, {\"name\": \"V\", \"slot_bytes\": 32768}], \"edges\": ["
    "{\"src\": \"K_load\", \"dst\": \"S\", \"delay\": %d, \"value\": \"K\"},"
    "{\"src\": \"V_load\", \"dst\": \"O\", \"delay\": %d, \"value\": \"V\"},"
    "{\"src\": \"S\", \"dst\": \"P\", \"delay\": %d},"
    "{\"src\": \"P\", \"dst\": \"O\", \"delay\": %d},"
    "{\"src\": \"O\", \"dst\": \"O\", \"delay\": %d, \"delta\": 1}]}";

static int failed(const char* what) {
  fprintf(stderr, "from_c: %s: %s: %s\n", what, tj_last_error_stage(), tj_last_error());
  return 2;
}

int main(int argc, char** argv) {
  const int tma = argc > 1 ? atoi(argv[1]) : 1;
  const int gemm = argc > 2 ? atoi(argv[2]) : 2;
  const int exp = argc > 3 ? atoi(argv[3]) : 2;
  char graph[2048];
  const char *text = NULL, *example = graph;
  const int length = snprintf(graph, sizeof graph, kGraph, tma, tma, gemm, exp, gemm, tma, tma, gemm, exp, gemm);
  if (length < 0 || (size_t)length >= sizeof graph) return 2;

  if (argc > 5) {
    char parameters[256];
    snprintf(parameters, sizeof parameters, "{\"costs\": {\"tma\": %d, \"gemm\": %d, \"exp\": %d}, \"sub_tiles\": %d}",
             tma, gemm, exp, atoi(argv[5]));
    if (tj_graph_example("fa_hopper", parameters, &example) != TJ_OK) return failed("example");
  }
  if (tj_schedule(example, NULL, "text", &text) != TJ_OK) return failed("text");
  fputs(text, stdout);
  if (argc > 4) {
    FILE* file = fopen(argv[4], "w");
    if (file == NULL) {
      perror(argv[4]);
      return 2;
    }
    if (tj_schedule(example, NULL, "svg", &text) != TJ_OK) return failed("svg");
    fputs(text, file);
    if (fclose(file) != 0) return 2;
  }
  return fflush(stdout) == 0 ? 0 : 2;
}
