// A problem of the gated delta rule compares its results with the serial recurrence in f64; see problem.hpp.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/gated_delta_rule/problem.hpp"
#include "support/model_runtime.hpp"

namespace tj::test {
namespace {

bool is_poison(const unsigned char* at, std::size_t bytes) {
  return std::all_of(at, at + bytes, [](unsigned char byte) { return byte == kPoison; });
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

void RuleProblem::check_head(std::int64_t sequence, std::int64_t head, Errors& errors) const {
  const std::int64_t width = shape_.width;
  const double scale = args.scale ? static_cast<double>(*args.scale) : 1 / std::sqrt(static_cast<double>(width));
  std::vector<double> s = first_state(sequence, head);
  std::int64_t begin = 0, count = 0;
  begin_and_count(sequence, begin, count);
  const auto compare = [&](const Memory& memory, const Memory& scales, std::initializer_list<std::int64_t> place) {
    for (std::int64_t v = 0; v < width; ++v) {
      const double* const row = s.data() + v * width;
      double largest = 0;
      for (std::int64_t k = 0; k < width; ++k) largest = std::max(largest, std::abs(row[k]));
      for (std::int64_t k = 0; k < width; ++k) {
        const double found = state_of(memory, scales, place, v, k);
        Errors::add(errors.state, errors.state_size, found, row[k]);
        // Half a step of e4m3, which is 2^-9 where elements are small, beside what f32 loses, or chunks.
        const double half_step =
            std::max(std::abs(row[k]) / 16, largest / 448 / 1024) * 1.0001 + (shape_.chunked ? 1e-2 : 1e-5) * largest;
        if (memory.dtype == DType::e4m3 && !(std::abs(found - row[k]) <= half_step))
          errors.wrong = "an element of a state is " + std::to_string(found) + " for " + std::to_string(row[k]);
      }
    }
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
    const std::int64_t place = (i + 1) / shape_.every - 1;
    if ((i + 1) % shape_.every == 0 && place < shape_.kept) compare(each_, each_scales_, {sequence, place, head});
  }
  const std::int64_t slot = shape_.pool > 0 && shape_.final ? writes[static_cast<std::size_t>(sequence)] : sequence;
  const Memory& last = shape_.in_place ? initial_ : final_;
  const Memory& scales = shape_.in_place ? initial_scales_ : final_scales_;
  if (shape_.final && slot >= 0 && slot < last.shape[0]) compare(last, scales, {slot, head});
}

/// Slots that no sequence writes are as they were.
std::string RuleProblem::check_slots() const {
  const auto changed = [&](const Memory& last, const Memory& before, std::int64_t slot) {
    const auto from = static_cast<std::ptrdiff_t>(last.at({slot})), count = static_cast<std::ptrdiff_t>(last.at({1}));
    const auto begin = last.bytes.begin() + from;
    return shape_.in_place ? !std::equal(begin, begin + count, before.bytes.begin() + from)
                           : !is_poison(&*begin, static_cast<std::size_t>(count));
  };
  if (!shape_.final || shape_.pool == 0) return "";
  for (std::int64_t slot = 0; slot < shape_.pool; ++slot) {
    if (std::find(writes.begin(), writes.end(), slot) != writes.end()) continue;
    const bool in_place = shape_.in_place, scaled = shape_.state == DType::e4m3;
    if (changed(in_place ? initial_ : final_, before_, slot) ||
        (scaled && changed(in_place ? initial_scales_ : final_scales_, scales_before_, slot)))
      return "slot " + std::to_string(slot) + ", which nobody writes, has changed";
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
  for (const Memory* memory : {&o_, &initial_, &final_, &each_, &initial_scales_, &final_scales_, &each_scales_})
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
  const std::string kept = check_kept();
  return kept.empty() ? check_slots() : kept;
}

/// States after tokens that there are not are as they were.
std::string RuleProblem::check_kept() const {
  for (std::int64_t sequence = 0; sequence < sequences() && shape_.kept > 0; ++sequence) {
    std::int64_t begin = 0, count = 0;
    begin_and_count(sequence, begin, count);
    for (std::int64_t place = count / shape_.every; place < shape_.kept; ++place)
      for (const Memory* memory : {&each_, &each_scales_})
        if (!memory->bytes.empty() &&
            !is_poison(memory->bytes.data() + memory->at({sequence, place}), memory->at({0, 1})))
          return "the state of a token that there is not was written";
  }
  return "";
}

std::string RuleProblem::problem() const {
  Errors errors;
  for (std::int64_t sequence = 0; sequence < sequences(); ++sequence)
    for (std::int64_t head = 0; head < shape_.heads; ++head) check_head(sequence, head, errors);
  const bool rounded = shape_.chunked;  // states and changes are rounded once a chunk, for products
  const double o_limit = rounded                       ? (shape_.repeated_keys && shape_.channels ? 1e-2 : 5e-3)
                         : shape_.dtype == DType::bf16 ? 3e-3
                                                       : 5e-4,
               in_chunks = shape_.repeated_keys ? 3e-2 : 4e-3,
               state_limit = shape_.state == DType::e4m3   ? std::hypot(3e-2, rounded ? in_chunks : 0)
                             : rounded                     ? in_chunks
                             : shape_.state == DType::f32  ? 2e-5
                             : shape_.state == DType::bf16 ? 3e-3
                                                           : 5e-4;
  if (!errors.wrong.empty()) return errors.wrong;
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
  Memory* const results[] = {&o_, &final_, &each_, &final_scales_, &each_scales_, &initial_, &initial_scales_};
  std::vector<std::vector<unsigned char>> first;
  for (Memory* memory : results) {
    first.push_back(memory->bytes);
    std::memset(memory->bytes.data(), kPoison, memory->bytes.size());
  }
  std::copy(before_.bytes.begin(), before_.bytes.end(), initial_.bytes.begin());
  std::copy(scales_before_.bytes.begin(), scales_before_.bytes.end(), initial_scales_.bytes.begin());
  testing::model_runtime(target).run(args);
  const bool same = std::equal(first.begin(), first.end(), std::begin(results),
                               [](const auto& bytes, const Memory* memory) { return bytes == memory->bytes; });
  return same ? "" : "a second run gives other bits";
}

}  // namespace tj::test
