// The list of ops: one line each.
#include "ops/common/op_flags.hpp"
#include "ops/known_ops.hpp"
#include "ops/op.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

#include "support/lasting.hpp"

// One line for each op: src/ops/<name>/ defines const Op& <name>_op().
#define TJ_OPS(OP)     \
  OP(fmha)             \
  OP(gemm)             \
  OP(grouped_gemm)     \
  OP(quantise)         \
  OP(combine)          \
  OP(copy_rows)        \
  OP(sum_parts)        \
  OP(merge_states)     \
  OP(chunk_indices)    \
  OP(chunk_cumsum)     \
  OP(chunk_solve)      \
  OP(chunk_wu)         \
  OP(chunk_states)     \
  OP(chunk_o)          \
  OP(gated_delta_rule) \
  OP(delta_chunks)     \
  /* in this order: it is that of listings */

namespace tj::ops {

#define TJ_DECLARE(name) const Op& name##_op();
TJ_OPS(TJ_DECLARE)
#undef TJ_DECLARE

Touched::Touched(const Op* op, const void* args) {
  if (op != nullptr) op->touches(args, *this);
}

const std::vector<TemplateText>& Maker::templates() const {
  static constinit support::Lasting<const std::vector<TemplateText>> none;
  return none.get();
}

namespace {

[[noreturn]] void refuse_form(const Op& op, const char* what) {
  support::fail(Stage::argument, Code::unsupported,
                support::cat("op is '", op.name(), "', which has no ", what, "; other ops' kernels are made of it"));
}

}  // namespace

std::shared_ptr<void> Op::copy(const void*) const { refuse_form(*this, "plan"); }
void Op::tensors(void*, TensorList&) const { refuse_form(*this, "plan"); }
void Op::from_c(const void*, const UseArgs&) const { refuse_form(*this, "structure in tilejit.h"); }
std::vector<NeededKernel> Op::needed_kernels(const void*, const ChooseKernel&) const {
  refuse_form(*this, "configuration");
}
std::vector<NeededKernel> Op::needed_kernels(const Flags& flags, const arch::Arch& arch, const ChooseKernel&) const {
  std::vector<NeededKernel> list;
  for (const Request& request : requests_for(flags, arch)) list.push_back({this, kernel_of(request)});
  return list;
}

std::optional<int> Op::rung_choice(const ProblemKey&, int rung, const arch::Arch&) const {
  std::vector<std::string> with;
  for (const Op* op : all())
    if (op->has_ladder()) with.emplace_back(op->name());
  support::fail(
      Stage::argument, Code::unsupported,
      support::cat("rung is ", rung, " and op is '", name(), "', which has no ladder; allowed: ", joined(with)));
}

Kernel resolve(const Op& op, const void* args, std::optional<int> choice, const arch::Arch& arch) {
  const ProblemKey problem = op.problem_key(args);
  return choice ? op.kernel_of(problem, *choice) : op.choose(problem, arch);
}

Kernel rung_kernel(const Op& op, const ProblemKey& problem, int rung, const arch::Arch& arch) {
  return rung_kernel(op, problem, rung, arch, [&] { return op.choose(problem, arch); });
}

const std::vector<const Op*>& all() {
  static constinit support::Lasting<const std::vector<const Op*>> ops;
#define TJ_LIST(name) &name##_op(),
  return ops.get([] { return std::vector<const Op*>{TJ_OPS(TJ_LIST)}; });
#undef TJ_LIST
}

const Op* find(std::string_view name) {
  for (const Op* op : all())
    if (op->name() == name) return op;
  return nullptr;
}

std::string known_ops(std::string_view unknown) {
  std::vector<std::string> names;
  for (const Op* op : all()) names.emplace_back(op->name());
  return joined(names) + support::meant(unknown, names);
}

}  // namespace tj::ops
