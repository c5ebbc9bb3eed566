// See side_stream.hpp. Decides how two streams wait for each other: by an event each way, which a capture takes, too.
#include "launch/cuda/side_stream.hpp"

#include <utility>

namespace tj::launch {
namespace {

class CudaSideStream final : public SideStream {
 public:
  CudaSideStream(std::shared_ptr<CudaContexts> contexts, const CudaContext& context)
      : contexts_(std::move(contexts)), context_(context) {
    const ContextScope scope(api(), context_.handle, Stage::launch);
    try {
      api().check(api().stream_create(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate", Stage::launch);
      for (CUevent* event : {&begun_, &done_})
        api().check(api().event_create(event, CU_EVENT_DISABLE_TIMING), "cuEventCreate", Stage::launch);
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~CudaSideStream() override {
    if (!contexts_->alive(context_)) return;
    try {
      const ContextScope scope(api(), context_.handle, Stage::launch);
      destroy();
    } catch (const Error&) {  // a context that is going takes them along
    }
  }

  Stream get() const noexcept override { return {stream_}; }
  void follow(Stream main) override { wait(begun_, static_cast<CUstream>(main.handle), stream_); }
  void join(Stream main) override { wait(done_, stream_, static_cast<CUstream>(main.handle)); }

 private:
  const CudaApi& api() const { return contexts_->api(); }
  void wait(CUevent event, CUstream before, CUstream behind) {
    const ContextScope scope(api(), context_.handle, Stage::launch);
    api().check(api().event_record(event, before), "cuEventRecord", Stage::launch);
    api().check(api().stream_wait_event(behind, event, 0), "cuStreamWaitEvent", Stage::launch);
  }
  void destroy() {
    for (const CUevent event : {begun_, done_})
      if (event != nullptr) api().event_destroy(event);
    if (stream_ != nullptr) api().stream_destroy(stream_);
  }

  const std::shared_ptr<CudaContexts> contexts_;
  const CudaContext& context_;
  CUstream stream_ = nullptr;
  CUevent begun_ = nullptr, done_ = nullptr;
};

}  // namespace

std::shared_ptr<SideStream> make_side_stream(std::shared_ptr<CudaContexts> contexts, const CudaContext& context) {
  return std::make_shared<CudaSideStream>(std::move(contexts), context);
}

}  // namespace tj::launch
