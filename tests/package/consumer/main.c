/* Uses the C header and library of an installed tilejit, without the C++ one being named: a product on the CPU model,
 * as a call and as a plan. With every value 1, each output is K. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <tilejit/tilejit.h>

#define N 64

static uint16_t in[N * N], out[N * N];

static int all_are(uint16_t expected) {
  int i;
  for (i = 0; i < N * N; ++i)
    if (out[i] != expected) return 0;
  memset(out, 0, sizeof out);
  return 1;
}

static int fail(const char* call) {
  fprintf(stderr, "%s: %s\n", call, tj_last_error());
  return 1;
}

int main(void) {
  tj_tensor a, d;
  tj_gemm_args args;
  tj_options options;
  tj_runtime* runtime = NULL;
  tj_plan* plan = NULL;
  void* addresses[3];
  int i;
  for (i = 0; i < N * N; ++i) in[i] = 0x3c00; /* 1 in f16 */
  tj_options_init(&options);
  options.target = "model:sm_90a";
  if (tj_runtime_create(&options, &runtime) != TJ_OK) return fail("tj_runtime_create");

  memset(&a, 0, sizeof a);
  a.size = sizeof a;
  a.data = in;
  a.dtype = TJ_F16;
  a.rank = 2;
  a.shape[0] = a.shape[1] = a.strides[0] = N;
  a.strides[1] = 1;
  d = a;
  d.data = out;
  memset(&args, 0, sizeof args);
  args.size = sizeof args;
  args.a = args.b = &a;
  args.d = &d;
  args.alpha = 1;
  if (tj_run(runtime, "gemm", &args, NULL) != TJ_OK) return fail("tj_run");
  if (!all_are(0x5400)) return 2; /* 64 in f16 */

  if (tj_plan_create(runtime, "gemm", &args, &plan) != TJ_OK) return fail("tj_plan_create");
  addresses[0] = addresses[1] = in;
  addresses[2] = out;
  if (tj_plan_run(plan, addresses, 3, NULL, NULL) != TJ_OK) return fail("tj_plan_run");
  if (!all_are(0x5400)) return 3;
  tj_plan_destroy(plan);
  tj_runtime_destroy(runtime);
  if (tj_run(NULL, "gemm", &args, NULL) != TJ_INVALID_ARGUMENT) return 4;
  printf("tilejit %s from C, as expected: %s\n", tj_version(), tj_last_error());
  return 0;
}
