// Groups: members by NCCL's communicators, or ranks of the CPU model. See tilejit/dist.hpp.
#include "dist/group.hpp"

#include <utility>

#include "runtime_impl.hpp"
#include "support/fail.hpp"

namespace tj::dist {

using support::cat;
using support::fail;

struct Group::Impl {
  Impl(Runtime& of, std::shared_ptr<Runtime::Impl> parts, std::unique_ptr<Transport> by, Device on)
      : inside(std::move(parts)),
        transport(std::move(by)),
        side(inside->backends.driver(on)->side_stream(on.index)),
        member{of,
               *transport,
               on,
               [this](std::size_t bytes, Stream stream) { return inside->workspace(member.device, bytes, stream); },
               [this](const ops::Op& op, const void* args) {
                 inside->load_steps({&op, args, inside->kernel_of(op, op.problem_key(args), member.device)},
                                    member.device);
               },
               *side} {}
  const std::shared_ptr<Runtime::Impl> inside;
  const std::unique_ptr<Transport> transport;
  const std::shared_ptr<launch::SideStream> side;
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
  impl_ = std::make_shared<Impl>(runtime, runtime.impl_, nccl_by_id(id, rank, size, device), device);
}

Group::Group(Runtime& runtime, void* nccl_comm, Device device) {
  check_device(device);
  impl_ = std::make_shared<Impl>(runtime, runtime.impl_, nccl_of(nccl_comm, device), device);
}

std::vector<Group> Group::on_model(Runtime& runtime, int size) {
  check_size(size);
  std::vector<Group> members;
  for (auto& transport : local_transports(size, runtime.impl_->settings.wait_limit_s))
    members.push_back(
        Group(std::make_shared<Impl>(runtime, runtime.impl_, std::move(transport), Device{DeviceKind::cpu, 0})));
  return members;
}

int Group::rank() const noexcept { return impl_->transport->rank(); }
int Group::size() const noexcept { return impl_->transport->size(); }
Device Group::device() const noexcept { return impl_->member.device; }

void Group::prepare(const ContextFmhaArgs& args) { prepare_context_fmha(impl_->member, args); }
void Group::fmha(const ContextFmhaArgs& args, Stream stream) { run_context_fmha(impl_->member, args, stream); }
void Group::prepare(const AllGatherGemmArgs& args) { prepare_all_gather_gemm(impl_->member, args); }
void Group::all_gather_gemm(const AllGatherGemmArgs& args, Stream stream) {
  run_all_gather_gemm(impl_->member, args, stream);
}
void Group::prepare(const GemmReduceScatterArgs& args) { prepare_gemm_reduce_scatter(impl_->member, args); }
void Group::gemm_reduce_scatter(const GemmReduceScatterArgs& args, Stream stream) {
  run_gemm_reduce_scatter(impl_->member, args, stream);
}
void Group::check() { impl_->transport->check(); }

}  // namespace tj::dist
