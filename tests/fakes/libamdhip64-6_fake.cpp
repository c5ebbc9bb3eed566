// The fake HIP runtime of ROCm 6 and 7: see fake_hip_calls.hpp.
#define TJ_FAKE_HIP_RELEASE 6
#include "fake_hip_calls.hpp"
