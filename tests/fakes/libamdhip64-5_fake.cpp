// The fake HIP runtime of an early ROCm 5: see fake_hip_calls.hpp.
#define TJ_FAKE_HIP_RELEASE 5
#include "fake_hip_calls.hpp"
