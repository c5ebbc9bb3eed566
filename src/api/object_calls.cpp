// See object_calls.hpp.
#include "api/object_calls.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::api {

using support::cat;
using support::fail;

bool Layouts::add(const dlpack::Tensor& tensor) noexcept {
  if (tensor.rank < 0 || tensor.rank > kMaxRank) return false;
  const auto rank = static_cast<std::size_t>(tensor.rank);
  std::int64_t* const words = words_.data() + count_;
  words[0] = (static_cast<std::int64_t>(tensor.device_type) << 32) | static_cast<std::uint32_t>(tensor.device_id);
  words[1] = (static_cast<std::int64_t>(tensor.rank) << 32) | (std::int64_t{tensor.type_code} << 24) |
             (std::int64_t{tensor.bits} << 16) | tensor.lanes;
  std::int64_t* const shape = words + 2;
  std::int64_t* const strides = shape + rank;
  std::uint64_t dense = 1;  // without a sign: views that repeat their elements have shapes of any size
  for (std::size_t i = rank; i-- > 0;) {
    shape[i] = tensor.shape[i];
    strides[i] = tensor.strides != nullptr ? tensor.strides[i] : static_cast<std::int64_t>(dense);
    dense *= static_cast<std::uint64_t>(shape[i]);
  }
  count_ += 2 + 2 * rank;
  return true;
}

std::uint64_t Layouts::hash() const noexcept {
  std::uint64_t found = count_;
  for (std::size_t i = 0; i < count_; ++i) {
    found = (found ^ static_cast<std::uint64_t>(words_[i])) * 0x9e3779b97f4a7c15ull;
    found ^= found >> 29;
  }
  return found | 1;  // 0 is none
}

bool operator==(const Layouts& a, const Layouts& b) noexcept {
  return a.count_ == b.count_ && std::equal(a.words_.begin(), a.words_.begin() + a.count_, b.words_.begin());
}

namespace {

bool is_dense(const dlpack::Tensor& tensor) noexcept {
  std::uint64_t dense = 1;
  for (std::int32_t i = tensor.rank; i-- > 0; dense *= static_cast<std::uint64_t>(tensor.shape[i]))
    if (tensor.strides != nullptr && tensor.shape[i] > 1 && static_cast<std::uint64_t>(tensor.strides[i]) != dense)
      return false;
  return true;
}

/// A tensor with gaps in every dimension is left to the caller: a framework may mark such a view to be read in another
/// way (PyTorch's views of conjugated numbers), which DLPack does not say.
bool is_plain(const dlpack::Tensor& tensor) noexcept {
  if (tensor.rank == 0 || tensor.strides == nullptr) return true;
  bool one_element = true;
  for (std::int32_t i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] <= 1) continue;
    if (tensor.strides[i] == 1) return true;
    one_element = false;
  }
  return one_element && tensor.strides[tensor.rank - 1] == 1;
}

void* address_of(const dlpack::Tensor& tensor) noexcept {
  return tensor.data == nullptr ? nullptr : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

/// The framework's stream on the device of a tensor, for work that no stream was named for.
bool find_stream(const dlpack::ExchangeApi& api, const tj_object_host& host, const dlpack::Tensor& of,
                 Stream& stream) noexcept {
  if (of.device_type == dlpack::kCpu) return true;
  if (api.current_stream(of.device_type, of.device_id, &stream.handle) == 0) return true;
  host.clear_error();
  return false;
}

bool run_at(const Plan& plan, std::span<void* const> addresses, Stream stream) noexcept {
  try {
    plan.run(addresses, stream);
    return true;
  } catch (...) {  // the caller makes the call again and hears why
    return false;
  }
}

/// New tensors of the framework, given back unless an object has taken them.
class Allocated {
 public:
  explicit Allocated(std::size_t count) : count_(count) {}
  Allocated(const Allocated&) = delete;
  Allocated& operator=(const Allocated&) = delete;
  ~Allocated() {
    for (std::size_t i = 0; i < count_; ++i)
      if (tensors_[i] != nullptr && tensors_[i]->deleter != nullptr) tensors_[i]->deleter(tensors_[i]);
  }
  std::span<dlpack::ManagedTensor*> span() { return {tensors_.data(), count_}; }

 private:
  std::array<dlpack::ManagedTensor*, TJ_MAX_OBJECTS> tensors_{};
  std::size_t count_;
};

}  // namespace

