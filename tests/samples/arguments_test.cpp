// Protects the samples' command lines: nothing is ignored, and a mistake is named.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tilejit/error.hpp>

#include "common/arguments.hpp"

namespace {

tj::samples::Arguments make(std::vector<const char*> words) {
  words.insert(words.begin(), "sample");
  return {static_cast<int>(words.size()), words.data()};
}

template <class Work>
void refused(const Work& work, const std::string& part) {
  try {
    work();
    FAIL("not refused: ", part);
  } catch (const tj::Error& error) {
    CHECK_MESSAGE(error.message.find(part) != std::string::npos, error.message);
  }
}

TEST_CASE("options are taken away, what is left is positional") {
  auto words = make({"a", "--n", "7", "--fast", "b", "--name", "x"});
  CHECK(words.take_number("--n", 1, 10) == 7u);
  CHECK(words.take_switch("--fast"));
  CHECK_FALSE(words.take_switch("--fast"));
  CHECK(words.take("--name") == "x");
  CHECK_FALSE(words.take("--other"));
  CHECK(words.rest() == std::vector<std::string>{"a", "b"});
}

TEST_CASE("mistakes are named") {
  refused([] { make({"--n", "seven"}).take_number("--n", 1, 10); }, "--n is 'seven'; allowed: 1 to 10");
  refused([] { make({"--n", "11"}).take_number("--n", 1, 10); }, "'11'");
  refused([] { make({"--n", "-1"}).take_number("--n", 1, 10); }, "'-1'");
  refused([] { make({"--n"}).take("--n"); }, "needs a value");
  refused([] { make({"--n", ""}).take("--n"); }, "--n needs a value, and what it is given is empty");
  refused([] { make({"--n", "1", "--n", "2"}).take("--n"); }, "twice");
  refused([] { make({"--what"}).rest(); }, "'--what'");
}

}  // namespace
