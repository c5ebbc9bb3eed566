// See tool_range.hpp.
#include "support/tool_range.hpp"

#include "support/lasting.hpp"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TJ_HAS_NVTX 1
#else
#define TJ_HAS_NVTX 0
#endif

namespace tj::support {

constinit std::atomic<bool> ToolRange::listens_{false};

#if TJ_HAS_NVTX

namespace {

/// Null where no tool listens. Tools keep a domain until the process ends.
nvtxDomainHandle_t domain() {
  static constinit Lasting<nvtxDomainHandle_t> made;
  return made.get([] { return nvtxDomainCreateA("tilejit"); });
}

}  // namespace

void look_for_tool() {
  if (domain() != nullptr) ToolRange::listens_.store(true, std::memory_order_relaxed);
}

void ToolRange::begin(const char* name) noexcept {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &range);
}
void ToolRange::end() noexcept { nvtxDomainRangePop(domain()); }

#else

void look_for_tool() {}
void ToolRange::begin(const char*) noexcept {}
void ToolRange::end() noexcept {}

#endif

}  // namespace tj::support
