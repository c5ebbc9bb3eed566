// Users' options of a schedule as the scheduler's.
//
// Decides which member of tj::ScheduleOptions is which of Options. Reads no text (custom/schedule.cpp).
#pragma once

#include <tilejit/graph.hpp>

#include "sched/schedule.hpp"

namespace tj::sched {

Options to_options(const ScheduleOptions& given);

}  // namespace tj::sched
