/* How a test steers the fake HIP runtime, beyond the runtime's own calls. Thread safe, as those are. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Forgets the log, the counts, the chosen failures and every setting below; this thread's device is 0 again. */
void fake_hip_reset(void);
/* Lets the nth call (from 1) of that name since the reset fail with a hipError_t. */
void fake_hip_fail(const char* call, int nth, int result);
/* Every call since the reset, one a line, launches with their shape. Valid until the next use on this thread. */
const char* fake_hip_log(void);
/* Off: calls are neither logged nor counted, and allocate nothing. */
void fake_hip_record(int on);
/* Things that are still held: modules, memory, events, streams, graphs, pools; this thread's device when it is not 0,
 * and its last failure when nobody asked for it; calls with memory or a pool that was not there; empty when nothing
 * is. */
const char* fake_hip_leaks(void);
/* Devices to pretend (default 1), each with 96 compute units, counted in pairs by the properties, and 64 KB of shared
 * memory. */
void fake_hip_set_devices(int count);
/* gcnArchName of every device (default "gfx1100"), or those of the first ones, commas between them, of which the last
 * is that of the rest. */
void fake_hip_set_processor(const char* name);
/* The number of physical compute units that hipDeviceGetAttribute gives; 0: it fails (default 96). */
void fake_hip_set_physical_units(int units);
/* The hipStreamCaptureStatus that every stream reports (default none). */
void fake_hip_set_capture(int status);
/* The time that each block of a launch takes (default 0: 1.5 ms is what every pair of events measures). */
void fake_hip_set_block_ms(double ms);
/* Copies up to that many bytes of the last recorded launch's argument buffer; returns the buffer's size. */
size_t fake_hip_last_params(void* out, size_t bytes);

/* A launch as somebody else may carry it out: memory of the device is memory of this process. */
typedef struct fake_hip_launch {
  const void* image; /* of the code object */
  size_t image_bytes;
  const char* function;
  unsigned grid, threads, shared_bytes; /* of the first dimension; no other has more than 1 */
  const void* params;
  size_t params_bytes;
} fake_hip_launch;
/* A block of device memory that is allocated now; 0 when there are not so many. Counted from 0, in no order. */
int fake_hip_memory(size_t which, const void** begin, size_t* bytes);
/* Calls this at every launch of a module that is loaded from now on, before the launch returns; null: nothing is
 * carried out. Outlives the reset. */
void fake_hip_on_launch(void (*work)(const fake_hip_launch* launch));

#ifdef __cplusplus
}
#endif
