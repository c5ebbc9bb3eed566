/* How a test steers the fake CUDA driver, beyond the driver's own calls. Thread safe, as those are. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Forgets the log, the counts, the chosen failures and every setting below. */
void fake_cuda_reset(void);
/* Lets the nth call (from 1) of that name ("cuMemAlloc", without version suffix) since the reset fail with a CUresult.
 */
void fake_cuda_fail(const char* call, int nth, int result);
/* Every call since the reset, one a line, launches with their shape. Valid until the next use on this thread. */
const char* fake_cuda_log(void);
/* Off: calls are neither logged nor counted, and allocate nothing. A process that begins with FAKE_CUDA_RECORD=0 begins
 * so. */
void fake_cuda_record(int on);
/* Things that are still held: retained contexts, modules, memory, events, streams, graphs, this thread's context stack;
 * and how often something was used that went with a destroyed context. Empty when there is none. */
const char* fake_cuda_leaks(void);
/* Devices to pretend (default 1), each with 132 SMs and the compute capability below. */
void fake_cuda_set_devices(int count);
/* The compute capability of every device (default 9.0). */
void fake_cuda_set_capability(int major, int minor);
/* What cuDriverGetVersion says (default 13000). */
void fake_cuda_set_driver_version(int version);
/* The CUstreamCaptureStatus that every stream reports (default none). */
void fake_cuda_set_capture(int status);
/* On: work of all streams does not end, so that the real driver's frees would wait for good. Those are counted. */
void fake_cuda_set_busy(int on);
int fake_cuda_frees_while_busy(void);
/* CUresults of all launches, and of all records of and waits for events, whether calls are recorded or not (default 0).
 * They allocate nothing in this library. */
void fake_cuda_set_lost(int launches, int events);
/* The parameter size that functions report (default 0: unknown). */
void fake_cuda_set_param_bytes(int bytes);
/* The time that each block of a launch takes (default 0: 1.5 ms is what every pair of events measures). */
void fake_cuda_set_block_ms(double ms);
/* Called in each launch with the address of its parameter, on the thread that launches; null: nobody is. */
void fake_cuda_on_launch(void (*hook)(const void* params, void* user), void* user);
/* Copies up to that many bytes of the last recorded launch's parameter, of which the driver knows as many as
 * fake_cuda_set_param_bytes() said; returns the number copied. */
size_t fake_cuda_last_params(void* out, size_t bytes);

#ifdef __cplusplus
}
#endif
