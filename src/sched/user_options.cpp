// See user_options.hpp.
#include "sched/user_options.hpp"

#include <algorithm>

namespace tj::sched {

Options to_options(const ScheduleOptions& given) {
  Options options;
  if (given.node_budget) options.node_budget = std::min(*given.node_budget, kBudgetBySize - 1);
  options.max_stages = given.max_stages;
  options.min_ii = given.min_ii;
  options.max_slots = given.max_slots;
  options.max_roles = given.max_roles;
  options.streaming_latency_zero = given.streaming_latency_zero;
  options.order_barriers = given.turns;
  options.joint = given.joint;
  options.mixed_roles = given.mixed_roles;
  options.copies_apart = given.copies_apart;
  return options;
}

}  // namespace tj::sched
