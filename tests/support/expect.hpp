// Helpers of tests of errors and texts.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
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

/// The text of the tj::Error that the work ends with; "" when there is none.
template <class Work>
std::string said_by(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The error is one of arguments, has this code and names each of these parts.
inline void check_argument_error(const Error& error, Code code, std::initializer_list<const char*> parts) {
  CHECK_MESSAGE(error.stage == Stage::argument, error.message);
  CHECK_MESSAGE(error.code == code, error.message);
  for (const char* part : parts) CHECK_MESSAGE(has(error.message, part), part, " is not in: ", error.message);
}

}  // namespace tj::testing
