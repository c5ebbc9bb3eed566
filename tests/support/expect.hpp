// Helpers of tests of errors and texts.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <string_view>

#include <tilejit/error.hpp>

namespace tj::testing {

inline bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// The tj::Error that the work ends with; the test fails when there is none.
template <class Work>
Error error_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  std::abort();
}

}  // namespace tj::testing
