/* Kernels of users' own in C, as custom.hpp has them.
 *
 * A part of tilejit.h, which includes it. */
#include "tilejit.h" /* before the guard: it includes this file, in its order */

#ifndef TILEJIT_CUSTOM_H
#define TILEJIT_CUSTOM_H

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel of the user's own, as tj::custom::Description (custom.hpp) says. */
typedef struct tj_custom tj_custom;
typedef struct tj_custom_description {
  uint64_t size;
  const char* name;
  const char* graph;             /* the JSON text, which src/graph/README.md describes */
  const char* folder;            /* of node bodies */
  int32_t max_stages, max_slots; /* 0: any number of stages; as many slots as the graph's values allow */
  int32_t without_turns;         /* 1: roles that alternate on a unit are not held to their turns */
  int32_t reserved;              /* 0 */
} tj_custom_description;

/* The box that the copy engine cuts from a tensor, as tj::custom::Box says. */
typedef struct tj_box {
  uint64_t size;
  int64_t shape[TJ_MAX_RANK]; /* elements, outermost dimension first; each 1 to 256 */
  int32_t swizzle_bytes;      /* 0, 32, 64 or 128 */
  int32_t reserved;           /* 0 */
} tj_box;

/* Makes a kernel as tj::custom::Kernel (custom.hpp) does. Reads and checks folder and graph; compiles nothing. On
 * failure *out is null. */
TJ_C_API tj_status tj_custom_create(tj_runtime* runtime, const tj_custom_description* description, tj_custom** out);
/* Ends the handle. The runtime keeps the kernels that were made. Null is ignored. */
TJ_C_API void tj_custom_destroy(tj_custom* kernel);
/* Gets the kernel compiled, cached and loaded for a device. report may be null. */
TJ_C_API tj_status tj_custom_prepare(const tj_custom* kernel, tj_device device, tj_kernel_report* report);
/* Compiles the kernel into the disk cache for a target, without any device. report may be null. */
TJ_C_API tj_status tj_custom_warm(const tj_custom* kernel, const char* target, tj_kernel_report* report);
/* Times the graph's candidates on a GPU and keeps the fastest, as tj::custom::Kernel::tune() says. options and report
 * may be null; the report's texts live until this thread's next tj_tune() or tj_custom_tune(). */
TJ_C_API tj_status tj_custom_tune(const tj_custom* kernel, tj_device device, const tj_tune_options* options,
                                  tj_tune_report* report);
/* Writes a tensor map of 128 bytes to out. The parameter must hold it at a multiple of 64 bytes. */
TJ_C_API tj_status tj_custom_tensor_map(const tj_custom* kernel, const tj_tensor* tensor, const tj_box* box, void* out);
/* *out is the number of the device's multiprocessors, which the model has too. */
TJ_C_API tj_status tj_custom_sm_count(const tj_custom* kernel, tj_device device, uint32_t* out);
/* Enqueues 1 to 2147483647 blocks, a multiple of the graph's cluster; finished on return on the model. params is the
 * kernel's parameter, `bytes` bytes, copied during the call. The first launch on a device prepares. */
TJ_C_API tj_status tj_custom_launch(const tj_custom* kernel, tj_device device, const void* params, size_t bytes,
                                    uint32_t blocks, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* TILEJIT_CUSTOM_H */
