// Plans: made once, run many times; see tilejit/plan.hpp.
//
// Decides how a call becomes a plan, and what a run does. Knows no op by name.
#include "plan_impl.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "prepared.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"
#include "support/walk_param.hpp"
#include "workspace_use.hpp"

namespace tj {

using support::cat;
using support::fail;

namespace {

constexpr std::uintptr_t kAlignment = 16;  // more matters to no launch

/// A launch and its kernel, planned over made-up addresses.
struct Planned {
  KernelTable::Hold kernel;
  ops::LaunchPlan plan;
};

}  // namespace

class Plan::Impl::Maker {
 public:
  Maker(Runtime::Impl& runtime, const ops::Op& op, const void* args)
      : runtime_(runtime), op_(op), placement_(op, args), device_(op.device_of(args)) {}

  void fill(Plan::Impl& plan) {
    const void* const call = placement_.get();
    op_.validate(call, runtime_.backends.on_model(device_));
    placement_.check_span();
    if (op_.asks_for_nothing(call)) return fill_without_launches(plan);
    kernel_ = runtime_.prepared_kernel(op_, op_.problem_key(call), device_);
    plan.op = &op_;
    plan.device = device_;
    plan.kernel = kernel_;
    plan.choices = runtime_.tunings.version(device_);
    plan.report = runtime_.load_steps({&op_, call, kernel_}, device_, on_miss());
    lay_out_workspace(plan, op_.scratch_bytes(call, kernel_));
    std::vector<Planned> first = planned(placement_.places());
    const std::vector<Planned> second = planned(moved(placement_.places()));
    for (std::size_t i = 0; i < first.size(); ++i) {
      const Relocations found =
          relocations(op_.name(), first[i].plan, second.at(i).plan, placement_.places(), placement_.tensors());
      plan.launches.push_back({{}, first[i].plan, found});
      encode_tensor_maps(*first[i].kernel, plan.launches.back().plan);
    }
    for (std::size_t i = 0; i < placement_.tensors(); ++i) {
      const auto element = static_cast<std::uintptr_t>(size_of(placement_.tensor(i).tensor->dtype));
      add_tensor(plan, i, (moves_freely(i, first, plan) ? element : kAlignment) - 1);
    }
    for (std::size_t i = 0; i < first.size(); ++i) plan.launches[i].kernel = std::move(first[i].kernel);
    if (runtime_.backends.on_model(device_)) plan.args = op_.copy(placement_.get());
    if (runtime_.settings.check_lists) plan.checked = op_.copy(placement_.get());
  }

 private:
  /// Of a call that asks for nothing. Its runs take addresses as others do.
  void fill_without_launches(Plan::Impl& plan) {
    plan.op = &op_;
    plan.device = device_;
    plan.choices = runtime_.tunings.version(device_);
    for (std::size_t i = 0; i < placement_.tensors(); ++i) add_tensor(plan, i, 0);
    if (runtime_.settings.check_lists) plan.checked = op_.copy(placement_.get());
  }

  /// A plan keeps its kernels, so they are the best ones.
  MissPolicy on_miss() const {
    return runtime_.settings.on_miss == MissPolicy::error ? MissPolicy::error : MissPolicy::wait;
  }

  std::vector<Planned> planned(const Places& places) {
    std::vector<Planned> list;
    op_.steps(placement_.at(places), kernel_, reinterpret_cast<void*>(places[placement_.tensors()]),
              [&](const ops::Step& step) {
                Planned& each = list.emplace_back();
                each.kernel = runtime_.loaded(step, device_, {});
                set_device(*each.kernel, each.plan);
                plan_step(step, *each.kernel, each.plan, [&](const support::WalkMemory& memory) {
                  walk_.zeroed = std::max(walk_.zeroed, memory.zeroed);
                  walk_.pieces = std::max(walk_.pieces, memory.pieces);
                  const auto place = places[placement_.tensors()] + walk_offset_;
                  return support::WalkPlace{reinterpret_cast<void*>(place), walk_.zeroed};
                });
              });
    return list;
  }

