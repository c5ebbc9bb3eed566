// The one place that throws.
#include "support/fail.hpp"

#include <utility>

namespace tj::support {

void fail(Stage stage, Code code, std::string message, std::string log, std::string source_path) {
  throw Error(stage, code, std::move(message), std::move(log), std::move(source_path));
}

}  // namespace tj::support
