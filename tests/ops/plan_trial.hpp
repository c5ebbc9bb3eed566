// A trial served twice, by the call and by a plan that was made without memory: the same bits are wanted.
#pragma once

#include <cstdint>
#include <string>

#include <tilejit/tilejit.hpp>

#include "ops/common/trial.hpp"

namespace tj::test {

/// Says which tensor differs, of trials of random values; "" where none does.
std::string plan_difference(Runtime& runtime, const ops::Op& op, const ops::Trial& trial, Device device,
                            std::uint64_t seed);

/// The differences of all trials of all ops that have plans, on a thread of its own; one line for each.
std::string plan_differences(Runtime& runtime, Device device, std::uint64_t seed);

}  // namespace tj::test
