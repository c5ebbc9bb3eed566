// See object_calls.hpp.
#include "api/object_calls.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "support/fail.hpp"
#include "support/text.hpp"
#include "support/uncancelled.hpp"

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

/// Other tensors are left to the caller: those of one number, and those with gaps in every dimension. A framework may
/// mark such a view to be read in another way (PyTorch's views of conjugated numbers), which DLPack does not say. Whole
/// numbers are parts of no such numbers.
bool is_plain(const dlpack::Tensor& tensor) noexcept {
  if (tensor.type_code == dlpack::kInteger) return true;
  for (std::int32_t i = 0; i < tensor.rank; ++i)
    if (tensor.shape[i] == 0 || (tensor.shape[i] > 1 && (tensor.strides == nullptr || tensor.strides[i] == 1)))
      return true;
  return false;
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
  const support::Uncancelled whole;
  try {
    plan.run(addresses, stream);
    return true;
  } catch (...) {  // the caller makes the call again and hears why
    return false;
  }
}

/// Whether a new result is what the plan writes: dense memory of the prototype's device, type and shape.
bool is_like(const dlpack::Tensor& tensor, const dlpack::Tensor& prototype, const std::int64_t* shape) noexcept {
  return tensor.device_type == prototype.device_type && tensor.device_id == prototype.device_id &&
         tensor.rank == prototype.rank && tensor.type_code == prototype.type_code && tensor.bits == prototype.bits &&
         tensor.lanes == prototype.lanes && std::equal(shape, shape + tensor.rank, tensor.shape) && is_dense(tensor) &&
         (tensor.data != nullptr || std::count(shape, shape + tensor.rank, 0) > 0);
}

/// Objects of new results, given back unless the caller gets them.
class NewObjects {
 public:
  explicit NewObjects(const tj_object_host& host) : host_(host) {}
  NewObjects(const NewObjects&) = delete;
  NewObjects& operator=(const NewObjects&) = delete;
  ~NewObjects() {
    for (std::size_t i = 0; i < count_; ++i) host_.release(objects_[i]);
  }
  void add(void* object) { objects_[count_++] = object; }
  /// The object, or a list of both; null when there is no memory for one.
  void* hand_over() noexcept {
    if (count_ == 1) return objects_[--count_];
    void* const list = host_.pack(2, objects_[0], objects_[1]);
    if (list == nullptr) host_.clear_error();
    return list;
  }

 private:
  const tj_object_host& host_;
  Objects objects_{};
  std::size_t count_ = 0;
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

void ObjectCalls::keep(const Plan& plan, std::span<void* const> objects, void* const* makers) {
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
    if (i < given()) {
      if (!is_plain(tensors[i])) return;
      continue;
    }
    if (!is_dense(tensors[i])) return;
    Made& result = made->made.emplace_back(Made{Retained(source_.host, makers[i - given()]), tensors[i], {}});
    std::copy_n(tensors[i].shape, tensors[i].rank, result.shape.begin());
  }
  std::shared_ptr<const Kept> dropped, replaced;  // which give objects back when the lock is open again
  const std::lock_guard lock(mutex_);
  if (kept_.size() >= kMost) dropped = drop_oldest();
  made->used.store(++clock_, std::memory_order_relaxed);
  replaced = std::exchange(kept_[layouts.hash()], std::move(made));
}

/// The caller holds the lock.
std::shared_ptr<const ObjectCalls::Kept> ObjectCalls::drop_oldest() {
  const auto oldest = std::min_element(kept_.begin(), kept_.end(), [](const auto& a, const auto& b) {
    return a.second->used.load(std::memory_order_relaxed) < b.second->used.load(std::memory_order_relaxed);
  });
  std::shared_ptr<const Kept> dropped = std::move(oldest->second);
  kept_.erase(oldest);
  return dropped;
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

void* ObjectCalls::allocate(const Made& made, dlpack::Tensor& tensor) const noexcept {
  dlpack::Tensor prototype = made.prototype;
  std::array<std::int64_t, kMaxRank> shape = made.shape;
  prototype.shape = shape.data();
  prototype.strides = nullptr;
  prototype.data = nullptr;
  prototype.byte_offset = 0;
  dlpack::ManagedTensor* managed = nullptr;
  void* object = nullptr;
  // A framework that has no memory says so again, in its own way, when the caller makes the call.
  if (source_.api.allocate(&prototype, &managed, nullptr, [](void*, const char*, const char*) {}) != 0) {
    source_.host.clear_error();
    return nullptr;
  }
  tensor = managed->tensor;
  if (source_.api.object_of_managed(managed, &object) == 0) return object;  // which has it now
  source_.host.clear_error();
  if (managed->deleter != nullptr) managed->deleter(managed);
  return nullptr;
}

/// A new result, and its tensor for as long as the object is the caller's alone; null where there is none.
void* ObjectCalls::make_one(const Made& made, dlpack::Tensor& tensor) const noexcept {
  if (made.maker.get() == nullptr) return allocate(made, tensor);
  void* const object = source_.host.call(made.maker.get(), nullptr);
  if (object == nullptr || source_.api.tensor_of_object(object, &tensor) != 0)
    source_.host.clear_error();
  else if (is_like(tensor, made.prototype, made.shape.data()))
    return object;
  if (object != nullptr) source_.host.release(object);
  return nullptr;
}

void* ObjectCalls::make_known(const Objects& objects, Stream stream, bool current) noexcept {
  Tensors tensors;
  Layouts layouts;
  const std::span<void* const> of{objects.data(), given()};
  if (source_.wants_grad(of) || !read(of, tensors, layouts)) return nullptr;
  const std::shared_ptr<const Kept> kept = find(layouts);
  if (kept == nullptr) return nullptr;
  NewObjects made(source_.host);
  for (std::size_t i = 0; i < made_; ++i) {
    void* const object = make_one(kept->made[i], tensors[given() + i]);
    if (object == nullptr) return nullptr;
    made.add(object);
  }
  return enqueue(*kept, tensors, stream, current) ? made.hand_over() : nullptr;
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
    if (!is_plain(tensor)) return false;
    addresses[i] = address_of(tensor);
  }
  if (current && !find_stream(source_.api, source_.host, tensor, stream)) return false;
  return run_at(plan_, {addresses.data(), tensors_}, stream);
}

}  // namespace tj::api
