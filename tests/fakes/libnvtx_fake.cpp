// A tool that listens to NVTX and writes what it hears into the file that FAKE_NVTX_FILE names: "push <domain> <name>"
// and "pop <domain>", a line each with the thread's depth before it.
//
// NVTX opens it where NVTX_INJECTION64_PATH names it.
#if __has_include(<nvtx3/nvToolsExt.h>)  // else the library has no ranges
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace {

std::mutex g_mutex;
thread_local int t_depth = 0;

void write(const std::string& line) {
  const std::lock_guard lock(g_mutex);
  const char* const path = std::getenv("FAKE_NVTX_FILE");
  std::FILE* const file = path != nullptr ? std::fopen(path, "a") : nullptr;
  if (file == nullptr) return;
  std::fprintf(file, "%s\n", line.c_str());
  std::fclose(file);
}

const std::string& name_of(nvtxDomainHandle_t domain) { return *reinterpret_cast<const std::string*>(domain); }

nvtxDomainHandle_t create(const char* name) { return reinterpret_cast<nvtxDomainHandle_t>(new std::string(name)); }
int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* range) {
  const bool ascii = range->version == NVTX_VERSION && range->messageType == NVTX_MESSAGE_TYPE_ASCII;
  write(std::to_string(t_depth) + " push " + name_of(domain) + " " + (ascii ? range->message.ascii : "?"));
  return t_depth++;
}
int pop(nvtxDomainHandle_t domain) {
  write(std::to_string(--t_depth) + " pop " + name_of(domain));
  return t_depth;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table_of) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(table_of(static_cast<uint32_t>(NVTX_ETID_CALLBACKS)));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  const auto set = [&](unsigned index, auto function) {
    if (index < size) *table[index] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  set(NVTX_CBID_CORE2_DomainCreateA, create);
  set(NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}

#endif