  /// The steps' memory, and behind it what launches take whose blocks draw their tiles. Only a planned launch has a
  /// grid, which that depends on.
  void lay_out_workspace(Plan::Impl& plan, std::size_t scratch_bytes) {
    constexpr std::size_t kAlign = ops::kScratchAlignment;
    scratch_bytes_ = scratch_bytes;
    walk_offset_ = (scratch_bytes + kAlign - 1) / kAlign * kAlign;
    static_cast<void>(planned(placement_.places()));
    plan.draws = walk_.zeroed > 0;
    plan.walk_offset = walk_offset_;
    plan.walk = walk_;
    plan.workspace_bytes = plan.draws ? walk_offset_ + walk_.bytes() : scratch_bytes;
  }

  /// mask: the bits of an address that count, where the tensor has any elements.
  void add_tensor(Plan::Impl& plan, std::size_t i, std::uintptr_t mask) {
    const ops::ListedTensor& listed = placement_.tensor(i);
    PlannedTensor tensor;
    tensor.mask = placement_.bytes(i) == 0 ? 0 : mask;
    tensor.remainder = placement_.places()[i] & tensor.mask;
    tensor.bytes = placement_.bytes(i);
    tensor.written = listed.written;
    tensor.may_be = listed.may_be;
    plan.tensors.push_back(tensor);
    plan.names.emplace_back(listed.name);
  }

  /// Whether the call takes the tensor at any multiple of its elements, and is served in the same way there.
  bool moves_freely(std::size_t tensor, const std::vector<Planned>& first, const Plan::Impl& plan) {
    const auto element = static_cast<std::uintptr_t>(size_of(placement_.tensor(tensor).tensor->dtype));
    Places places = placement_.places();
    places[tensor] += element;
    try {
      const void* const call = placement_.at(places);
      op_.validate(call, runtime_.backends.on_model(device_));
      if (!(runtime_.kernel_of(op_, op_.problem_key(call), device_) == kernel_)) return false;
      if (op_.scratch_bytes(call, kernel_) != scratch_bytes_) return false;
      const std::vector<Planned> other = planned(places);
      if (other.size() != first.size()) return false;
      for (std::size_t i = 0; i < first.size(); ++i)
        if (&*other[i].kernel != &*first[i].kernel ||
            !same_but_for(tensor, element, first[i].plan, other[i].plan, plan.launches[i].relocations))
          return false;
      return true;
    } catch (const Error&) {  // it must lie as it does
      return false;
    }
  }

