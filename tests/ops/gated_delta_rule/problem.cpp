// See problem.hpp.
#include "ops/gated_delta_rule/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/half.hpp"
#include "support/model_runtime.hpp"

namespace tj::test {
namespace {

const Device kCpu{DeviceKind::cpu, 0};
constexpr unsigned char kPoison = 0xff;  // a NaN in each type

bool is_poison(const unsigned char* at, std::size_t bytes) {
  return std::all_of(at, at + bytes, [](unsigned char byte) { return byte == kPoison; });
}

Tensor tensor_of(void* data, DType dtype, const std::vector<std::int64_t>& shape,
                 const std::vector<std::int64_t>& strides) {
  Tensor tensor;
  tensor.data = data;
  tensor.device = kCpu;
  tensor.dtype = dtype;
  tensor.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), tensor.shape.begin());
  std::copy(strides.begin(), strides.end(), tensor.strides.begin());
  return tensor;
}

Tensor list_of(std::vector<std::int32_t>& list) {
  return tensor_of(list.data(), DType::i32, {static_cast<std::int64_t>(list.size())}, {1});
}

}  // namespace

/// Sums of squares of what differs, and of what is wanted.
struct RuleProblem::Errors {
  double o = 0, o_size = 0, state = 0, state_size = 0;
  std::string wrong;
  static void add(double& sum, double& size, double found, double wanted) {
    sum += (found - wanted) * (found - wanted);
    size += wanted * wanted;
  }
};

std::size_t RuleProblem::Memory::at(std::initializer_list<std::int64_t> place) const {
  std::int64_t at = 0;
  std::size_t axis = 0;
  for (const std::int64_t i : place) at += i * strides[axis++];
  return static_cast<std::size_t>(at) * static_cast<std::size_t>(size_of(dtype));
}
double RuleProblem::Memory::get(std::initializer_list<std::int64_t> place) const {
  if (dtype == DType::f32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at(place), 4);
    return static_cast<double>(value);
  }
  std::uint16_t half = 0;
  std::memcpy(&half, bytes.data() + at(place), 2);
  return static_cast<double>(samples::to_float(half, dtype));
}
void RuleProblem::Memory::set(std::initializer_list<std::int64_t> place, double value) {
  const auto number = static_cast<float>(value);
  const std::uint16_t half = dtype == DType::f32 ? std::uint16_t{0} : samples::from_float(number, dtype);
  if (dtype == DType::f32)
    std::memcpy(bytes.data() + at(place), &number, 4);
  else
    std::memcpy(bytes.data() + at(place), &half, 2);
}

