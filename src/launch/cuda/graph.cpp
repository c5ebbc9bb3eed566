// See graph.hpp.
#include "launch/cuda/graph.hpp"

#include <utility>

#include "support/fail.hpp"

namespace tj::launch {
namespace {

class CudaRecording final : public Recording {
 public:
  CudaRecording(std::shared_ptr<CudaContexts> contexts, const CudaContext& context)
      : contexts_(std::move(contexts)), context_(context) {}
  ~CudaRecording() override {
    if (exec_ == nullptr || !contexts_->alive(context_)) return;
    const QuietContextScope scope(contexts_->api(), context_.handle);
    if (scope.entered()) contexts_->api().graph_exec_destroy(exec_);
  }
  /// Instantiates a graph. The context must be current.
  void instantiate(CUgraph graph) {
    contexts_->api().check(contexts_->api().graph_instantiate(&exec_, graph, 0), "cuGraphInstantiateWithFlags",
                           Stage::launch);
  }

  void replay(Stream stream) override {
    if (!contexts_->alive(context_))
      support::fail(Stage::launch, Code::driver_error,
                    "the context that these launches were recorded in was destroyed; record them anew");
    const ContextScope scope(contexts_->api(), context_.handle, Stage::launch);
    contexts_->api().check(contexts_->api().graph_launch(exec_, static_cast<CUstream>(stream.handle)), "cuGraphLaunch",
                           Stage::launch);
  }

 private:
  std::shared_ptr<CudaContexts> contexts_;
  const CudaContext& context_;
  CUgraphExec exec_ = nullptr;
};

/// A stream of its own while it captures, and the graph that came of it.
class Capture {
 public:
  explicit Capture(const CudaApi& api) : api_(api) {
    api_.check(api_.stream_create(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate", Stage::launch);
  }
  ~Capture() {
    if (open_) api_.stream_end_capture(stream_, &graph_);  // the work threw: what there is of it goes
    if (graph_ != nullptr) api_.graph_destroy(graph_);
    api_.stream_destroy(stream_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Stream begin() {
    // Relaxed: other threads of the process may load and allocate meanwhile.
    api_.check(api_.stream_begin_capture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture",
               Stage::launch);
    open_ = true;
    return {stream_};
  }
  CUgraph end() {
    open_ = false;
    api_.check(api_.stream_end_capture(stream_, &graph_), "cuStreamEndCapture", Stage::launch);
    return graph_;
  }

 private:
  const CudaApi& api_;
  CUstream stream_ = nullptr;
  CUgraph graph_ = nullptr;
  bool open_ = false;
};

}  // namespace

std::shared_ptr<Recording> record_graph(std::shared_ptr<CudaContexts> contexts, const CudaContext& context,
                                        const std::function<void(Stream)>& work) {
  const CudaApi& api = contexts->api();
  const ContextScope scope(api, context.handle, Stage::launch);
  Capture capture(api);
  work(capture.begin());
  auto recording = std::make_shared<CudaRecording>(std::move(contexts), context);
  recording->instantiate(capture.end());
  return recording;
}

}  // namespace tj::launch
