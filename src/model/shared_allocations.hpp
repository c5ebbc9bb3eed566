// Memory that ranks of one process on the CPU model share: a handle is a number in a list.
//
// Invariant: a number is given once, and memory that its owner has freed is not handed out. Thread safe.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "launch/peer_memory.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"

namespace tj::model {

class SharedAllocations {
 public:
  launch::SharedMemory add(const std::shared_ptr<void>& memory) {
    const std::lock_guard lock(mutex_);
    std::erase_if(given_, [](const auto& each) { return each.second.expired(); });
    given_[++last_] = memory;
    launch::SharedMemory shared;
    std::memcpy(shared.handle.data(), &last_, sizeof(last_));
    return shared;
  }
  std::shared_ptr<void> find(const launch::SharedMemory& shared) const {
    std::uint64_t number = 0;
    std::memcpy(&number, shared.handle.data(), sizeof(number));
    const std::lock_guard lock(mutex_);
    const auto found = given_.find(number);
    std::shared_ptr<void> memory = found != given_.end() ? found->second.lock() : nullptr;
    if (memory == nullptr)
      support::fail(Stage::launch, Code::driver_error,
                    support::cat("shared memory ", number,
                                 " of the CPU model is not there: its owner has freed it, or "
                                 "it is another process's"));
    return memory;
  }

 private:
  mutable support::Mutex mutex_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::weak_ptr<void>> given_;
};

}  // namespace tj::model
