// See output.hpp.
#include "common/output.hpp"

#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tj::samples {

int all_written(const char* sample, int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (errno == 0 && ::write(STDOUT_FILENO, "\n", 1) == 1)
    errno = EIO;  // an earlier reason is told again by one byte more
  std::fprintf(stderr, "%s: standard output cannot be written: %s; give one that can be written\n", sample,
               std::strerror(errno));
  return 2;
}

}  // namespace tj::samples
