// See host_gate.hpp.
#include "api/host_gate.hpp"

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "api/c_errors.hpp"
#include "api/objects.h"
#include "support/lasting.hpp"
#include "support/patience.hpp"

namespace tj::c_api {
namespace {

// State of the whole process: one gate for each interpreter that has opened the library.
constinit support::Lasting<std::vector<std::unique_ptr<HostGate>>> gates;
constinit support::Mutex gates_mutex;

}  // namespace

HostGate::Inside::Inside(HostGate* gate) : gate_(gate) {
  if (gate_ == nullptr) return;
  const std::lock_guard lock(gate_->mutex_);
  generation_ = support::process_generation();
  if (gate_->generation_ != generation_) gate_->inside_ = 0;  // threads of the parent, which are not here
  gate_->generation_ = generation_;
  begun_ = !gate_->closed_;
  if (begun_) ++gate_->inside_;
}

HostGate::Inside::~Inside() {
  if (gate_ == nullptr || !begun_) return;
  {
    const std::lock_guard lock(gate_->mutex_);
    if (gate_->generation_ == generation_) --gate_->inside_;
  }
  gate_->left_.ring();
}

HostGate* HostGate::make() {
  auto made = std::make_unique<HostGate>();
  HostGate* const gate = made.get();
  const std::lock_guard lock(gates_mutex);
  gates.get().push_back(std::move(made));
  return gate;
}

HostGate* HostGate::at(const void* address) {
  if (address == nullptr) return nullptr;
  const std::lock_guard lock(gates_mutex);
  for (const auto& each : gates.get())
    if (each.get() == address) return each.get();
  return nullptr;
}

bool HostGate::close(double seconds) {
  const support::Patience patience(seconds);
  for (;;) {
    const std::uint32_t before = left_.rung();
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      if (inside_ == 0 || generation_ != support::process_generation()) return true;
    }
    if (patience.over()) return false;
    left_.wait(before, patience.step(std::chrono::seconds(1)));
  }
}

}  // namespace tj::c_api

tj_status tj_host_gate_create(tj_host_gate** out) {
  return tj::c_api::guarded([&] {
    tj::c_api::need(out, "out");
    *out = nullptr;
    *out = reinterpret_cast<tj_host_gate*>(tj::c_api::HostGate::make());
  });
}

tj_status tj_host_gate_close(tj_host_gate* gate, double seconds) {
  return tj::c_api::guarded([&] {
    if (auto* const found = tj::c_api::HostGate::at(gate)) found->close(seconds);
  });
}
