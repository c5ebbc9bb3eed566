/* The graphs of main.cpp from C.
 *
 *   from_c NAME [PARAMETERS [PICTURE.svg]]
 *   from_c [TMA_CYCLES GEMM_CYCLES EXP_CYCLES [PICTURE.svg [SUB_TILES]]]
 *
 *   cc -std=c99 from_c.c $(pkg-config --cflags --libs tilejit) -o from_c
 *
 * NAME is a graph that the library brings: simplified_fa, fa_hopper, fa_blackwell or simple_gemm. PARAMETERS is JSON,
 * or the name of a file of it; all of it may be left out:
 *
 *   from_c fa_hopper '{"costs": {"gemm": 1, "exp": 2}, "sub_tiles": 2, "machine": "hopper"}'
 *
 * NAME custom is a graph of one's own. PARAMETERS is its document, or that file; src/graph/README.md has the keys.
 * Numbers in the place of NAME give attention's loop, written here as such a document. With SUB_TILES (1 to 3) it is
 * the library's fa_hopper.
 *
 * Prints the schedule; the picture is written where a file is named. Exits 0, or 2 when something could not run. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* The text itself where it begins with a brace, else what is in the file of that name; NULL where that cannot be read.
 */
static const char* text_or_file(const char* text) {
  static char bytes[65536];
  FILE* file;
  size_t length;
  if (text[0] == '{') return text;
  file = fopen(text, "r");
  if (file == NULL) {
    perror(text);
    return NULL;
  }
  length = fread(bytes, 1, sizeof bytes, file);
  if (ferror(file) != 0 || length == sizeof bytes) {
    fprintf(stderr, "%s: %s\n", text,
            length == sizeof bytes ? "65536 bytes or more; fewer are allowed" : "no file to read");
    fclose(file);
    return NULL;
  }
  fclose(file);
  bytes[length] = '\0';
  return bytes;
}

/* The schedule of that graph as text, and its picture where a file is named. */
static int show(const char* graph, const char* picture) {
  const char* text = NULL;
  FILE* file;
  if (tj_schedule(graph, NULL, "text", &text) != TJ_OK) return failed("text");
  fputs(text, stdout);
  if (picture == NULL) return fflush(stdout) == 0 ? 0 : 2;
  file = fopen(picture, "w");
  if (file == NULL) {
    perror(picture);
    return 2;
  }
  if (tj_schedule(graph, NULL, "svg", &text) != TJ_OK) return failed("svg");
  fputs(text, file);
  if (fclose(file) != 0) return 2;
  return fflush(stdout) == 0 ? 0 : 2;
}

static int show_named(int argc, char** argv) {
  const char *parameters = text_or_file(argc > 2 ? argv[2] : "{}"), *picture = argc > 3 ? argv[3] : NULL, *graph = NULL;
  if (parameters == NULL) return 2;
  if (strcmp(argv[1], "custom") == 0) return show(parameters, picture);
  if (tj_graph_example(argv[1], parameters, &graph) != TJ_OK) return failed("example");
  return show(graph, picture);
}

int main(int argc, char** argv) {
  const int tma = argc > 1 ? atoi(argv[1]) : 1;
  const int gemm = argc > 2 ? atoi(argv[2]) : 2;
  const int exp = argc > 3 ? atoi(argv[3]) : 2;
  char graph[2048];
  const char* example = graph;
  int length;
  if (argc > 1 && isalpha((unsigned char)argv[1][0])) return show_named(argc, argv);
  length = snprintf(graph, sizeof graph, kGraph, tma, tma, gemm, exp, gemm, tma, tma, gemm, exp, gemm);
  if (length < 0 || (size_t)length >= sizeof graph) return 2;

  if (argc > 5) {
    char parameters[256];
    snprintf(parameters, sizeof parameters, "{\"costs\": {\"tma\": %d, \"gemm\": %d, \"exp\": %d}, \"sub_tiles\": %d}",
             tma, gemm, exp, atoi(argv[5]));
    if (tj_graph_example("fa_hopper", parameters, &example) != TJ_OK) return failed("example");
  }
  return show(example, argc > 4 ? argv[4] : NULL);
}
