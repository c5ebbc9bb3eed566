// See named_target.hpp.
#include "arch/named_target.hpp"

#include <tilejit/error.hpp>

#include "support/fail.hpp"

namespace tj::arch {

Target parse_target(std::string_view text, std::string_view from) {
  try {
    return parse_target(text);
  } catch (const Error& e) {
    support::fail(e.stage, e.code, support::cat(from, ": ", e.message));
  }
}

}  // namespace tj::arch
