// See list_checks.hpp.
#include "ops/common/list_checks.hpp"

#include "support/fail.hpp"

namespace tj::ops {

void check_begins(const char* op, const char* name, const std::vector<std::int32_t>& list, Size most,
                  const char* what) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::int32_t least = i == 0 ? 0 : list[i - 1];
    if (list[i] < least || list[i] > most)
      refuse(op, Code::invalid_argument,
             support::cat(name, "[", i, "] is ", list[i], "; allowed: ", least, i == 0 ? "" : ", the one before it,",
                          " to ", most, ", ", what));
  }
}

}  // namespace tj::ops