  Runtime::Impl& runtime_;
  const ops::Op& op_;
  Placement placement_;
  Device device_;
  ops::Kernel kernel_;
  std::size_t scratch_bytes_ = 0, walk_offset_ = 0;
  support::WalkMemory walk_;
};

Plan Runtime::plan(const ops::Op& op, const void* args) {
  auto made = std::make_shared<Plan::Impl>();
  made->runtime = impl_;
  Plan::Impl::Maker(*used(impl_), op, args).fill(*made);
  return Plan(std::move(made));
}

void Plan::Impl::refuse(std::size_t tensor, std::uintptr_t address) const {
  const PlannedTensor& of = tensors[tensor];
  if (address == 0)
    fail(Stage::argument, Code::invalid_argument,
         cat(op->name(), ": the address of ", names[tensor], " is null; allowed: that of ", of.bytes, " bytes on ",
             to_string(device)));
  if (address + of.bytes < address)
    fail(Stage::argument, Code::invalid_argument,
         cat(op->name(), ": the address of ", names[tensor], " is ", reinterpret_cast<void*>(address),
             "; allowed: one from which ", of.bytes, " bytes end within the address space"));
  fail(Stage::argument, Code::invalid_argument,
       cat(op->name(), ": the address of ", names[tensor], " is ", reinterpret_cast<void*>(address),
           "; allowed: multiples of ", of.mask + 1,
           of.remainder == 0 ? std::string() : cat(" and ", of.remainder, " bytes"), ", as the plan was made for"));
}

void Plan::Impl::refuse_overlap(std::size_t a, std::size_t b, const Places& places) const {
  const auto range = [&](std::size_t i) {
    return cat(i < names.size() ? names[i] : std::string("workspace"), " at ", reinterpret_cast<void*>(places[i]), " (",
               i < names.size() ? tensors[i].bytes : workspace_bytes, " bytes)");
  };
  fail(Stage::argument, Code::invalid_argument,
       cat(op->name(), ": ", range(a), " overlaps ", range(b), "; allowed: memory that meets no other tensor's"));
}

void Plan::Impl::check(std::span<void* const> addresses, Places& places) const {
  if (addresses.size() != tensors.size()) [[unlikely]] {
    std::string wanted;
    for (const std::string& name : names) wanted += cat(wanted.empty() ? "" : ", ", name);
    fail(Stage::argument, Code::invalid_argument,
         cat(op->name(), ": addresses are ", addresses.size(), "; allowed: ", tensors.size(), ", of ", wanted));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    places[i] = reinterpret_cast<std::uintptr_t>(addresses[i]);
    if ((places[i] == 0 && tensors[i].bytes > 0) || (places[i] & tensors[i].mask) != tensors[i].remainder ||
        places[i] + tensors[i].bytes < places[i]) [[unlikely]]
      refuse(i, places[i]);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].written || tensors[i].bytes == 0) continue;
    for (std::size_t j = 0; j < tensors.size(); ++j) {
      const bool meet =
          tensors[j].bytes > 0 && places[i] < places[j] + tensors[j].bytes && places[j] < places[i] + tensors[i].bytes;
      if (meet && i != j && !(tensors[i].may_be == static_cast<int>(j) && places[i] == places[j])) [[unlikely]]
        refuse_overlap(i, j, places);
    }
  }
}

void Plan::Impl::check_workspace(void* workspace, const Places& places) const {
  const std::uintptr_t begin = places[tensors.size()];
  if (begin % ops::kScratchAlignment != 0)
    fail(Stage::argument, Code::invalid_argument,
         cat(op->name(), ": workspace is ", workspace, "; allowed: multiples of ", ops::kScratchAlignment));
  if (begin + workspace_bytes < begin)
    fail(Stage::argument, Code::invalid_argument,
         cat(op->name(), ": workspace is ", workspace, "; allowed: an address from which ", workspace_bytes,
             " bytes end within the address space"));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].bytes > 0 && begin < places[i] + tensors[i].bytes && places[i] < begin + workspace_bytes)
      refuse_overlap(tensors.size(), i, places);
}

void Plan::Impl::launch_one(const PlannedLaunch& each, const Places& places,
                            std::span<const support::MemoryRange> memory, Stream stream) const {
  const LoadedKernel& loaded = *each.kernel;
  alignas(64) std::array<std::byte, ops::LaunchPlan::kMaxParamsBytes> params;
  std::memcpy(params.data(), each.plan.params.data(), each.plan.params_bytes);
  const auto address = [&](const Relocation& of) { return places[of.tensor] + static_cast<std::uint64_t>(of.bytes); };
  for (const Relocation& pointer : each.relocations.pointers) {
    const std::uint64_t word = address(pointer);
    std::memcpy(params.data() + pointer.offset, &word, sizeof word);
  }
  if (!each.relocations.maps.empty()) {
    std::array<launch::MovedTensorMap, ops::LaunchPlan::kMaxMaps> maps;
    std::size_t count = 0;
    for (const Relocation& map : each.relocations.maps)
      maps[count++] = {params.data() + map.offset, reinterpret_cast<void*>(address(map))};
    loaded.driver->move_tensor_maps(loaded.device, {maps.data(), count});
  }
  const support::ToolRange range = runtime->tell_launch(op->name(), loaded, each.plan.blocks);
  runtime->note_graph(each.kernel, stream);
  loaded.driver->launch(loaded.device, *loaded.kernel, loaded.config(each.plan, memory), params.data(),
                        each.plan.params_bytes, stream);
}

