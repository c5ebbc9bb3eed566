// The two constants that the build writes (.cmake/BuildId.cmake); the public calls are tj::version() and
// tj::build_id().
#pragma once

namespace tj::support {

extern const char* const kVersion;  ///< "0.2.0"
extern const char* const kBuildId;  ///< 64 hexadecimal digits

}  // namespace tj::support
