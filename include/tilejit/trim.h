/* What is loaded given back, in C, as tj::Runtime::trim() (runtime.hpp) has it.
 *
 * A part of tilejit.h, which includes it. */
#include <tilejit/tilejit.h> /* before the guard: it includes this file, in its order */

#ifndef TILEJIT_TRIM_H
#define TILEJIT_TRIM_H

#ifdef __cplusplus
extern "C" {
#endif

/* What tj_trim() has freed. */
typedef struct tj_trim_report {
  uint64_t size;            /* set by the caller; only that many bytes are written */
  uint64_t kernels;         /* that were unloaded */
  uint64_t code_bytes;      /* of their binaries; what a driver frees is its own matter */
  uint64_t workspace_bytes; /* of the library's pools, as the driver tells */
} tj_trim_report;

/* Unloads the kernels that nothing needs, as tj::Runtime::trim() says what that is, and gives free memory of pools
 * back. Any thread may call it at any time. device may be null: all devices. report may be null. */
TJ_C_API tj_status tj_trim(tj_runtime* runtime, const tj_device* device, tj_trim_report* report);

#ifdef __cplusplus
}
#endif

#endif /* TILEJIT_TRIM_H */
