/* A program that was written for tilejit 0.2.0. The test compiles it against the header beside it, which stays as 0.2.0
 * had it, and runs it with today's library on the CPU model of an sm_90a. It calls every function of that header.
 * argv[1] is the folder of the sample 05_custom_gemm.
 *
 * Invariant: no line is changed because a later library does something else; the later library is what is wrong then.
 */
#include "tilejit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kHeads = 2, kRows = 64, kHeadDim = 64, kElements = kHeads * kRows * kHeadDim, kOne = 0x3c00 /* in f16 */ };

static const tj_device kHost = {TJ_CPU, 0};
static int g_lines, g_allocations, g_releases;

static void expect(int right, const char* what) {
  if (right) return;
  fprintf(stderr, "not so: %s; last error: %s\n", what, tj_last_error());
  exit(1);
}
#define EXPECT(what) expect((what), #what)

static void count_lines(void* user, int32_t level, const char* text, size_t length) {
  (void)level, (void)text, (void)length;
  ++*(int*)user;
}

static void* allocate(void* user, tj_device device, size_t bytes, void* stream) {
  (void)device, (void)stream;
  ++*(int*)user;
  return aligned_alloc(256, (bytes + 255) / 256 * 256);
}

static void release(void* user, tj_device device, void* memory, size_t bytes, void* stream) {
  (void)user, (void)device, (void)bytes, (void)stream;
  ++g_releases;
  free(memory);
}

/* ---- runtimes, errors ---- */

static tj_runtime* make_runtime(void) {
  tj_options options;
  tj_runtime* runtime = NULL;
  memset(&options, 0xff, sizeof options);
  tj_options_init(&options);
  EXPECT(options.size == sizeof options && options.cache_dir == NULL && options.log_level == TJ_LOG_DEFAULT);
  options.log_sink = count_lines;
  options.log_user = &g_lines;
  options.log_level = TJ_LOG_DEBUG;
  options.allocate = allocate;
  options.deallocate = release;
  options.allocator_user = &g_allocations;
  EXPECT(tj_runtime_create(&options, &runtime) == TJ_OK && runtime != NULL);
  return runtime;
}

static void check_errors(tj_runtime* runtime) {
  tj_runtime* shared = NULL;
  EXPECT(tj_runtime_instance(&shared) == TJ_OK && shared != NULL && shared != runtime);
  tj_runtime_destroy(shared); /* is left alone */
  EXPECT(tj_run(runtime, "fmha", NULL, NULL) == TJ_INVALID_ARGUMENT);
  EXPECT(strlen(tj_last_error()) > 0 && strcmp(tj_last_error_stage(), "argument") == 0);
  EXPECT(strcmp(tj_last_error_log(), "") == 0 && strcmp(tj_last_error_source_path(), "") == 0);
  EXPECT(tj_run(runtime, "no_such_op", NULL, NULL) != TJ_OK);
  EXPECT(strcmp(tj_status_name(TJ_OK), "ok") == 0 && strcmp(tj_status_name(TJ_NOT_FOUND), "not_found") == 0);
  EXPECT(strlen(tj_version()) >= 5 && strlen(tj_build_id()) == 64);
}

/* ---- memory and tensors ---- */

static tj_tensor tensor_of(void* data) {
  tj_tensor t;
  memset(&t, 0, sizeof t);
  t.size = sizeof t;
  t.data = data;
  t.device = kHost;
  t.dtype = TJ_F16;
  t.rank = 4;
  t.shape[0] = 1, t.shape[1] = kHeads, t.shape[2] = kRows, t.shape[3] = kHeadDim;
  t.strides[0] = kElements, t.strides[1] = kRows * kHeadDim, t.strides[2] = kHeadDim, t.strides[3] = 1;
  return t;
}

static uint16_t* filled(tj_runtime* runtime, uint16_t value) {
  uint16_t host[kElements];
  void* memory = NULL;
  for (int i = 0; i < kElements; ++i) host[i] = value;
  EXPECT(tj_allocate(runtime, kHost, sizeof host, &memory) == TJ_OK && memory != NULL);
  EXPECT(tj_copy(runtime, memory, kHost, host, kHost, sizeof host) == TJ_OK);
  return (uint16_t*)memory;
}

