// Protects XLA's handlers on a GPU without one: what they tell of themselves, which stage makes kernels and which
// launches, on XLA's stream and device; frames that make no sense are errors with the argument's name.
#include <doctest/doctest.h>

#if __has_include(<xla/ffi/api/c_api.h>)
#include <xla/ffi/api/c_api.h>

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/runtime_fixture.hpp"
#include "support/variable.hpp"

extern "C" XLA_FFI_Error* tj_xla_fmha_cuda(XLA_FFI_CallFrame*);

namespace {

using namespace tj::test;

// XLA's opaque types, as this test has them.
struct MadeError {
  std::string message;
  XLA_FFI_Error_Code code;
};
struct Context {
  int ordinal = 0;
  void* stream = nullptr;
  bool fails = false;
};
XLA_FFI_Error* error_with(const char* message, XLA_FFI_Error_Code code) {
  return reinterpret_cast<XLA_FFI_Error*>(new MadeError{message, code});
}
const Context& context_of(const XLA_FFI_ExecutionContext* opaque) { return *reinterpret_cast<const Context*>(opaque); }

/// XLA as a handler sees it.
const XLA_FFI_Api& api() {
  static const XLA_FFI_Api made = [] {
    XLA_FFI_Api api{};
    api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    api.XLA_FFI_Error_Create = [](XLA_FFI_Error_Create_Args* args) { return error_with(args->message, args->errc); };
    api.XLA_FFI_DeviceOrdinal_Get = [](XLA_FFI_DeviceOrdinal_Get_Args* args) -> XLA_FFI_Error* {
      args->device_ordinal = context_of(args->ctx).ordinal;
      return nullptr;
    };
    api.XLA_FFI_Stream_Get = [](XLA_FFI_Stream_Get_Args* args) -> XLA_FFI_Error* {
      if (context_of(args->ctx).fails) return error_with("no stream", XLA_FFI_Error_Code_UNAVAILABLE);
      args->stream = context_of(args->ctx).stream;
      return nullptr;
    };
    return api;
  }();
  return made;
}

struct Buffer {
  XLA_FFI_DataType dtype = XLA_FFI_DataType_F16;
  std::vector<std::int64_t> dims = {1, 2, 256, 64};
};
struct Attribute {
  std::string name, text;
  XLA_FFI_Scalar scalar{};
  XLA_FFI_AttrType type = XLA_FFI_AttrType_STRING;
};

/// A frame of fmha: q, k, v and o.
struct Frame {
  std::vector<Buffer> inputs = std::vector<Buffer>(3), results = std::vector<Buffer>(1);
  std::vector<Attribute> attributes = {{"inputs", "q k v"}, {"results", "o"}};
  Context context;

  /// The error's text with its code in front; empty after a success.
  std::string call(XLA_FFI_ExecutionStage stage, const XLA_FFI_Api& by = api()) {
    std::vector<XLA_FFI_Buffer> buffers;
    buffers.reserve(inputs.size() + results.size());
    std::vector<void*> args, rets, values;
    for (auto* list : {&inputs, &results})
      for (Buffer& each : *list) {
        buffers.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, each.dtype,
                           address(kFirstAddress + buffers.size() * kAddressStep),
                           static_cast<std::int64_t>(each.dims.size()), each.dims.data()});
        (list == &inputs ? args : rets).push_back(&buffers.back());
      }
    std::vector<XLA_FFI_ArgType> arg_types(args.size(), XLA_FFI_ArgType_BUFFER);
    std::vector<XLA_FFI_RetType> ret_types(rets.size(), XLA_FFI_RetType_BUFFER);
    std::vector<XLA_FFI_AttrType> types;
    std::vector<XLA_FFI_ByteSpan> names, texts;
    std::vector<XLA_FFI_ByteSpan*> name_places;
    names.reserve(attributes.size());
    texts.reserve(attributes.size());
    for (Attribute& each : attributes) {
      types.push_back(each.type);
      names.push_back({each.name.data(), each.name.size()});
      name_places.push_back(&names.back());
      texts.push_back({each.text.data(), each.text.size()});
      values.push_back(each.type == XLA_FFI_AttrType_STRING ? static_cast<void*>(&texts.back()) : &each.scalar);
    }
    XLA_FFI_CallFrame frame{};
    frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    frame.api = &by;
    frame.ctx = reinterpret_cast<XLA_FFI_ExecutionContext*>(&context);
    frame.stage = stage;
    frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, static_cast<std::int64_t>(args.size()), arg_types.data(),
                  args.data()};
    frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, static_cast<std::int64_t>(rets.size()), ret_types.data(),
                  rets.data()};
    frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr,      static_cast<std::int64_t>(values.size()), types.data(),
                   name_places.data(),        values.data()};
    const auto* error = reinterpret_cast<MadeError*>(tj_xla_fmha_cuda(&frame));
    if (error == nullptr) return "";
    const std::string text = std::to_string(error->code) + " " + error->message;
    delete error;
    return text;
  }
};

