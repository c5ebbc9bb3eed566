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

/* Those with the option --Ofast-compile, which quick kernels have. */
int fake_nvrtc_quick_compiles(void);
/* While hold is not 0, each compile waits that is no quick one; such a one is counted before. A compile that is broken
 * off goes on. The variable FAKE_NVRTC_HOLD holds from the start, and names a file that a compile makes then. */
void fake_nvrtc_hold(int hold);
/* From now on every program is refused that has, or with `quick` 0 that has not, that option. */
void fake_nvrtc_refuse_only(int quick, const char* log);

/* Whether it has the option --time (default: it has). */
void fake_nvrtc_know_times(int known);

#ifdef __cplusplus
}
#endif
