// A variable of this process's environment for as long as a test needs it.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace tj::testing {

/// Sets a variable while it lives, and puts back what was there. The name must live as long.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace tj::testing