Tensor RuleProblem::make(Memory& memory, DType dtype, std::vector<std::int64_t> shape, int padding, const Each& each) {
  memory.dtype = dtype;
  memory.shape = shape;
  memory.strides.assign(shape.size(), 1);
  std::int64_t pitch = shape.back() + padding;
  for (std::size_t i = shape.size() - 1; i-- > 0;) {
    memory.strides[i] = pitch;
    pitch = pitch * shape[i] + padding;
  }
  const auto bytes = static_cast<std::size_t>(size_of(dtype));
  memory.bytes.assign((static_cast<std::size_t>(pitch) + 16) * bytes, kPoison);
  Memory flat = memory;
  flat.strides = {1};
  if (each) {
    std::vector<std::int64_t> place(shape.size(), 0);
    for (bool more = true; more;) {
      std::int64_t at = 0;
      for (std::size_t i = 0; i < shape.size(); ++i) at += place[i] * memory.strides[i];
      flat.set({at}, each());
      more = false;
      for (std::size_t i = shape.size(); i-- > 0 && !more;) {
        more = ++place[i] < shape[i];
        if (!more) place[i] = 0;
      }
    }
    memory.bytes = std::move(flat.bytes);
  }
  return tensor_of(memory.bytes.data(), dtype, shape, memory.strides);
}

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
    args.cu_seqlens = list_of(ends);
  }
  const auto shaped = [&](std::vector<std::int64_t> last) {
    last.insert(last.begin(), tokens_);
    if (shape.batch > 0) last.insert(last.begin(), shape.batch);
    return last;
  };
  // Elements of size 1 / sqrt(width), as normalised rows have.
  const auto small = [&] { return normal(random) / std::sqrt(static_cast<double>(shape.width)); };
  args.q = make(q_, shape.dtype, shaped({shape.q_heads, shape.width}), shape.padding, small);
  args.k = make(k_, shape.dtype, shaped({shape.k_heads, shape.width}), shape.padding,
                [&] { return shape.key_size * small(); });
  args.v = make(v_, shape.dtype, shaped({shape.v_heads, shape.width}), shape.padding, [&] { return normal(random); });
  args.o = make(o_, shape.dtype, shaped({shape.heads, shape.width}), shape.padding, {});
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
    args.gate = make(gate_, numbers, shaped({shape.heads, shape.width}), shape.padding, gate);
  else if (shape.gate != Given::none)
    args.gate = make(gate_, numbers, shaped({shape.heads}), 1, gate);
  if (shape.gate == Given::raw) {
    args.gate_form = GateForm::raw;
    args.a_log = make(a_log_, DType::f32, {shape.heads}, 0, [&] { return normal(random); });
    std::vector<std::int64_t> biases = {shape.heads};
    if (shape.channels) biases.push_back(shape.width);
    if (shape.bias) args.dt_bias = make(dt_bias_, numbers, biases, 0, [&] { return normal(random); });
  } else if (shape.exp_gate) {
    args.gate_form = GateForm::exp;
  }
  args.beta_raw = shape.beta == Given::raw;
  if (shape.beta != Given::none)
    args.beta = make(beta_, numbers, shaped({shape.heads}), 3, [&] {
      return args.beta_raw ? 3 * normal(random) : shape.beta_least + (1 - shape.beta_least) * uniform(random);
    });
  args.delta = shape.delta;
  args.normalise = shape.normalise;
  args.state_transposed = shape.transposed;
  make_states(random);
}

