// See problem.hpp.
#include "ops/gated_delta_rule/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tj::test {
namespace {

/// Bounds from first to last - 1 rise, between least and most: the middle one, then those of either half. Those of the
/// whole list's ends are moved last.
void rise(std::vector<std::int64_t>& bounds, std::size_t first, std::size_t last, std::int64_t least,
          std::int64_t most) {
  if (first < last) {
    const std::size_t middle = (first + last - 1) / 2;
    bounds[middle] = std::clamp(bounds[middle], least, most);
    rise(bounds, first, middle, least, bounds[middle]);
    rise(bounds, middle + 1, last, bounds[middle], most);
    return;
  }
  if (first == 1) bounds[0] = std::clamp(bounds[0], least, most);
  if (first == bounds.size() - 1) bounds[first] = std::clamp(bounds[first], first == 1 ? bounds[0] : least, most);
}

}  // namespace

std::int64_t RuleProblem::sequences() const {
  if (!shape_.lengths.empty()) return static_cast<std::int64_t>(shape_.lengths.size());
  return std::max<std::int64_t>(1, shape_.batch);
}

RuleProblem::RuleProblem(const RuleShape& shape, unsigned seed) : shape_(shape) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  tokens_ = shape.tokens;
  if (!shape.lengths.empty()) {
    ends = {shape.lead};
    for (const std::int32_t length : shape.lengths) ends.push_back(ends.back() + length);
    tokens_ = std::max(1, ends.back() + shape.tail);
    args.cu_seqlens = list_tensor(ends);
  }
  const auto shaped = [&](std::vector<std::int64_t> last) {
    last.insert(last.begin(), tokens_);
    if (shape.batch > 0) last.insert(last.begin(), shape.batch);
    return last;
  };
  // Elements of size 1 / sqrt(width), as normalised rows have.
  const auto small = [&] { return normal(random) / std::sqrt(static_cast<double>(shape.width)); };
  args.q = make_tensor(q_, shape.dtype, shaped({shape.q_heads, shape.width}), shape.padding, small);
  args.k = make_tensor(k_, shape.dtype, shaped({shape.k_heads, shape.width}), shape.padding,
                       [&] { return shape.key_size * small(); });
  args.v =
      make_tensor(v_, shape.dtype, shaped({shape.v_heads, shape.width}), shape.padding, [&] { return normal(random); });
  args.o = make_tensor(o_, shape.dtype, shaped({shape.heads, shape.width}), shape.padding, {});
  for (std::int64_t t = 0; t < tokens_; ++t)
    if (!ends.empty() && (t < ends.front() || t >= ends.back()))
      for (Memory* memory : {&q_, &k_, &v_})
        std::memset(memory->bytes.data() + memory->at({t}), kPoison, memory->at({1}));
  if (shape.repeated_keys)
    for (std::int64_t t = 1; t < tokens_; ++t)
      for (std::int64_t i = 0; i < shape.width; ++i) k_.set({t, 0, i}, k_.get({0, 0, i}));
  const DType numbers = shape.half_numbers ? shape.dtype : DType::f32;
  const auto gate = [&] {
    const double g = shape.gate == Given::raw ? 2 * normal(random) : -shape.gate_size * uniform(random);
    return shape.exp_gate ? std::exp(g) : g;
  };
  if (shape.gate != Given::none && shape.channels)
    args.gate = make_tensor(gate_, numbers, shaped({shape.heads, shape.width}), shape.padding, gate);
  else if (shape.gate != Given::none)
    args.gate = make_tensor(gate_, numbers, shaped({shape.heads}), 1, gate);
  if (shape.gate == Given::raw) {
    args.gate_form = GateForm::raw;
    args.a_log = make_tensor(a_log_, DType::f32, {shape.heads}, 0, [&] { return normal(random); });
    std::vector<std::int64_t> biases = {shape.heads};
    if (shape.channels) biases.push_back(shape.width);
    if (shape.bias) args.dt_bias = make_tensor(dt_bias_, numbers, biases, 0, [&] { return normal(random); });
  } else if (shape.exp_gate) {
    args.gate_form = GateForm::exp;
  }
  args.beta_raw = shape.beta == Given::raw;
  if (shape.beta != Given::none)
    args.beta = make_tensor(beta_, numbers, shaped({shape.heads}), 3, [&] {
      return args.beta_raw ? 3 * normal(random) : shape.beta_least + (1 - shape.beta_least) * uniform(random);
    });
  args.delta = shape.delta;
  args.normalise = shape.normalise;
  args.state_transposed = shape.transposed;
  args.negligible = static_cast<float>(shape.negligible);
  make_states(random);
}

