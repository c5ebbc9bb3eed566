/* How a test steers the fake management library. Not thread safe: nothing asks it from two threads. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Forgets the settings: it cannot be begun, so that whoever finds it by chance is told nothing. */
void fake_nvml_reset(void);
/* From now on it can be begun, and device i has clocks of so many MHz, i more. */
void fake_nvml_set_clocks(unsigned mhz, unsigned most);
/* Calls of that name fail; null: none does. */
void fake_nvml_fail(const char* call);

#ifdef __cplusplus
}
#endif