static int all_are(tj_runtime* runtime, const uint16_t* memory, uint16_t value) {
  uint16_t host[kElements];
  EXPECT(tj_synchronize(runtime, kHost, NULL) == TJ_OK);
  EXPECT(tj_copy(runtime, host, kHost, memory, kHost, sizeof host) == TJ_OK);
  for (int i = 0; i < kElements; ++i)
    if (host[i] != value) return 0;
  return 1;
}

/* ---- attention: with every value 1, each output is 1 ---- */

typedef struct attention {
  tj_runtime* runtime;
  uint16_t *in, *out;
  tj_tensor input, output;
  tj_fmha_args args;
} attention;

static void make_attention(tj_runtime* runtime, attention* a) {
  a->runtime = runtime;
  a->in = filled(runtime, kOne);
  a->out = filled(runtime, 0xffff);
  a->input = tensor_of(a->in);
  a->output = tensor_of(a->out);
  memset(&a->args, 0, sizeof a->args);
  a->args.size = sizeof a->args;
  a->args.q = a->args.k = a->args.v = &a->input;
  a->args.o = &a->output;
}

static void poison(attention* a) {
  uint16_t host[kElements];
  memset(host, 0xff, sizeof host);
  EXPECT(tj_copy(a->runtime, a->out, kHost, host, kHost, sizeof host) == TJ_OK);
}

static tj_kernel_report empty_report(void) {
  tj_kernel_report report;
  memset(&report, 0, sizeof report);
  report.size = sizeof report;
  return report;
}

static void check_calls(attention* a) {
  tj_kernel_report report = empty_report();
  size_t kernels = 0;
  EXPECT(tj_prepare(a->runtime, "fmha", &a->args, &report) == TJ_OK);
  EXPECT(strcmp(report.target, "model:sm_90a") == 0 && strlen(report.name) > 0 && strlen(report.schedule_json) > 0);
  EXPECT(tj_run(a->runtime, "fmha", &a->args, NULL) == TJ_OK && all_are(a->runtime, a->out, kOne));
  report = empty_report();
  EXPECT(tj_prepare_flags(a->runtime, "fmha", "--dtype f16 --head-dim 64 --causal false --general-scale false", kHost,
                          &report, &kernels) == TJ_OK);
  EXPECT(kernels > 0 && strlen(report.name) > 0);
  report = empty_report();
  EXPECT(tj_prepare_flags(a->runtime, "fmha", "--dtype f16 --head-dim 64 --causal false --general-scale false", kHost,
                          &report, &kernels) == TJ_OK);
  EXPECT(report.origin == TJ_FROM_MEMORY);
  EXPECT(tj_warm_flags(a->runtime, "fmha", "--dtype f16 --head-dim 64 --causal false --general-scale false",
                       "model:sm_90a", NULL, &kernels) == TJ_OK);
  EXPECT(kernels > 0);
}

static void check_rungs(attention* a) {
  tj_kernel_report report = empty_report();
  EXPECT(tj_prepare_rung(a->runtime, "fmha", &a->args, 0, &report) == TJ_OK && report.origin == TJ_FROM_MEMORY);
  poison(a);
  EXPECT(tj_run_rung(a->runtime, "fmha", &a->args, 0, NULL) == TJ_OK && all_are(a->runtime, a->out, kOne));
  EXPECT(tj_run_rung(a->runtime, "fmha", &a->args, 1000, NULL) != TJ_OK);
}

static void check_tuning(attention* a) { /* which measures on a GPU */
  tj_tune_options options;
  tj_tune_report report;
  memset(&options, 0, sizeof options);
  memset(&report, 0, sizeof report);
  options.size = sizeof options;
  report.size = sizeof report;
  EXPECT(tj_tune(a->runtime, "fmha", &a->args, &options, &report) != TJ_OK && strlen(tj_last_error()) > 0);
}

