// The list of ops: one line each.
#include "ops/fmha.hpp"
#include "ops/op.hpp"

namespace tj::ops {

const std::vector<const Op*>& all() {
  static const std::vector<const Op*> ops = {
      &fmha_op(),
  };
  return ops;
}

const Op* find(std::string_view name) {
  for (const Op* op : all())
    if (op->name() == name) return op;
  return nullptr;
}

}  // namespace tj::ops