void RuleProblem::make_states(std::mt19937& random) {
  std::normal_distribution<double> normal(0, 0.3);
  const RuleShape& shape = shape_;
  const std::int64_t slots = shape.pool > 0 ? shape.pool : sequences(), width = shape.width;
  const std::vector<std::int64_t> states = {slots, shape.heads, width, width};
  reads = shape.reads;
  writes = shape.writes;
  if (shape.initial)
    args.initial_state = make(initial_, shape.state, states, shape.padding, [&] { return normal(random); });
  for (std::int64_t slot = 0; shape.initial && slot < shape.pool; ++slot)
    if (std::find(reads.begin(), reads.end(), slot) == reads.end())
      std::memset(initial_.bytes.data() + initial_.at({slot}), kPoison, initial_.at({1}));
  before_ = initial_;
  if (shape.final && shape.in_place)
    args.final_state = args.initial_state;
  else if (shape.final)
    args.final_state = make(final_, shape.state, states, shape.padding, {});
  if (shape.pool > 0 && shape.initial) args.read_slots = list_of(reads);
  if (shape.pool > 0 && shape.final) args.write_slots = list_of(writes);
  if (shape.kept > 0)
    args.token_states =
        make(each_, shape.state, {sequences(), shape.kept, shape.heads, width, width}, shape.padding, {});
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

double RuleProblem::state_of(const Memory& memory, std::initializer_list<std::int64_t> place, std::int64_t v,
                             std::int64_t k) const {
  const std::int64_t row = shape_.transposed ? k : v, column = shape_.transposed ? v : k;
  const auto* at = place.begin();
  return place.size() == 2 ? memory.get({at[0], at[1], row, column}) : memory.get({at[0], at[1], at[2], row, column});
}

std::vector<double> RuleProblem::first_state(std::int64_t sequence, std::int64_t head) const {
  const std::int64_t width = shape_.width,
                     slot = shape_.pool > 0 && shape_.initial ? reads[static_cast<std::size_t>(sequence)] : sequence;
  std::vector<double> state(static_cast<std::size_t>(width * width), 0.0);
  if (!shape_.initial || slot < 0 || slot >= before_.shape[0]) return state;
  for (std::int64_t v = 0; v < width; ++v)
    for (std::int64_t k = 0; k < width; ++k)
      state[static_cast<std::size_t>(v * width + k)] = state_of(before_, {slot, head}, v, k);
  return state;
}

void RuleProblem::begin_and_count(std::int64_t sequence, std::int64_t& begin, std::int64_t& count) const {
  begin = 0;
  count = tokens_;
  if (ends.empty()) return;
  const auto at = static_cast<std::size_t>(sequence);
  begin = std::clamp<std::int64_t>(ends[at], 0, tokens_);
  count = std::max<std::int64_t>(0, std::clamp<std::int64_t>(ends[at + 1], 0, tokens_) - begin);
}

void RuleProblem::check_head(std::int64_t sequence, std::int64_t head, Errors& errors) const {
  const std::int64_t width = shape_.width;
  const double scale = args.scale ? static_cast<double>(*args.scale) : 1 / std::sqrt(static_cast<double>(width));
  std::vector<double> s = first_state(sequence, head);
  std::int64_t begin = 0, count = 0;
  begin_and_count(sequence, begin, count);
  const auto compare = [&](const Memory& memory, std::initializer_list<std::int64_t> place) {
    for (std::int64_t v = 0; v < width; ++v)
      for (std::int64_t k = 0; k < width; ++k)
        Errors::add(errors.state, errors.state_size, state_of(memory, place, v, k),
                    s[static_cast<std::size_t>(v * width + k)]);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t t = begin + i;
    const std::vector<double> q = row(q_, sequence, t, head, shape_.normalise),
                              k = row(k_, sequence, t, head, shape_.normalise), v = row(v_, sequence, t, head, false);
    std::vector<double> kept(k.size());
    for (std::size_t j = 0; j < k.size(); ++j) kept[j] = decay(sequence, t, head, static_cast<std::int64_t>(j));
    const double strength = beta(sequence, t, head);
    for (std::size_t r = 0; r < v.size(); ++r) {
      double* const of_row = s.data() + r * v.size();
      double held = 0, sum = 0;
      for (std::size_t j = 0; j < k.size(); ++j) of_row[j] *= kept[j], held += of_row[j] * k[j];
      const double d = strength * (v[r] - (shape_.delta ? held : 0));
      for (std::size_t j = 0; j < k.size(); ++j) of_row[j] += d * k[j], sum += of_row[j] * q[j];
      const auto at = static_cast<std::int64_t>(r);
      Errors::add(errors.o, errors.o_size, shape_.batch > 0 ? o_.get({sequence, t, head, at}) : o_.get({t, head, at}),
                  scale * sum);
    }
    if (i < shape_.kept) compare(each_, {sequence, i, head});
  }
  const std::int64_t slot = shape_.pool > 0 && shape_.final ? writes[static_cast<std::size_t>(sequence)] : sequence;
  const Memory& last = shape_.in_place ? initial_ : final_;
  if (shape_.final && slot >= 0 && slot < last.shape[0]) compare(last, {slot, head});
}

/// Slots that no sequence writes are as they were.
std::string RuleProblem::check_slots() const {
  const Memory& last = shape_.in_place ? initial_ : final_;
  if (!shape_.final || shape_.pool == 0) return "";
  for (std::int64_t slot = 0; slot < shape_.pool; ++slot) {
    if (std::find(writes.begin(), writes.end(), slot) != writes.end()) continue;
    const auto from = static_cast<std::ptrdiff_t>(last.at({slot})), count = static_cast<std::ptrdiff_t>(last.at({1}));
    const auto begin = last.bytes.begin() + from;
    const bool same = shape_.in_place ? std::equal(begin, begin + count, before_.bytes.begin() + from)
                                      : is_poison(&*begin, static_cast<std::size_t>(count));
    if (!same) return "slot " + std::to_string(slot) + ", which nobody writes, has changed";
  }
  return "";
}

/// Memory between rows and tokens of no sequence are as they were, too.
std::string RuleProblem::check_rest() const {
  const auto gaps = [](const Memory& memory) {
    const auto bytes = static_cast<std::size_t>(size_of(memory.dtype));
    std::vector<bool> inside(memory.bytes.size() / bytes);
    const auto width = static_cast<std::size_t>(memory.shape.back());
    std::vector<std::int64_t> place(memory.shape.size(), 0);
    for (bool more = true; more;) {
      std::int64_t at = 0;
      for (std::size_t i = 0; i < place.size(); ++i) at += place[i] * memory.strides[i];
      std::fill_n(inside.begin() + at, width, true);
      more = false;
      for (std::size_t i = place.size() - 1; i-- > 0 && !more;) {
        more = ++place[i] < memory.shape[i];
        if (!more) place[i] = 0;
      }
    }
    for (std::size_t i = 0; i < inside.size(); ++i)
      if (!inside[i] && !is_poison(memory.bytes.data() + i * bytes, bytes)) return false;
    return true;
  };
  for (const Memory* memory : {&o_, &initial_, &final_, &each_})
    if (!memory->bytes.empty() && !gaps(*memory)) return "memory between rows was written";
  std::vector<bool> owned(static_cast<std::size_t>(tokens_));
  for (std::int64_t sequence = 0; sequence < sequences(); ++sequence) {
    std::int64_t begin = 0, count = 0;
    begin_and_count(sequence, begin, count);
    std::fill_n(owned.begin() + begin, count, true);
  }
  for (std::int64_t t = 0; t < tokens_; ++t)
    if (!owned[static_cast<std::size_t>(t)] && !is_poison(o_.bytes.data() + o_.at({t}), o_.at({1})))
      return "token " + std::to_string(t) + ", which no sequence has, was written";
  return check_slots();
}

std::string RuleProblem::problem() const {
  Errors errors;
  for (std::int64_t sequence = 0; sequence < sequences(); ++sequence)
    for (std::int64_t head = 0; head < shape_.heads; ++head) check_head(sequence, head, errors);
  const bool rounded = shape_.chunked;  // states and changes are rounded once a chunk, for products
  const double o_limit = rounded                       ? (shape_.repeated_keys ? 2e-2 : 5e-3)
                         : shape_.dtype == DType::bf16 ? 3e-3
                                                       : 5e-4,
               state_limit = rounded                       ? (shape_.repeated_keys ? 3e-2 : 4e-3)
                             : shape_.state == DType::f32  ? 2e-5
                             : shape_.state == DType::bf16 ? 3e-3
                                                           : 5e-4;
  const double o = std::sqrt(errors.o / std::max(errors.o_size, 1e-30)),
               state = std::sqrt(errors.state / std::max(errors.state_size, 1e-30));
  if (!(o <= o_limit)) return "o has a relative error of " + std::to_string(o);
  if (!(state <= state_limit)) return "states have a relative error of " + std::to_string(state);
  return check_rest();
}

std::string RuleProblem::run(const std::string& target) {
  testing::model_runtime(target).run(args);
  const std::string wrong = problem();
  if (!wrong.empty()) return wrong;
  const Memory o = o_, initial = initial_, final = final_, each = each_;
  for (Memory* memory : {&o_, &final_, &each_}) std::memset(memory->bytes.data(), kPoison, memory->bytes.size());
  if (!before_.bytes.empty()) std::memcpy(initial_.bytes.data(), before_.bytes.data(), before_.bytes.size());
  testing::model_runtime(target).run(args);
  const bool same = o.bytes == o_.bytes && initial.bytes == initial_.bytes && final.bytes == final_.bytes &&
                    each.bytes == each_.bytes;
  return same ? "" : "a second run gives other bits";
}

}  // namespace tj::test