static void check_plan(attention* a) {
  tj_plan* plan = NULL;
  tj_plan_info info;
  void* addresses[8] = {NULL};
  void* workspace = NULL;
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  EXPECT(tj_plan_create(a->runtime, "fmha", &a->args, &plan) == TJ_OK && plan != NULL);
  EXPECT(tj_plan_get_info(plan, &info) == TJ_OK && info.tensor_count >= 4 && info.tensor_count <= 8);
  EXPECT(strcmp(info.target, "model:sm_90a") == 0 && strlen(info.kernel) > 0 && info.device.kind == TJ_CPU);
  for (uint64_t i = 0; i < info.tensor_count; ++i)
    addresses[i] = strcmp(info.tensors[i], "o") == 0     ? (void*)a->out
                   : strcmp(info.tensors[i], "lse") == 0 ? NULL
                                                         : (void*)a->in;
  if (info.workspace_bytes > 0) workspace = filled(a->runtime, 0);
  poison(a);
  EXPECT(tj_plan_run(plan, addresses, (size_t)info.tensor_count, workspace, NULL) == TJ_OK);
  EXPECT(all_are(a->runtime, a->out, kOne));
  EXPECT(tj_plan_run(plan, addresses, 0, workspace, NULL) == TJ_INVALID_ARGUMENT);
  tj_plan_destroy(plan);
  if (workspace != NULL) EXPECT(tj_free(a->runtime, workspace) == TJ_OK);
}

static tj_status run_again(void* user) {
  attention* a = (attention*)user;
  return tj_run(a->runtime, "fmha", &a->args, NULL);
}

static void check_device(attention* a) {
  tj_device device = {-1, -1};
  const char* target = NULL;
  double ms = -1;
  EXPECT(tj_default_device(a->runtime, &device) == TJ_OK && device.kind == TJ_CPU);
  EXPECT(tj_target_of(a->runtime, device, &target) == TJ_OK && strcmp(target, "model:sm_90a") == 0);
  EXPECT(tj_time_ms(a->runtime, device, run_again, a, &ms) == TJ_OK && ms >= 0);
}

/* ---- kernels of one's own ---- */

static char* text_of(const char* folder, const char* name) {
  char path[4096];
  char* text = (char*)calloc(1, 1 << 20);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* file = fopen(path, "rb");
  expect(file != NULL, path);
  EXPECT(fread(text, 1, (1 << 20) - 1, file) > 0);
  fclose(file);
  return text;
}

static void check_preparation(tj_runtime* runtime, attention* a, const tj_custom* kernel) {
  const tj_prepare_options options = {.size = sizeof options, .time_limit_s = 600, .threads = 2};
  tj_progress progress = {.size = sizeof progress};
  tj_kernel_report report = empty_report();
  tj_preparation* list = NULL;
  int32_t state = -1;
  EXPECT(tj_preparation_create(runtime, &options, &list) == TJ_OK && list != NULL);
  EXPECT(tj_preparation_add(list, "fmha", &a->args) == TJ_OK);
  EXPECT(tj_preparation_add_flags(list, "fmha", "--dtype f16 --head-dim 64 --causal false --general-scale false",
                                  kHost) == TJ_OK);
  EXPECT(tj_preparation_add_custom(list, kernel, kHost) == TJ_OK);
  EXPECT(tj_preparation_wait(list, -1, &progress) == TJ_OK && progress.ended == 1);
  EXPECT(progress.kernels >= 3 && progress.ready == progress.kernels && progress.failed + progress.left_out == 0);
  EXPECT(tj_preparation_get(list, 0, &state, &report) == TJ_OK && state == TJ_PREPARE_READY && strlen(report.name) > 0);
  EXPECT(tj_preparation_get(list, 1000, &state, &report) == TJ_INVALID_ARGUMENT);
  EXPECT(tj_preparation_cancel(list) == TJ_OK);
  tj_preparation_destroy(list);
  EXPECT(tj_prepare_async(runtime, "fmha", &a->args, NULL, &list) == TJ_OK && list != NULL);
  EXPECT(tj_preparation_wait(list, -1, NULL) == TJ_OK);
  tj_preparation_destroy(list);
}

