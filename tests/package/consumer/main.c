/* The C header is plain C, and its library links without the C++ one being named. */
#include <stdio.h>
#include <tilejit/tilejit.h>

int main(void) {
  tj_runtime* runtime = NULL;
  if (tj_runtime_instance(&runtime) != 0) return 1;
  printf("refused with status %d\n", (int)tj_run(runtime, "fmha", NULL, NULL));
  return tj_run(runtime, "fmha", NULL, NULL) == 0;
}
