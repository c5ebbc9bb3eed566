/* Kernels made in the background, in C, as preparation.hpp has them.
 *
 * A part of tilejit.h, which includes it. */
#include "tilejit.h" /* before the guard: it includes this file, in its order */

#ifndef TILEJIT_PREPARATION_H
#define TILEJIT_PREPARATION_H

#ifdef __cplusplus
extern "C" {
#endif

/* A list of kernels that threads of the library make, as tj::Preparation. */
typedef struct tj_preparation tj_preparation;

/* States of a kernel of the list: the numbers of tj::PrepareState. */
enum { TJ_PREPARE_WAITING = 0, TJ_PREPARE_MAKING = 1, TJ_PREPARE_READY = 2 };
enum { TJ_PREPARE_FAILED = 3, TJ_PREPARE_LEFT_OUT = 4 };

/* Options of a list. A member that is left 0 has its default. */
typedef struct tj_prepare_options {
  uint64_t size;
  double time_limit_s; /* seconds after which no kernel is begun, nor another maker waited for; 0: no limit */
  int32_t threads;     /* kernels made at once, up to 256; 0 counts as 1 */
  int32_t reserved;    /* 0 */
} tj_prepare_options;

/* How far a list is, as tj::Progress. */
typedef struct tj_progress {
  uint64_t size; /* set by the caller; only that many bytes are written */
  uint64_t kernels, ready, failed, left_out;
  double seconds;
  int32_t ended; /* 1: every kernel is ready, failed or left out */
  int32_t reserved;
} tj_progress;

/* Makes an empty list. options may be null. On failure *out is null. */
TJ_C_API tj_status tj_preparation_create(tj_runtime* runtime, const tj_prepare_options* options, tj_preparation** out);
/* Gives the list up. Its kernels are made all the same: tj_preparation_cancel() leaves out what has not begun. The
 * runtime may have ended before. Null is ignored. */
TJ_C_API void tj_preparation_destroy(tj_preparation* list);
/* Adds the kernels of a call, as tj_prepare() takes it. Addresses may be null. */
TJ_C_API tj_status tj_preparation_add(tj_preparation* list, const char* op, const void* args);
/* Adds the kernels that flags of tj-warm name, as tj_prepare_flags() takes them. */
TJ_C_API tj_status tj_preparation_add_flags(tj_preparation* list, const char* op, const char* flags, tj_device device);
/* Adds a kernel of the user's own. It must be of the same runtime. */
TJ_C_API tj_status tj_preparation_add_custom(tj_preparation* list, const tj_custom* kernel, tj_device device);
/* Makes a list of the kernels of one call. options may be null. On failure *out is null. */
TJ_C_API tj_status tj_prepare_async(tj_runtime* runtime, const char* op, const void* args,
                                    const tj_prepare_options* options, tj_preparation** out);
/* Leaves out what no thread has begun, and what the list only waits for while another thread or process makes it. */
TJ_C_API tj_status tj_preparation_cancel(tj_preparation* list);
/* Waits until every kernel has ended, for so many seconds at most. 0 only looks; negative: as long as it takes.
 * progress may be null. That kernels failed is no error of this call. */
TJ_C_API tj_status tj_preparation_wait(const tj_preparation* list, double seconds, tj_progress* progress);
/* Tells of one kernel, `index` counted from 0 in the order of adding. *state is its state. The report is filled in for
 * a ready one, else only its name. The status is the kernel's own error where it failed. state and report may be
 * null. */
TJ_C_API tj_status tj_preparation_get(const tj_preparation* list, size_t index, int32_t* state,
                                      tj_kernel_report* report);

#ifdef __cplusplus
}
#endif

#endif /* TILEJIT_PREPARATION_H */
