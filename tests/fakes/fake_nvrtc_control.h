/* How a test steers the fake NVRTC. Thread safe. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Forgets counts and settings. */
void fake_nvrtc_reset(void);
/* Programs that were compiled since the reset, refused ones included. */
int fake_nvrtc_compiles(void);
/* From now on every program is refused with this log; null: none is. */
void fake_nvrtc_refuse(const char* log);

/* Whether it has the option --time (default: it has). */
void fake_nvrtc_know_times(int known);

#ifdef __cplusplus
}
#endif