template <class Value>
Attribute number(const char* name, XLA_FFI_DataType dtype, Value& value) {
  return {name, "", {dtype, &value}, XLA_FFI_AttrType_SCALAR};
}

TEST_CASE("a handler tells its version, and that its launches may be recorded") {
  XLA_FFI_Metadata metadata{};
  XLA_FFI_Metadata_Extension extension{{sizeof extension, XLA_FFI_Extension_Metadata, nullptr}, &metadata};
  XLA_FFI_CallFrame frame{};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.extension_start = &extension.extension_base;
  CHECK(tj_xla_fmha_cuda(&frame) == nullptr);
  CHECK(metadata.api_version.major_version == XLA_FFI_API_MAJOR);
  CHECK(metadata.api_version.minor_version == XLA_FFI_API_MINOR);
  CHECK(metadata.traits == XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
}

TEST_CASE("an interface that lacks what is called is refused by its version") {
  XLA_FFI_Api older = api();
  older.struct_size -= sizeof(void*);
  older.api_version.minor_version = 1;
  Frame frame;
  for (const auto stage : {XLA_FFI_ExecutionStage_INITIALIZE, XLA_FFI_ExecutionStage_EXECUTE}) {
    const std::string text = frame.call(stage, older);
    CHECK_MESSAGE(text.find("XLA's interface has the version 0.1; allowed: ") != std::string::npos, text);
    CHECK_MESSAGE(text.find("install a newer jaxlib") != std::string::npos, text);
  }
}

/// A stream that the driver has made, and names in its log.
void* stream_of(Machine& machine, int device) {
  void *context = nullptr, *stream = nullptr, *driver = ::dlopen(TJ_FAKES_DIR "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto create = reinterpret_cast<int (*)(void**, unsigned)>(::dlsym(driver, "cuStreamCreate"));
  const bool found = create != nullptr;
  REQUIRE(found);
  machine.cuda.retain(&context, device);
  machine.cuda.push(context);
  CHECK(create(&stream, 0) == 0);
  machine.cuda.pop(&context);
  return stream;
}

TEST_CASE("kernels are made before the execution, which launches on XLA's stream and device") {
  Machine machine;
  machine.cuda.set_devices(2);
  const tj::testing::Variable cache("TJ_CACHE_DIR", machine.cache_dir()), target("TJ_TARGET", "");
  Frame frame;
  frame.context.ordinal = 1;
  frame.context.stream = stream_of(machine, 1);
  for (const auto stage : {XLA_FFI_ExecutionStage_INSTANTIATE, XLA_FFI_ExecutionStage_PREPARE})
    CHECK(frame.call(stage) == "");
  CHECK(machine.nvrtc.compiles() == 0);
  for (int i = 0; i < 2; ++i) CHECK(frame.call(XLA_FFI_ExecutionStage_INITIALIZE) == "");
  CHECK(machine.nvrtc.compiles() == 1);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 0);
  machine.cuda.set_capture(1);  // from here on nothing may be made
  CHECK(frame.call(XLA_FFI_ExecutionStage_EXECUTE) == "");
  CHECK(machine.nvrtc.compiles() == 1);
  CHECK(count_calls(machine.cuda, "cuLaunchKernelEx") == 1);
  const std::string log = machine.cuda.log();
  CHECK_MESSAGE(has(log, "cuDevicePrimaryCtxRetain 1"), log);
  CHECK_MESSAGE(has(log.substr(log.rfind("cuLaunchKernelEx")), " in stream 1"), log);

  std::uint8_t yes = 1;
  frame.attributes.push_back(number("causal", XLA_FFI_DataType_PRED, yes));
  const std::string cold = frame.call(XLA_FFI_ExecutionStage_EXECUTE);  // another kernel
  CHECK_MESSAGE(has(cold, "9 tilejit: "), cold);
  machine.cuda.set_capture(0);
  CHECK(frame.call(XLA_FFI_ExecutionStage_EXECUTE) == "");

  frame.context.fails = true;
  CHECK(frame.call(XLA_FFI_ExecutionStage_INITIALIZE) == "");
  CHECK(frame.call(XLA_FFI_ExecutionStage_EXECUTE) == "14 no stream");

  const auto refused = [](const char* text, Frame wrong) {
    const std::string error = wrong.call(XLA_FFI_ExecutionStage_EXECUTE);
    CHECK_MESSAGE(has(error, std::string("3 tilejit: argument: fmha: ") + text), error);
  };
  const auto with = [](const Attribute& attribute) {
    Frame made;
    made.attributes.push_back(attribute);
    return made;
  };
  double half = 0.5;
  std::int32_t two = 2;
  refused(
      "attribute 'x' is unknown; allowed: inputs, results, exchanged, q, k, v, o, lse, causal, scale, "
      "window_left, window_right, top_left, softcap, alibi_slopes, sinks, cu_seqlens_q, "
      "cu_seqlens_k, seqused_k, block_table",
      with({"x", ""}));
  refused("causal is 2; allowed: true or false", with(number("causal", XLA_FFI_DataType_S32, two)));
  refused("causal is 0.5; allowed: true or false", with(number("causal", XLA_FFI_DataType_F64, half)));
  refused("attribute 'scale' has XLA's type 10; allowed: PRED (1)", with(number("scale", XLA_FFI_DataType_F16, half)));
  refused("attribute 'inputs' is no text", with(number("inputs", XLA_FFI_DataType_F64, half)));
  refused("attribute 'exchanged' names 'lse', which is no buffer of the call", with({"exchanged", "q lse"}));
  refused("attribute 'inputs' has 2 names, and there are 3 buffers", with({"inputs", "q k"}));
  refused("'o' names an input; allowed, each once: q, k, v", with({"inputs", "q k o"}));
  refused("'q' names an input; allowed, each once: q, k, v", with({"inputs", "q  q k"}));
  refused("k is missing; allowed: a tensor", [] {
    Frame made;
    made.attributes[0].text = "q v";
    made.inputs.pop_back();
    return made;
  }());
  for (const auto& [text, buffer] :
       {std::pair{"k has XLA's type 12; allowed: F16 (10)", Buffer{XLA_FFI_DataType_F64, {1}}},
        std::pair{"k has 6 dimensions; allowed: 0 to 5", Buffer{XLA_FFI_DataType_F16, {1, 1, 1, 1, 1, 1}}},
        std::pair{"k.rank is 1; allowed: 4", Buffer{XLA_FFI_DataType_F16, {64}}}}) {
    Frame wrong;
    wrong.inputs[1] = buffer;
    refused(text, wrong);
  }
}

}  // namespace
#endif
