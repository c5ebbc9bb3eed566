// See bounded_log.hpp.
#include "support/bounded_log.hpp"

#include <algorithm>

#include "support/fail.hpp"

namespace tj::support {

void BoundedLog::append(std::string_view bytes) {
  const std::size_t first = std::min(bytes.size(), kept_ - head_.size());
  head_.append(bytes.substr(0, first));
  tail_.append(bytes.substr(first));
  if (tail_.size() <= 2 * kept_) return;  // moved rarely
  dropped_ += tail_.size() - kept_;
  tail_.erase(0, tail_.size() - kept_);
}

std::string BoundedLog::text() const {
  const std::size_t over = tail_.size() > kept_ ? tail_.size() - kept_ : 0;
  if (dropped_ + over == 0) return head_ + tail_;
  return cat(head_, head_.ends_with('\n') ? "" : "\n", "[", dropped_ + over, " bytes are left out here]\n",
             std::string_view(tail_).substr(over));
}

}  // namespace tj::support