bool ObjectSource::wants_grad(std::span<void* const> objects) const noexcept {
  if (records == nullptr) return false;
  const auto is_no = [&](void* answer) {  // what is no answer counts as yes, and the caller hears why
    if (answer == nullptr) {
      host.clear_error();
      return false;
    }
    host.release(answer);
    return answer == host.no;
  };
  if (is_no(host.call(records, nullptr))) return false;
  return !std::all_of(objects.begin(), objects.end(),
                      [&](void* object) { return is_no(host.attribute(object, host.wants_grad)); });
}

bool ObjectCalls::read(std::span<void* const> objects, Tensors& tensors, Layouts& layouts) const noexcept {
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (source_.api.tensor_of_object(objects[i], &tensors[i]) != 0) {
      source_.host.clear_error();
      return false;
    }
    if (!layouts.add(tensors[i])) return false;
  }
  return true;
}

bool ObjectCalls::wanted(std::span<void* const> objects) {
  Tensors tensors;
  Layouts layouts;
  if (!read(objects.first(given()), tensors, layouts)) return false;
  const std::uint64_t hash = layouts.hash();
  const std::lock_guard lock(mutex_);
  return std::exchange(seen_[hash % kSeen], hash) == hash;
}

void ObjectCalls::keep(const Plan& plan, std::span<void* const> objects) {
  if (plan.device().kind == DeviceKind::cpu)
    fail(Stage::argument, Code::unsupported, "plan runs on the model; allowed: plans of a GPU's calls");
  Tensors tensors;
  Layouts layouts, all;
  if (!read(objects.first(given()), tensors, layouts) || !read(objects, tensors, all))
    fail(Stage::argument, Code::invalid_argument,
         "objects are no tensors of the framework; allowed: those of the call");
  auto made = std::make_shared<Kept>(plan, layouts);
  for (const std::string& name : plan.tensors()) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end())
      fail(Stage::argument, Code::invalid_argument, cat("plan has a tensor '", name, "' that is not among names"));
    made->objects.push_back(static_cast<std::size_t>(found - names_.begin()));
  }
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (!is_plain(tensors[i])) return;
    if (i < given()) continue;
    if (!is_dense(tensors[i])) return;
    Made& result = made->made.emplace_back();
    result.prototype = tensors[i];
    std::copy_n(tensors[i].shape, tensors[i].rank, result.shape.begin());
  }
  const std::lock_guard lock(mutex_);
  if (kept_.size() >= kMost) drop_oldest();
  made->used.store(++clock_, std::memory_order_relaxed);
  kept_[layouts.hash()] = std::move(made);
}

/// The caller holds the lock.
void ObjectCalls::drop_oldest() {
  const auto oldest = std::min_element(kept_.begin(), kept_.end(), [](const auto& a, const auto& b) {
    return a.second->used.load(std::memory_order_relaxed) < b.second->used.load(std::memory_order_relaxed);
  });
  kept_.erase(oldest);
}

std::shared_ptr<const ObjectCalls::Kept> ObjectCalls::find(const Layouts& layouts) noexcept {
  const std::uint64_t hash = layouts.hash();
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(hash);
  if (found == kept_.end() || !(found->second->layouts == layouts) || !found->second->plan.current()) return nullptr;
  found->second->used.store(++clock_, std::memory_order_relaxed);
  return found->second;
}

