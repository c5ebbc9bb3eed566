/* How a test steers the fake hiprtc. Thread safe. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Forgets counts and settings. */
void fake_hiprtc_reset(void);
/* Programs that were compiled since the reset, refused ones included. */
int fake_hiprtc_compiles(void);
/* From now on every program is refused with this log; null: none is. */
void fake_hiprtc_refuse(const char* log);
/* The result of a compile that is refused (default 6: it failed). */
void fake_hiprtc_set_refusal(int result);
/* The size of the parameter that kernels say they take (default 0: they have none or several). */
void fake_hiprtc_set_param_bytes(int bytes);
/* Options of the last program, one a line. Valid until the next use on this thread. */
const char* fake_hiprtc_options(void);

#ifdef __cplusplus
}
#endif
