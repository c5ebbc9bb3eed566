// An op with public descriptors, in C++ and in C: what follows from their types alone.
//
// Decides how descriptors are copied and how those of C are handed on. Decides nothing about their members.
#pragma once

#include <memory>

#include "ops/common/tensor_list.hpp"
#include "ops/common/touched.hpp"
#include "ops/op.hpp"

namespace tj::ops {

/// kFromC: the descriptor that a structure of tilejit.h stands for; without one the op has no form in C.
template <class Args, Args (*kFromC)(const void* structure) = nullptr>
class Described : public Op {
 public:
  bool described() const override { return true; }
  std::shared_ptr<void> copy(const void* args) const override { return std::make_shared<Args>(get(args)); }
  void from_c(const void* structure, const UseArgs& use) const override {
    if constexpr (kFromC == nullptr) {
      Op::from_c(structure, use);
    } else {
      const Args args = kFromC(structure);
      use(&args);
    }
  }
  /// A launch may touch the tensors of its call, and nothing else.
  void touches(const void* args, Touched& memory) const override {
    Args copied = get(args);
    TensorList list;
    tensors(&copied, list);
    for (const ListedTensor& each : list.entries())
      each.written ? memory.writes(*each.tensor) : memory.reads(*each.tensor);
  }

 protected:
  static const Args& get(const void* args) { return *static_cast<const Args*>(args); }
  static Args& get(void* args) { return *static_cast<Args*>(args); }
};

}  // namespace tj::ops