bool ObjectCalls::enqueue(const Kept& kept, const Tensors& tensors, Stream stream, bool current) const noexcept {
  if (current && !find_stream(source_.api, source_.host, tensors[0], stream)) return false;
  std::array<void*, TJ_MAX_OBJECTS> addresses;
  const std::size_t count = kept.objects.size();
  for (std::size_t i = 0; i < count; ++i) addresses[i] = address_of(tensors[kept.objects[i]]);
  return run_at(kept.plan, {addresses.data(), count}, stream);
}

bool ObjectCalls::run(const Objects& objects, Stream stream, bool current) noexcept {
  Tensors tensors;
  Layouts layouts;
  const std::span<void* const> of{objects.data(), given()};
  if (source_.wants_grad(of) || !read(of, tensors, layouts)) return false;
  const std::shared_ptr<const Kept> kept = find(layouts);
  return kept != nullptr && enqueue(*kept, tensors, stream, current);
}

void* ObjectCalls::results(std::span<dlpack::ManagedTensor*> made) const noexcept {
  std::array<void*, TJ_MAX_OBJECTS> objects{};
  std::size_t count = 0;
  for (dlpack::ManagedTensor*& each : made) {
    if (source_.api.object_of_managed(each, &objects[count]) != 0) {
      source_.host.clear_error();
      break;
    }
    each = nullptr;  // the object has it
    ++count;
  }
  const bool whole = count == made.size();
  if (whole && count == 1) return objects[0];
  void* list = nullptr;
  if (whole && count == 2) list = source_.host.pack(2, objects[0], objects[1]);
  if (whole && list == nullptr) source_.host.clear_error();
  for (std::size_t i = 0; i < count; ++i) source_.host.release(objects[i]);
  return list;
}

void* ObjectCalls::make_known(const Objects& objects, Stream stream, bool current) noexcept {
  Tensors tensors;
  Layouts layouts;
  const std::span<void* const> of{objects.data(), given()};
  if (source_.wants_grad(of) || !read(of, tensors, layouts)) return nullptr;
  const std::shared_ptr<const Kept> kept = find(layouts);
  if (kept == nullptr) return nullptr;
  Allocated made(made_);
  for (std::size_t i = 0; i < made_; ++i) {
    Made result = kept->made[i];
    result.prototype.shape = result.shape.data();
    result.prototype.strides = nullptr;
    result.prototype.data = nullptr;
    result.prototype.byte_offset = 0;
    // A framework that has no memory says so again, in its own way, when the caller makes the call.
    if (source_.api.allocate(&result.prototype, &made.span()[i], nullptr, [](void*, const char*, const char*) {}) !=
        0) {
      source_.host.clear_error();
      return nullptr;
    }
    tensors[given() + i] = made.span()[i]->tensor;
  }
  return enqueue(*kept, tensors, stream, current) ? results(made.span()) : nullptr;
}

void* ObjectCalls::make(const Objects& objects, Stream stream, bool current) noexcept {
  void* const made = made_ == 0 ? nullptr : make_known(objects, stream, current);
  if (made != nullptr) return made;
  source_.host.retain(source_.host.nothing);
  return source_.host.nothing;
}

bool ObjectPlan::is_of_types(const Objects& objects) const noexcept {
  for (std::size_t i = 0; i < tensors_; ++i) {
    void* const type = source_.host.type_of(objects[i]);
    source_.host.release(type);
    if (type != types_[i]) return false;
  }
  return true;
}

bool ObjectPlan::run(const Objects& objects, Stream stream, bool current) const noexcept {
  if (!is_of_types(objects) || source_.wants_grad({objects.data(), tensors_})) return false;
  std::array<void*, TJ_MAX_OBJECTS> addresses;
  dlpack::Tensor tensor{};
  for (std::size_t i = tensors_; i-- > 0;) {  // the first one last: its device has the stream
    if (source_.api.tensor_of_object(objects[i], &tensor) != 0) {
      source_.host.clear_error();
      return false;
    }
    addresses[i] = address_of(tensor);
  }
  if (current && !find_stream(source_.api, source_.host, tensor, stream)) return false;
  return run_at(plan_, {addresses.data(), tensors_}, stream);
}

}  // namespace tj::api