void RuleProblem::make_states(std::mt19937& random) {
  std::normal_distribution<double> normal(0, 0.3);
  const RuleShape& shape = shape_;
  const std::int64_t slots = shape.pool > 0 ? shape.pool : sequences(), width = shape.width;
  const std::vector<std::int64_t> states = {slots, shape.heads, width, width};
  reads = shape.reads;
  writes = shape.writes;
  const bool scaled = shape.state == DType::e4m3;
  const int padding = scaled ? 2 * shape.padding : shape.padding;
  const std::vector<std::int64_t> scales = {slots, shape.heads, width};
  const auto any_scale = [&] { return std::exp(normal(random)) / 64; };
  if (shape.initial)
    args.initial_state =
        make_tensor(initial_, shape.state, states, padding, [&] { return (scaled ? 64 : 1) * normal(random); });
  if (shape.initial && scaled)
    args.initial_scales = make_tensor(initial_scales_, DType::f32, scales, padding, any_scale);
  for (std::int64_t slot = 0; shape.initial && slot < shape.pool; ++slot)
    if (std::find(reads.begin(), reads.end(), slot) == reads.end())
      for (Memory* memory : {&initial_, &initial_scales_})
        if (!memory->bytes.empty()) std::memset(memory->bytes.data() + memory->at({slot}), kPoison, memory->at({1}));
  before_ = initial_;
  scales_before_ = initial_scales_;
  if (shape.final && shape.in_place) {
    args.final_state = args.initial_state;
    args.final_scales = args.initial_scales;
  } else if (shape.final) {
    args.final_state = make_tensor(final_, shape.state, states, padding, {});
    if (scaled) args.final_scales = make_tensor(final_scales_, DType::f32, scales, padding, {});
  }
  if (shape.pool > 0 && shape.initial) args.read_slots = list_tensor(reads);
  if (shape.pool > 0 && shape.final) args.write_slots = list_tensor(writes);
  if (shape.kept == 0) return;
  args.token_every = shape.every;
  args.token_states =
      make_tensor(each_, shape.state, {sequences(), shape.kept, shape.heads, width, width}, padding, {});
  if (scaled)
    args.token_scales =
        make_tensor(each_scales_, DType::f32, {sequences(), shape.kept, shape.heads, width}, padding, {});
}

double RuleProblem::token_number(const Memory& memory, std::int64_t sequence, std::int64_t token,
                                 std::int64_t head) const {
  return shape_.batch > 0 ? memory.get({sequence, token, head}) : memory.get({token, head});
}

double RuleProblem::decay(std::int64_t sequence, std::int64_t token, std::int64_t head, std::int64_t channel) const {
  if (shape_.gate == Given::none) return 1;
  const double given = !shape_.channels   ? token_number(gate_, sequence, token, head)
                       : shape_.batch > 0 ? gate_.get({sequence, token, head, channel})
                                          : gate_.get({token, head, channel});
  if (shape_.exp_gate) return given;
  if (shape_.gate == Given::plain) return std::exp(given);
  const double x = given + (!shape_.bias ? 0 : shape_.channels ? dt_bias_.get({head, channel}) : dt_bias_.get({head}));
  return std::exp(-std::exp(a_log_.get({head})) * (x > 20 ? x : std::log1p(std::exp(x))));
}

double RuleProblem::beta(std::int64_t sequence, std::int64_t token, std::int64_t head) const {
  if (shape_.beta == Given::none) return 1;
  const double given = token_number(beta_, sequence, token, head);
  return shape_.beta == Given::raw ? 1 / (1 + std::exp(-given)) : given;
}

std::vector<double> RuleProblem::row(const Memory& memory, std::int64_t sequence, std::int64_t token, std::int64_t head,
                                     bool normalise) const {
  const auto of = memory.shape[memory.shape.size() - 2];
  const std::int64_t own = head / (shape_.heads / of);
  std::vector<double> row(static_cast<std::size_t>(shape_.width));
  double squares = 1e-6;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    row[i] = shape_.batch > 0 ? memory.get({sequence, token, own, at}) : memory.get({token, own, at});
    squares += row[i] * row[i];
  }
  if (normalise)
    for (double& x : row) x /= std::sqrt(squares);
  return row;
}

double RuleProblem::state_of(const Memory& memory, const Memory& scales, std::initializer_list<std::int64_t> place,
                             std::int64_t v, std::int64_t k) const {
  const std::int64_t row = shape_.transposed ? k : v, column = shape_.transposed ? v : k;
  const auto* at = place.begin();
  const bool pool = place.size() == 2;
  const double element =
      pool ? memory.get({at[0], at[1], row, column}) : memory.get({at[0], at[1], at[2], row, column});
  if (memory.dtype != DType::e4m3) return element;
  return element * (pool ? scales.get({at[0], at[1], v}) : scales.get({at[0], at[1], at[2], v}));
}

std::vector<double> RuleProblem::first_state(std::int64_t sequence, std::int64_t head) const {
  const std::int64_t width = shape_.width,
                     slot = shape_.pool > 0 && shape_.initial ? reads[static_cast<std::size_t>(sequence)] : sequence;
  std::vector<double> state(static_cast<std::size_t>(width * width), 0.0);
  if (!shape_.initial || slot < 0 || slot >= before_.shape[0]) return state;
  for (std::int64_t v = 0; v < width; ++v)
    for (std::int64_t k = 0; k < width; ++k)
      state[static_cast<std::size_t>(v * width + k)] = state_of(before_, scales_before_, {slot, head}, v, k);
  return state;
}

void RuleProblem::begin_and_count(std::int64_t sequence, std::int64_t& begin, std::int64_t& count) const {
  begin = 0;
  count = tokens_;
  if (ends.empty()) return;
  const auto at = static_cast<std::size_t>(sequence);
  std::vector<std::int64_t> bounds(ends.size());
  for (std::size_t i = 0; i < ends.size(); ++i) bounds[i] = std::clamp<std::int64_t>(ends[i], 0, tokens_);
  if (shape_.chunked) rise(bounds, 1, ends.size() - 1, 0, tokens_);
  begin = bounds[at];
  count = std::max<std::int64_t>(0, bounds[at + 1] - begin);
}

}  // namespace tj::test
