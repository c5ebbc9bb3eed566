// See output.hpp.
#include "common/output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tj::samples {

int all_written(const char* sample, int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "%s: standard output cannot be written: %s\n", sample,
               errno == 0 ? "an earlier write failed" : std::strerror(errno));
  return 2;
}

}  // namespace tj::samples