void Plan::Impl::launch_on_model(const Places& places, Stream stream) const {
  Placement placement(*op, args.get());
  std::size_t next = 0;
  op->steps(placement.at(places), kernel, reinterpret_cast<void*>(places[tensors.size()]), [&](const ops::Step& step) {
    ops::Touched memory(step.op, step.args);
    memory.scratch(reinterpret_cast<void*>(places[tensors.size()] + walk_offset + walk.zeroed), walk.pieces);
    launch_one(launches[next++], places, memory.ranges(), stream);
  });
}

void Plan::Impl::launch(const Places& places, Stream stream) const {
  if (args) return launch_on_model(places, stream);
  for (const PlannedLaunch& each : launches) launch_one(each, places, {}, stream);
}

void Plan::Impl::zero_counters(std::uintptr_t workspace, Stream stream) const {
  const LoadedKernel& any = *launches.front().kernel;
  any.driver->zero(any.device, reinterpret_cast<void*>(workspace + walk_offset), walk.zeroed, stream);
}

void Plan::Impl::check_counters(std::uintptr_t workspace, Stream stream) const {
  launch::Driver& driver = *launches.front().kernel->driver;
  if (driver.capturing(device.index, stream)) return;
  std::vector<std::uint32_t> counters(walk.zeroed / sizeof(std::uint32_t));
  driver.synchronize(device.index, stream);
  driver.copy(device.index, counters.data(), false, reinterpret_cast<void*>(workspace + walk_offset), true,
              counters.size() * sizeof(std::uint32_t));
  const auto left = std::find_if(counters.begin(), counters.end(), [](std::uint32_t counter) { return counter != 0; });
  if (left == counters.end()) return;
  const auto number = left - counters.begin();
  fail(Stage::argument, Code::invalid_argument,
       cat(op->name(), ": counter ", number, " of workspace ", reinterpret_cast<void*>(workspace), " is ", *left,
           number == 0 ? ", of all blocks together" : ", of single blocks",
           "; allowed: 0. A run before this one was aborted, or the memory was never zeroed; zero ", walk.zeroed,
           " bytes from byte ", walk_offset, " on, and run again"));
}

void Plan::run(std::span<void* const> addresses, Stream stream, void* workspace) const {
  const Impl& plan = *impl_;
  Places places;
  plan.check(addresses, places);
  if (plan.checked)
    plan.runtime->check_lists(*plan.op, Placement(*plan.op, plan.checked.get()).at(places), plan.device, stream);
  if (plan.workspace_bytes == 0) return plan.launch(places, stream);
  std::uintptr_t& place = places[plan.tensors.size()];
  if (workspace == nullptr) {
    const std::shared_ptr<void> taken = plan.runtime->workspace(plan.device, plan.workspace_bytes, stream);
    place = reinterpret_cast<std::uintptr_t>(taken.get());
    if (plan.draws) plan.zero_counters(place, stream);
    return plan.launch(places, stream);
  }
  place = reinterpret_cast<std::uintptr_t>(workspace);
  plan.check_workspace(workspace, places);
  const WorkspaceUse use(workspace, stream.handle, plan.args != nullptr);
  if (use.clash())
    fail(Stage::argument, Code::invalid_argument,
         cat(plan.op->name(), ": workspace ", workspace,
             " is in use by another run at this moment; allowed: one run at a time, or a workspace for each stream"));
  if (plan.draws && plan.checked) plan.check_counters(place, stream);
  plan.launch(places, stream);
}

const std::vector<std::string>& Plan::tensors() const noexcept { return impl_->names; }
Device Plan::device() const noexcept { return impl_->device; }
std::size_t Plan::workspace_bytes() const noexcept { return impl_->workspace_bytes; }
std::size_t Plan::workspace_alignment() const noexcept { return ops::kScratchAlignment; }
bool Plan::workspace_zeroed() const noexcept { return impl_->draws; }
bool Plan::current() const noexcept { return impl_->runtime->tunings.version(impl_->device) == impl_->choices; }
const KernelReport& Plan::report() const noexcept { return impl_->report; }

}  // namespace tj
