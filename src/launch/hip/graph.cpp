// See graph.hpp.
#include "launch/hip/graph.hpp"

#include <utility>

#include "support/fail.hpp"

namespace tj::launch {
namespace {

constexpr unsigned kNonBlocking = 1;
constexpr int kRelaxed = 2;  // other threads of the process may load and allocate meanwhile

class HipRecording final : public Recording {
 public:
  HipRecording(std::shared_ptr<HipDevices> devices, int device, const HipLife& life)
      : devices_(std::move(devices)), life_(life), device_(device) {}
  /// A reset destroys the streams that the graph runs on, which it would destroy once more.
  ~HipRecording() override {
    if (exec_ == nullptr || !devices_->alive(life_)) return;
    const QuietHipDeviceScope scope(devices_->api(), device_);
    if (scope.entered()) hip_quietly(devices_->api(), devices_->api().graph_exec_destroy(exec_));
  }
  /// Instantiates a graph. The device must be current.
  void instantiate(void* graph) {
    devices_->api().check(devices_->api().graph_instantiate(&exec_, graph, 0), "hipGraphInstantiateWithFlags",
                          Stage::launch);
  }

  void replay(Stream stream) override {
    if (!devices_->alive(life_))
      support::fail(Stage::launch, Code::driver_error,
                    "the device that these launches were recorded on was reset; record them anew");
    const HipDeviceScope scope(devices_->api(), device_, Stage::launch);
    devices_->api().check(devices_->api().graph_launch(exec_, stream.handle), "hipGraphLaunch", Stage::launch);
  }

 private:
  std::shared_ptr<HipDevices> devices_;
  const HipLife& life_;
  int device_;
  void* exec_ = nullptr;
};

/// A stream of its own while it captures, and the graph that came of it.
class Capture {
 public:
  explicit Capture(const HipApi& api) : api_(api) {
    api_.check(api_.stream_create(&stream_, kNonBlocking), "hipStreamCreateWithFlags", Stage::launch);
  }
  ~Capture() {
    if (open_)
      hip_quietly(api_, api_.stream_end_capture(stream_, &graph_));  // the work threw: what there is of it goes
    if (graph_ != nullptr) hip_quietly(api_, api_.graph_destroy(graph_));
    hip_quietly(api_, api_.stream_destroy(stream_));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Stream begin() {
    api_.check(api_.stream_begin_capture(stream_, kRelaxed), "hipStreamBeginCapture", Stage::launch);
    open_ = true;
    return {stream_};
  }
  void* end() {
    open_ = false;
    api_.check(api_.stream_end_capture(stream_, &graph_), "hipStreamEndCapture", Stage::launch);
    return graph_;
  }

 private:
  const HipApi& api_;
  void* stream_ = nullptr;
  void* graph_ = nullptr;
  bool open_ = false;
};

}  // namespace

std::shared_ptr<Recording> record_hip_graph(std::shared_ptr<HipDevices> devices, int device,
                                            const std::function<void(Stream)>& work) {
  const HipApi& api = devices->api();
  if (!api.has_graphs())
    support::fail(
        Stage::launch, Code::unsupported,
        support::cat("the HIP runtime at ", api.path, " has no graphs to record launches in; install ROCm 6 or newer"));
  const HipLife& life = devices->life(device);
  const HipDeviceScope scope(api, device, Stage::launch);
  Capture capture(api);
  work(capture.begin());
  auto recording = std::make_shared<HipRecording>(std::move(devices), device, life);
  recording->instantiate(capture.end());
  return recording;
}

}  // namespace tj::launch
