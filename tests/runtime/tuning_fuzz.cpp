// The promise of the reader of records of measured choices for any fields: nothing, and why, or a choice whose record
// is read as the same again.
//
// The bytes are lines "name=value". Their record has the name that its fields ask for: what is behind that check must
// not rely on it.
#include <cstdlib>
#include <string>
#include <string_view>

#include "support/fields_text.hpp"
#include "support/fuzz.hpp"
#include "tuning/tunings.hpp"

TJ_FUZZ_TARGET(tj::testing::fuzz_tuning)(const std::uint8_t* data, std::size_t size) {
  using namespace tj;
  const TunedMachine machine{arch::find("sm_90a"), "NVIDIA H200", 132, "CUDA 13.0"};
  cache::Entry entry;
  entry.metadata = testing::fields_of_text({reinterpret_cast<const char*>(data), size});
  const std::string* op = entry.find("op");
  cache::Fields request = {{"kind", "tuning"}, {"op", op != nullptr ? *op : std::string()}};
  for (const auto& field : entry.metadata)
    if (field.first.starts_with("field.")) request.push_back(field);
  std::string problem;
  const auto read = read_tuning(cache::make_key(request, {}), entry, machine, problem);
  if (read.has_value() != problem.empty()) std::abort();
  if (!read) return 0;
  const cache::Entry written = tuning_entry(machine, *read->tuned.op, read->problem, read->choice, 1);
  const auto again = read_tuning(tuning_key(machine, *read->tuned.op, read->problem), written, machine, problem);
  if (!again || !(again->tuned == read->tuned)) std::abort();
  return 0;
}
