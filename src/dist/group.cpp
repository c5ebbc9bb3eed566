// Groups: members by NCCL's communicators, or ranks of the CPU model. See tilejit/dist.hpp.
#include "dist/group.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dist/peers.hpp"
#include "runtime_impl.hpp"
#include "support/environment.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/process_end.hpp"
#include "support/uncancelled.hpp"

namespace tj::dist {

using support::cat;
using support::fail;

namespace {

/// The place of a variable's word among those that are allowed; 0: not set.
std::size_t chosen(const char* name, std::span<const char* const> words) {
  const auto value = support::environment_variable(name);
  if (!value) return 0;
  const auto found = std::find(words.begin(), words.end(), *value);
  if (found == words.end()) {
    std::string allowed;
    for (const char* word : words) allowed += cat(allowed.empty() ? "" : ", ", word);
    fail(Stage::argument, Code::invalid_argument, cat(name, " is '", *value, "'; allowed: ", allowed));
  }
  return static_cast<std::size_t>(found - words.begin());
}

constexpr const char* kTransports[] = {"auto", "ipc", "nccl"};
constexpr const char* kPieces[] = {"auto", "1", "2", "3", "4"};
constexpr const char* kOrders[] = {"auto", "whole", "own_first"};

}  // namespace

bool Member::opened(std::size_t slot_bytes, Stream stream) const {
  if (peers == nullptr || !peers->possible()) return false;
  begun = true;
  const bool open = peers->ready(slot_bytes, stream);
  begun = false;
  return open;
}

struct Group::Impl {
  /// A forked child leaves all of it: streams, memory and communicators are its parent's.
  static std::shared_ptr<Impl> make(std::shared_ptr<Runtime::Impl> parts, std::unique_ptr<Transport> by, Device on) {
    return {new Impl(std::move(parts), std::move(by), on), [](Impl* impl) {
              const support::Uncancelled whole;  // it waits for other ranks
              if (impl->generation == support::process_generation()) delete impl;
            }};
  }
  Impl(std::shared_ptr<Runtime::Impl> parts, std::unique_ptr<Transport> by, Device on)
      : inside(std::move(parts)),
        transport(std::move(by)),
        driver(inside->backends.driver(on)),
        side(driver->side_stream(on.index)),
        other(driver->side_stream(on.index)),
        peers(peers_by(on)),
        member{*transport,
               on,
               [this](std::size_t bytes, Stream stream) { return inside->workspace(member.device, bytes, stream); },
               [this](const ops::Op& op, const void* args) { inside->prepare(op, args); },
               [this](const ops::Op& op, const void* args) { make(op, args); },
               [this](const ops::Op& op, const void* args, Stream stream) { load(op, args, stream); },
               [this](const ops::Op& op, const void* args, Stream stream) { inside->run(op, args, stream); },
               *side,
               begun,
               peers.get(),
               static_cast<Order>(chosen("TJ_DIST_ORDER", kOrders)),
               *other,
               static_cast<int>(chosen("TJ_DIST_PIECES", kPieces)),
               launch::peer_memory_of(*driver),
               rates_of(inside->backends.arch(on))} {}

  /// A rank frees what others write only when all have come to their end. That memory stays where a group is broken, or
  /// a rank does not come. NCCL's work is ended first: it may wait for a rank that never comes, and frees wait for it.
  ~Impl() {
    if (support::process_is_ending()) return;
    bool works = true;
    try {
      check();
    } catch (const std::exception&) {  // without memory for the words, too
      works = false;
    }
    if (works && (!peers || peers->leave())) return;
    transport->give_up("the group has ended");
    transport->end();
    if (peers) peers->keep();
  }

  /// Ranks of the model send messages unless somebody asks for copies, and NCCL's can be asked to.
  std::unique_ptr<Peers> peers_by(Device on) {
    const std::size_t by = chosen("TJ_DIST_TRANSPORT", kTransports);
    if (transport->size() == 1 || by == 2 || (by == 0 && on.kind == DeviceKind::cpu)) return nullptr;
    return std::make_unique<Peers>(
        *transport, *driver, *side, on, inside->settings.wait_limit_s,
        Peers::Kernels{[this](const ops::Op& op, const void* args) { make(op, args); },
                       [this](const ops::Op& op, const void* args, Stream stream) { load(op, args, stream); },
                       [this](const ops::Op& op, const void* args, Stream stream) { inside->run(op, args, stream); },
                       [this](const std::string& text) { inside->log(LogLevel::info, text); }});
  }

