// See own_compiler.hpp.
#include "tools/own_compiler.hpp"

#include "arch/arch.hpp"
#include "arch/fact_file.hpp"
#include "pipeline.hpp"

namespace tj::tools {

bool OwnCompilers::is_others(const std::string& target, const std::string& compiler_hex) {
  const auto [place, is_new] = own_.try_emplace(target);
  if (is_new) try {
      place->second =
          cache::make_key({}, compiler_fields(backends_.compiler(arch::parse_target(arch::shipped_name(target)))))
              .compiler_hex;
    } catch (const Error&) {  // an entry of another version may name a target that this one does not know
    }
  return !place->second.empty() && place->second != compiler_hex;
}

bool OwnCompilers::is_others(const cache::Entry& entry) {
  const std::string* const target = entry.find("target");
  return target != nullptr && !entry.payload.empty() && is_others(*target, entry.compiler_hex);
}

}  // namespace tj::tools
