// Calls with a framework's tensor objects, and the plans that are kept for them; see objects.h.
//
// Decides when two calls are alike, and which plans are kept. Does not validate a call: a plan was made of one that was
// served, and tensors of the same layout differ from its own in their addresses alone. Invariant: what is not known, or
// not right, is left to the caller, with nothing enqueued.
#pragma once

#include "api/objects.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tilejit/plan.hpp>

#include "api/dlpack.hpp"
#include "support/fork_safe.hpp"

namespace tj::api {

/// All that tensors of a call have beside their addresses: equal words mean that the same plan serves them.
class Layouts {
 public:
  /// False for a tensor that no plan takes: too many dimensions.
  bool add(const dlpack::Tensor& tensor) noexcept;
  std::uint64_t hash() const noexcept;
  friend bool operator==(const Layouts& a, const Layouts& b) noexcept;

 private:
  static constexpr std::size_t kWords = 2 + 2 * kMaxRank;
  std::array<std::int64_t, TJ_MAX_OBJECTS * kWords> words_;
  std::size_t count_ = 0;
};

/// Where tensors come from: the framework's functions, and those of its language.
struct ObjectSource {
  const dlpack::ExchangeApi& api;
  tj_object_host host;
  void* records;  ///< the framework's function that says whether gradients are recorded; may be null

  /// Whether the framework would expect a gradient of what is computed of these objects.
  bool wants_grad(std::span<void* const> objects) const noexcept;
};

using Objects = std::array<void*, TJ_MAX_OBJECTS>;

/// A share of an object of the language; may be null. Made and given back where objects may be used.
class Retained {
 public:
  Retained(const tj_object_host& host, void* object) : host_(&host), object_(object) {
    if (object != nullptr) host.retain(object);
  }
  Retained(Retained&& other) noexcept : host_(other.host_), object_(std::exchange(other.object_, nullptr)) {}
  Retained& operator=(Retained&&) = delete;
  ~Retained() {
    if (object_ != nullptr) host_->release(object_);
  }
  void* get() const noexcept { return object_; }

 private:
  const tj_object_host* host_;
  void* object_;
};

class ObjectCalls {
 public:
  ObjectCalls(std::vector<std::string> names, std::size_t made, const ObjectSource& source)
      : names_(std::move(names)), made_(made), source_(source) {}

  const tj_object_host& host() const noexcept { return source_.host; }
  std::size_t given() const noexcept { return names_.size() - made_; }
  std::size_t made() const noexcept { return made_; }

  /// Whether a plan of this call is worth making: the same one was asked for before.
  bool wanted(std::span<void* const> objects);
  /// makers: one for each result that is made, or null. Throws tj::Error(argument) when the plan is of other tensors.
  void keep(const Plan& plan, std::span<void* const> objects, void* const* makers);
  /// Enqueues a call that is known.
  bool run(const Objects& objects, Stream stream, bool current) noexcept;
  /// The same with new results; the host's "nothing" when it cannot.
  void* make(const Objects& objects, Stream stream, bool current) noexcept;

 private:
  /// A result that calls make: by a function of the language, or by the exchange API, which is given the prototype.
  struct Made {
    Retained maker;
    dlpack::Tensor prototype;
    std::array<std::int64_t, kMaxRank> shape;
  };
  struct Kept {
    Kept(const Plan& given, const Layouts& of) : plan(given), layouts(of) {}
    Plan plan;
    Layouts layouts;
    std::vector<std::size_t> objects;  ///< for each of the plan's tensors
    std::vector<Made> made;
    mutable std::atomic<std::uint64_t> used{0};
  };
  using Tensors = std::array<dlpack::Tensor, TJ_MAX_OBJECTS>;
  static constexpr std::size_t kMost = 256, kSeen = 64;

  /// The tensors of the first objects, and their layouts. False: an object is not such a tensor.
  bool read(std::span<void* const> objects, Tensors& tensors, Layouts& layouts) const noexcept;
  std::shared_ptr<const Kept> find(const Layouts& layouts) noexcept;
  bool enqueue(const Kept& kept, const Tensors& tensors, Stream stream, bool current) const noexcept;
  void* make_known(const Objects& objects, Stream stream, bool current) noexcept;
  void* make_one(const Made& made, dlpack::Tensor& tensor) const noexcept;
  void* allocate(const Made& made, dlpack::Tensor& tensor) const noexcept;
  std::shared_ptr<const Kept> drop_oldest();

  std::vector<std::string> names_;
  std::size_t made_;
  ObjectSource source_;
  support::Mutex mutex_;  ///< of what is below
  std::unordered_map<std::uint64_t, std::shared_ptr<const Kept>> kept_;
  std::array<std::uint64_t, kSeen> seen_{};
  std::uint64_t clock_ = 0;
};

/// A plan that is run at the addresses of objects of known types.
class ObjectPlan {
 public:
  ObjectPlan(const Plan& plan, const Objects& types, const ObjectSource& source)
      : plan_(plan), tensors_(plan.tensors().size()), types_(types), source_(source) {}
  const tj_object_host& host() const noexcept { return source_.host; }
  std::size_t tensors() const noexcept { return tensors_; }
  /// False when it could not, with nothing enqueued.
  bool run(const Objects& objects, Stream stream, bool current) const noexcept;

 private:
  bool is_of_types(const Objects& objects) const noexcept;

  Plan plan_;
  std::size_t tensors_;
  Objects types_;
  ObjectSource source_;
};

}  // namespace tj::api