  void make(const ops::Op& op, const void* args) const {
    inside->load_steps({&op, args, inside->kernel_of(op, op.problem_key(args), member.device)}, member.device);
  }
  void load(const ops::Op& op, const void* args, Stream stream) const {
    op.validate(args, inside->backends.on_model(member.device));
    if (op.asks_for_nothing(args)) return;
    const ops::Kernel kernel = inside->kernel_of(op, op.problem_key(args), member.device);
    op.steps(args, kernel, ops::nowhere(), [&](const ops::Step& step) { inside->loaded(step, member.device, stream); });
  }
  /// A call of all ranks. One that fails between its exchanges leaves messages of the ranks out of step for good. One
  /// whose thread ends in a function of the user's does so, too.
  template <class Work>
  void together(const Work& work) {
    check();
    begun = false;
    const auto gone = [this] { break_off("its thread called exit()"); };
    const support::IfExitComes if_exit_comes(gone);
    try {
      work();
    } catch (const Error& error) {
      if (begun) break_off(error.message);
      throw;
    } catch (const std::bad_alloc&) {
      if (begun) break_off(kNoMemory);
      throw;
    } catch (abi::__forced_unwind&) {
      break_off("its thread has ended");
      throw;
    } catch (...) {
      if (begun) break_off("a function of the program's has thrown");
      throw;
    }
  }
  void break_off(std::string_view why) noexcept {
    transport->give_up(why);
    try {
      broken = why;
    } catch (const std::bad_alloc&) {
      broken = kNoMemory;
    }
  }
  void check_process() const {
    if (generation != support::process_generation())
      fail(Stage::launch, Code::invalid_argument,
           "a child of fork() has no group: this one is its parent's; make a new one, for GPUs behind exec()");
  }
  const Member& here() const {
    check_process();
    return member;
  }
  void check() const {
    check_process();
    if (!broken.empty())
      fail(Stage::launch, Code::driver_error,
           cat("the group is broken, as an earlier call of this rank failed: ", broken, "; make a new one"));
    transport->check();
    if (peers) peers->check();
  }

  static constexpr std::string_view kNoMemory = "out of memory";  // short enough for a string that allocates nothing
  const std::uint32_t generation = support::process_generation();
  const std::shared_ptr<Runtime::Impl> inside;
  const std::unique_ptr<Transport> transport;
  const std::shared_ptr<launch::Driver> driver;
  const std::shared_ptr<launch::SideStream> side, other;
  const std::unique_ptr<Peers> peers;  ///< null: bytes go by messages alone
  bool begun = false;
  std::string broken;  ///< why; empty while it works
  const Member member;
};

namespace {

constexpr int kMostRanks = 1024;

void check_size(int size) {
  if (size < 1 || size > kMostRanks)
    fail(Stage::argument, Code::invalid_argument, cat("size is ", size, "; allowed: 1 to ", kMostRanks));
}
void check_device(Device device) {
  if (device.kind == DeviceKind::hip)
    fail(Stage::argument, Code::unsupported,
         cat("device is ", to_string(device), "; allowed: a GPU of NVIDIA, or cpu"));
}

}  // namespace

std::string Group::unique_id() { return nccl_unique_id(); }

Group::Group(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Group::~Group() = default;

Group::Group(Runtime& runtime, std::string_view id, int rank, int size, Device device) {
  check_size(size);
  if (rank < 0 || rank >= size)
    fail(Stage::argument, Code::invalid_argument, cat("rank is ", rank, "; allowed: 0 to ", size - 1));
  check_device(device);
  impl_ = Impl::make(runtime.impl_, nccl_by_id(id, rank, size, device, runtime.impl_->settings.wait_limit_s), device);
}

Group::Group(Runtime& runtime, void* nccl_comm, Device device) {
  check_device(device);
  impl_ = Impl::make(runtime.impl_, nccl_of(nccl_comm, device, runtime.impl_->settings.wait_limit_s), device);
}

std::vector<Group> Group::on_model(Runtime& runtime, int size) {
  check_size(size);
  std::vector<Group> members;
  for (auto& transport : local_transports(size, runtime.impl_->settings.wait_limit_s))
    members.push_back(Group(Impl::make(runtime.impl_, std::move(transport), Device{DeviceKind::cpu, 0})));
  return members;
}

int Group::rank() const noexcept { return impl_->transport->rank(); }
int Group::size() const noexcept { return impl_->transport->size(); }
Device Group::device() const noexcept { return impl_->member.device; }

void Group::prepare(const ContextFmhaArgs& args) { prepare_context_fmha(impl_->here(), args); }
void Group::fmha(const ContextFmhaArgs& args, Stream stream) {
  impl_->together([&] { run_context_fmha(impl_->member, args, stream); });
}
void Group::prepare(const ContextDecodeArgs& args) { prepare_context_decode(impl_->here(), args); }
void Group::decode(const ContextDecodeArgs& args, Stream stream) {
  impl_->together([&] { run_context_decode(impl_->member, args, stream); });
}
void Group::prepare(const AllGatherGemmArgs& args) { prepare_all_gather_gemm(impl_->here(), args); }
void Group::all_gather_gemm(const AllGatherGemmArgs& args, Stream stream) {
  impl_->together([&] { run_all_gather_gemm(impl_->member, args, stream); });
}
void Group::prepare(const GemmReduceScatterArgs& args) { prepare_gemm_reduce_scatter(impl_->here(), args); }
void Group::gemm_reduce_scatter(const GemmReduceScatterArgs& args, Stream stream) {
  impl_->together([&] { run_gemm_reduce_scatter(impl_->member, args, stream); });
}
void Group::check() { impl_->check(); }
std::string Group::description() const { return impl_->peers ? impl_->peers->description() : std::string("messages"); }

}  // namespace tj::dist
