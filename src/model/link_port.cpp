// See link_port.hpp.
#include "model/link_port.hpp"

#include <chrono>
#include <thread>

#include "support/lasting.hpp"

namespace tj::model {
namespace {

class HostWords final : public LinkPort {
 public:
  std::uint32_t load(Thread&, const std::uint32_t* word) override { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
  void store(Thread&, std::uint32_t* word, std::uint32_t value) override {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
  }
  void rest(Thread&) override { std::this_thread::sleep_for(std::chrono::microseconds(20)); }
  std::uint64_t time_ns() const override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
  }
  void access(std::uintptr_t, std::size_t, bool) override {}
};

}  // namespace

LinkPort& words_of_host() {
  static constinit support::Lasting<HostWords> words;
  return words.get();
}

}  // namespace tj::model