static void check_custom(tj_runtime* runtime, attention* a, const char* folder) {
  char* graph = text_of(folder, "gemm_gelu.json");
  const tj_custom_description description = {
      .size = sizeof description, .name = "gemm_gelu", .graph = graph, .folder = folder};
  const tj_box box = {.size = sizeof box, .shape = {1, 1, 64, 64}};
  tj_kernel_report report = empty_report();
  tj_custom* kernel = NULL;
  uint32_t count = 0;
  void* map = aligned_alloc(64, 128);
  EXPECT(tj_custom_create(runtime, &description, &kernel) == TJ_OK && kernel != NULL);
  EXPECT(tj_custom_prepare(kernel, kHost, &report) == TJ_OK && strstr(report.name, "gemm_gelu") != NULL);
  EXPECT(tj_custom_warm(kernel, "model:sm_90a", NULL) == TJ_OK);
  EXPECT(tj_custom_tune(kernel, kHost, NULL, NULL) == TJ_UNSUPPORTED); /* the graph has no candidates */
  check_preparation(runtime, a, kernel);
  EXPECT(tj_custom_tensor_map(kernel, &a->input, &box, map) == TJ_OK);
  EXPECT(tj_custom_sm_count(kernel, kHost, &count) == TJ_OK && count > 0);
  EXPECT(tj_custom_launch(kernel, kHost, map, 1, 1, NULL) == TJ_INVALID_ARGUMENT); /* not the parameter's size */
  tj_custom_destroy(kernel);
  free(map);
  free(graph);
}

static void check_graphs(
    void) { /* two instructions share a unit for 4 and 6 cycles: 10 from one iteration to the next */
  const char* graph =
      "{\"machine\": {\"functional_units\": {\"ALU\": 1}},"
      " \"instructions\": [{\"name\": \"a\", \"cycles\": 4, \"fu\": \"ALU\"}, {\"name\": \"b\", \"cycles\": 6, \"fu\": "
      "\"ALU\"}],"
      " \"edges\": [{\"src\": \"a\", \"dst\": \"b\", \"delay\": 4}]}";
  const char* text = NULL;
  EXPECT(tj_schedule(graph, NULL, "json", &text) == TJ_OK && strstr(text, "\"ii\": 10") != NULL);
  EXPECT(tj_schedule(graph, "{\"max_stages\": 1}", "svg", &text) == TJ_OK && strstr(text, "<svg") != NULL);
  EXPECT(tj_schedule("{}", NULL, NULL, &text) == TJ_INVALID_ARGUMENT && text == NULL);
  EXPECT(tj_schedule(graph, NULL, "verify", &text) == TJ_OK && strcmp(text, "") == 0);
  EXPECT(tj_graph(graph, NULL, &text) == TJ_OK && strstr(text, "\"instructions\"") != NULL);
  EXPECT(tj_graph(graph, "machine", &text) == TJ_OK && strstr(text, "functional_units") != NULL);
  EXPECT(tj_graph("{}", "text", &text) == TJ_INVALID_ARGUMENT && text == NULL);
  EXPECT(tj_graph_resolved(graph, NULL, "", &text) == TJ_OK && strstr(text, "\"instructions\"") != NULL);
  EXPECT(tj_graph_resolved(graph, "sm_80", NULL, &text) == TJ_INVALID_ARGUMENT && text == NULL);
  EXPECT(tj_graph_example("fa_hopper", "{\"sub_tiles\": 2}", &text) == TJ_OK && strstr(text, "\"S.1\"") != NULL);
  EXPECT(tj_graph_example("fa", NULL, &text) == TJ_INVALID_ARGUMENT && text == NULL);
  EXPECT(tj_describe(&text) == TJ_OK && strstr(text, "\"targets\"") != NULL && strstr(text, "\"cache_dir\"") != NULL);
}

static void check_counters(tj_runtime* runtime) {
  const char* text = NULL;
  EXPECT(tj_counters(runtime, NULL, &text) == TJ_OK && strstr(text, "\"compiles\": ") != NULL);
  EXPECT(tj_counters(runtime, "prometheus", &text) == TJ_OK && strstr(text, "\ntilejit_compiles_total ") != NULL);
  EXPECT(tj_counters(runtime, "xml", &text) == TJ_INVALID_ARGUMENT && text == NULL);
  tj_trim_report freed;
  memset(&freed, 0xff, sizeof freed);
  freed.size = sizeof freed;
  const tj_device cpu = {TJ_CPU, 0};
  EXPECT(tj_trim(runtime, &cpu, &freed) == TJ_OK && freed.size == sizeof freed && freed.workspace_bytes == 0);
  EXPECT(tj_trim(runtime, NULL, NULL) == TJ_OK && tj_trim(NULL, NULL, NULL) == TJ_INVALID_ARGUMENT);
  freed.size = 0;
  EXPECT(tj_trim(runtime, NULL, &freed) == TJ_INVALID_ARGUMENT);
}

static void check_groups(attention* a) {
  tj_group* member = NULL;
  tj_context_fmha_args args;
  const tj_device cpu = {TJ_CPU, 0};
  char id[TJ_GROUP_ID_BYTES] = "none";
  EXPECT(tj_group_on_model(a->runtime, 1, &member) == TJ_OK && member != NULL);
  memset(&args, 0, sizeof args);
  args.size = sizeof args;
  EXPECT(tj_group_prepare(member, &args) == TJ_INVALID_ARGUMENT);
  EXPECT(tj_group_fmha(member, NULL, NULL) == TJ_INVALID_ARGUMENT &&
         tj_group_fmha(NULL, &args, NULL) == TJ_INVALID_ARGUMENT);
  args.exchange = TJ_EXCHANGE_HEADS + 1;
  EXPECT(tj_group_prepare(member, &args) == TJ_INVALID_ARGUMENT);
  tj_context_decode_args decode;
  memset(&decode, 0, sizeof decode);
  decode.size = sizeof decode;
  EXPECT(tj_group_prepare_decode(member, &decode) == TJ_INVALID_ARGUMENT);
  EXPECT(tj_group_decode(member, NULL, NULL) == TJ_INVALID_ARGUMENT &&
         tj_group_decode(NULL, &decode, NULL) == TJ_INVALID_ARGUMENT);
  EXPECT(tj_group_all_gather_gemm(member, NULL, NULL) == TJ_INVALID_ARGUMENT);
  EXPECT(tj_group_gemm_reduce_scatter(NULL, NULL, NULL) == TJ_INVALID_ARGUMENT);
  EXPECT(tj_group_prepare_all_gather_gemm(member, NULL) == TJ_INVALID_ARGUMENT);
  EXPECT(tj_group_prepare_gemm_reduce_scatter(member, NULL) == TJ_INVALID_ARGUMENT);
  EXPECT(tj_group_check(member) == TJ_OK);
  const char* text = NULL;
  EXPECT(tj_group_description(member, &text) == TJ_OK && text != NULL && strcmp(text, "messages") == 0);
  EXPECT(tj_group_description(member, NULL) == TJ_INVALID_ARGUMENT);
  tj_group_destroy(member);
  tj_group_destroy(NULL);
  EXPECT(tj_group_create(a->runtime, id, 2, 1, cpu, &member) == TJ_INVALID_ARGUMENT && member == NULL);
  EXPECT(tj_group_of_comm(a->runtime, NULL, cpu, &member) == TJ_INVALID_ARGUMENT && member == NULL);
  EXPECT(tj_group_unique_id(NULL) == TJ_INVALID_ARGUMENT);
}

int main(int argc, char** argv) {
  tj_runtime* runtime = make_runtime();
  attention a;
  EXPECT(argc == 2);
  check_errors(runtime);
  make_attention(runtime, &a);
  check_calls(&a);
  check_rungs(&a);
  check_tuning(&a);
  check_plan(&a);
  check_groups(&a);
  check_device(&a);
  check_custom(runtime, &a, argv[1]);
  check_counters(runtime);
  check_graphs();
  EXPECT(tj_free(runtime, a.in) == TJ_OK && tj_free(runtime, a.out) == TJ_OK && tj_free(runtime, NULL) == TJ_OK);
  tj_runtime_destroy(runtime);
  EXPECT(g_lines > 0); /* whoever runs this sets a variable that the library warns of */
  EXPECT(g_allocations == g_releases);
  printf("every call is as it was\n");
  return 0;
}
