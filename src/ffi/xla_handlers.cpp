// Handlers of XLA's custom calls, one for each op and platform: tj_xla_<op> for host memory, tj_xla_<op>_cuda, _hip.
//
// Decides how a call frame becomes arguments, and what each stage does. Decides nothing about ops: signature.hpp has
// their tables. Invariant: nothing is thrown to XLA; a buffer is looked at in the stage that executes alone.
//
// The attributes `inputs` and `results` name the buffers in their order: "q k v" and "o lse". The attribute `exchanged`
// names those whose second and third dimensions change places. All other attributes are arguments by their names.
#include <xla/ffi/api/c_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <tilejit/export.hpp>

#include "api/c_errors.hpp"
#include "ffi/arguments.hpp"
#include "ffi/signature.hpp"
#include "support/fail.hpp"
#include "support/fork_safe.hpp"
#include "support/lasting.hpp"

namespace tj::ffi {
namespace {

using support::cat;

struct Known {
  XLA_FFI_DataType xla;
  std::int32_t dtype;
};
constexpr Known kTypes[] = {{XLA_FFI_DataType_F16, TJ_F16},
                            {XLA_FFI_DataType_BF16, TJ_BF16},
                            {XLA_FFI_DataType_F32, TJ_F32},
                            {XLA_FFI_DataType_S32, TJ_I32},
                            {XLA_FFI_DataType_F8E4M3FN, TJ_E4M3}};

[[noreturn]] void refuse(const char* op, const std::string& message) {
  support::fail(Stage::argument, Code::invalid_argument, cat(op, ": ", message));
}

std::string_view text_of(const XLA_FFI_ByteSpan& span) { return {span.ptr, span.len}; }

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

/// Calls whose kernels are ready: XLA initializes before each execution, and a report costs more than a launch.
class Prepared {
 public:
  bool has(std::uint64_t kind) {
    const std::lock_guard lock(mutex_);
    return kinds_.get().count(kind) != 0;
  }
  void add(std::uint64_t kind) {
    const std::lock_guard lock(mutex_);
    auto& kinds = kinds_.get();
    if (kinds.size() >= kMost) kinds.clear();
    kinds.insert(kind);
  }

 private:
  static constexpr std::size_t kMost = 4096;
  support::Mutex mutex_;
  support::Lasting<std::unordered_set<std::uint64_t>> kinds_;
};
constinit Prepared prepared;

/// A call's frame as one op's arguments.
class Frame {
 public:
  Frame(const Signature& signature, std::int32_t device_kind, const XLA_FFI_CallFrame& frame)
      : signature_(signature), frame_(frame), arguments_(signature) {
    device_.kind = device_kind;
  }

  /// An error of XLA's own, which goes back to it; null after a success. Throws tj::Error.
  XLA_FFI_Error* run() {
    const bool executes = frame_.stage == XLA_FFI_ExecutionStage_EXECUTE;
    if (!executes && frame_.stage != XLA_FFI_ExecutionStage_INITIALIZE) return nullptr;
    void* stream = nullptr;
    if (device_.kind != TJ_CPU) {
      if (XLA_FFI_Error* error = find_device(executes ? &stream : nullptr)) return error;
    }
    read_attributes();
    read_buffers();
    if (executes) {
      arguments_.run(Stream{stream});
    } else if (const std::uint64_t kind = arguments_.kind(); !prepared.has(kind)) {
      arguments_.prepare();
      prepared.add(kind);
    }
    return nullptr;
  }

 private:
  XLA_FFI_Error* find_device(void** stream) {
    XLA_FFI_DeviceOrdinal_Get_Args ordinal{};
    ordinal.struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE;
    ordinal.ctx = frame_.ctx;
    if (XLA_FFI_Error* error = frame_.api->XLA_FFI_DeviceOrdinal_Get(&ordinal)) return error;
    device_.index = ordinal.device_ordinal;
    if (stream == nullptr) return nullptr;
    XLA_FFI_Stream_Get_Args place{};
    place.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
    place.ctx = frame_.ctx;
    XLA_FFI_Error* error = frame_.api->XLA_FFI_Stream_Get(&place);
    *stream = place.stream;
    return error;
  }

  void read_attributes() {
    const XLA_FFI_Attrs& attributes = frame_.attrs;
    for (std::int64_t i = 0; i < attributes.size; ++i) {
      const std::string_view name = text_of(*attributes.names[i]);
      if (read_list(name, attributes.types[i], attributes.attrs[i])) continue;
      const Parameter* parameter = signature_.find(name);
      if (parameter == nullptr)
        refuse(signature_.op,
               cat("attribute '", name, "' is unknown; allowed: inputs, results, exchanged, ", names_of(signature_)));
      if (attributes.types[i] == XLA_FFI_AttrType_STRING)
        arguments_.word(*parameter, text_of(*static_cast<const XLA_FFI_ByteSpan*>(attributes.attrs[i])));
      else if (attributes.types[i] == XLA_FFI_AttrType_SCALAR)
        read_scalar(*parameter, *static_cast<const XLA_FFI_Scalar*>(attributes.attrs[i]));
      else
        refuse(signature_.op,
               cat("attribute '", name, "' is no scalar and no text; allowed: ", allowed_for(*parameter)));
    }
  }

  bool read_list(std::string_view name, XLA_FFI_AttrType type, const void* value) {
    auto* list = name == "inputs"      ? &inputs_
                 : name == "results"   ? &results_
                 : name == "exchanged" ? &exchanged_
                                       : nullptr;
    if (list == nullptr) return false;
    if (type != XLA_FFI_AttrType_STRING)
      refuse(signature_.op,
             cat("attribute '", name, "' is no text; allowed: names of tensors with blanks between them"));
    *list = words_of(text_of(*static_cast<const XLA_FFI_ByteSpan*>(value)));
    return true;
  }

  template <class Value>
  static Value value_of(const XLA_FFI_Scalar& scalar) {
    Value value{};
    std::memcpy(&value, scalar.value, sizeof value);
    return value;
  }

  void read_scalar(const Parameter& parameter, const XLA_FFI_Scalar& scalar) {
    switch (scalar.dtype) {
      case XLA_FFI_DataType_PRED:
        return arguments_.flag(parameter, value_of<std::uint8_t>(scalar) != 0);
      case XLA_FFI_DataType_S32:
        return arguments_.whole(parameter, value_of<std::int32_t>(scalar));
      case XLA_FFI_DataType_S64:
        return arguments_.whole(parameter, value_of<std::int64_t>(scalar));
      case XLA_FFI_DataType_F32:
        return arguments_.real(parameter, value_of<float>(scalar));
      case XLA_FFI_DataType_F64:
        return arguments_.real(parameter, value_of<double>(scalar));
      default:
        refuse(signature_.op, cat("attribute '", parameter.name, "' has XLA's type ", static_cast<int>(scalar.dtype),
                                  "; allowed: PRED (1), S32 (4), S64 (5), F32 (11), F64 (12)"));
    }
  }

  void read_buffers() {
    check_count("inputs", inputs_, frame_.args.size);
    check_count("results", results_, frame_.rets.size);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (frame_.args.types[i] != XLA_FFI_ArgType_BUFFER)
        refuse(signature_.op, cat(inputs_[i], " is no buffer; allowed: a buffer"));
      read_buffer(inputs_[i], Kind::read, *static_cast<const XLA_FFI_Buffer*>(frame_.args.args[i]));
    }
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (frame_.rets.types[i] != XLA_FFI_RetType_BUFFER)
        refuse(signature_.op, cat(results_[i], " is no buffer; allowed: a buffer"));
      read_buffer(results_[i], Kind::written, *static_cast<const XLA_FFI_Buffer*>(frame_.rets.rets[i]));
    }
    for (const std::string_view name : exchanged_)
      if (arguments_.tensor(name) == nullptr)
        refuse(signature_.op, cat("attribute 'exchanged' names '", name, "', which is no buffer of the call"));
  }

  void check_count(const char* attribute, const std::vector<std::string_view>& names, std::int64_t count) {
    if (static_cast<std::int64_t>(names.size()) != count)
      refuse(signature_.op, cat("attribute '", attribute, "' has ", names.size(), " names, and there are ", count,
                                " buffers; allowed: a name for each"));
  }

  void read_buffer(std::string_view name, Kind kind, const XLA_FFI_Buffer& buffer) {
    const Parameter* parameter = signature_.find(name);
    if (parameter == nullptr || parameter->kind != kind || arguments_.tensor(name) != nullptr)
      refuse(signature_.op, cat("'", name, "' names ", kind == Kind::read ? "an input" : "a result",
                                "; allowed, each once: ", names_of_kind(kind)));
    if (buffer.rank < 0 || buffer.rank > TJ_MAX_RANK)
      refuse(signature_.op, cat(name, " has ", buffer.rank, " dimensions; allowed: 0 to ", TJ_MAX_RANK));
    const auto known =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Known& row) { return row.xla == buffer.dtype; });
    if (known == std::end(kTypes))
      refuse(signature_.op, cat(name, " has XLA's type ", static_cast<int>(buffer.dtype),
                                "; allowed: F16 (10), BF16 (16), F32 (11), S32 (4), F8E4M3FN (20)"));
    tj_tensor tensor{};
    tensor.data = buffer.data;
    tensor.device = device_;
    tensor.dtype = known->dtype;
    tensor.rank = static_cast<std::int32_t>(buffer.rank);
    std::uint64_t step = 1;
    for (std::int64_t i = buffer.rank - 1; i >= 0; --i) {
      tensor.shape[i] = buffer.dims[i];
      tensor.strides[i] = static_cast<std::int64_t>(step);
      step *= static_cast<std::uint64_t>(buffer.dims[i]);
    }
    if (std::find(exchanged_.begin(), exchanged_.end(), name) != exchanged_.end()) {
      if (buffer.rank < 3)
        refuse(signature_.op,
               cat(name, " has ", buffer.rank, " dimensions; allowed where it is exchanged: 3 to ", TJ_MAX_RANK));
      std::swap(tensor.shape[1], tensor.shape[2]);
      std::swap(tensor.strides[1], tensor.strides[2]);
    }
    arguments_.tensor(*parameter, tensor);
  }

  std::string names_of_kind(Kind kind) const {
    std::string names;
    for (const Parameter& parameter : signature_.parameters)
      if (parameter.kind == kind) names += cat(names.empty() ? "" : ", ", parameter.name);
    return names;
  }

  const Signature& signature_;
  const XLA_FFI_CallFrame& frame_;
  Arguments arguments_;
  tj_device device_{};
  std::vector<std::string_view> inputs_, results_, exchanged_;
};

/// XLA asks at registration for the version that the handler was compiled with, and what may be done with it.
bool answer_metadata(const XLA_FFI_CallFrame& frame) {
  for (auto* extension = frame.extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata& metadata = *reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata.api_version.major_version = XLA_FFI_API_MAJOR;
    metadata.api_version.minor_version = XLA_FFI_API_MINOR;
    metadata.traits = XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE;
    return true;
  }
  return false;
}

XLA_FFI_Error_Code code_of(tj_status status) {
  switch (status) {
    case TJ_INVALID_ARGUMENT:
      return XLA_FFI_Error_Code_INVALID_ARGUMENT;
    case TJ_UNSUPPORTED:
      return XLA_FFI_Error_Code_UNIMPLEMENTED;
    case TJ_NOT_FOUND:
      return XLA_FFI_Error_Code_NOT_FOUND;
    case TJ_OUT_OF_MEMORY:
      return XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
    case TJ_COLD_IN_CAPTURE:
    case TJ_NOT_IN_CACHE:
      return XLA_FFI_Error_Code_FAILED_PRECONDITION;
    default:
      return XLA_FFI_Error_Code_INTERNAL;
  }
}

XLA_FFI_Error* error_of(const XLA_FFI_Api& api, tj_status status) noexcept {
  const auto create = [&](const char* message) {
    XLA_FFI_Error_Create_Args args{};
    args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
    args.message = message;
    args.errc = code_of(status);
    return api.XLA_FFI_Error_Create(&args);
  };
  try {
    const c_api::LastError& error = c_api::last_error();
    const std::string log = error.log.empty() ? std::string() : cat("\n", error.log);
    return create(cat("tilejit: ", error.stage, ": ", error.message, log).c_str());
  } catch (...) {
    return create("tilejit: no memory for the error's text; tj_last_error() has it");
  }
}

XLA_FFI_Error* handle(const Signature& signature, std::int32_t device_kind, XLA_FFI_CallFrame* frame) noexcept {
  if (frame == nullptr || answer_metadata(*frame)) return nullptr;
  XLA_FFI_Error* own = nullptr;
  const tj_status status = c_api::guarded([&] {
    const XLA_FFI_Api& api = *frame->api;
    if (api.struct_size < XLA_FFI_Api_STRUCT_SIZE || frame->struct_size < XLA_FFI_CallFrame_STRUCT_SIZE)
      support::fail(
          Stage::load, Code::unsupported,
          cat("XLA's interface has the version ", api.api_version.major_version, ".", api.api_version.minor_version,
              "; allowed: ", XLA_FFI_API_MAJOR, ".", XLA_FFI_API_MINOR, " and later; install a newer jaxlib"));
    own = Frame(signature, device_kind, *frame).run();
  });
  return status == TJ_OK ? own : error_of(*frame->api, status);
}

}  // namespace
}  // namespace tj::ffi

#define TJ_HANDLER(name)                                                            \
  extern "C" TJ_API XLA_FFI_Error* tj_xla_##name(XLA_FFI_CallFrame* frame) {        \
    return tj::ffi::handle(tj::ffi::name##_signature(), TJ_CPU, frame);             \
  }                                                                                 \
  extern "C" TJ_API XLA_FFI_Error* tj_xla_##name##_cuda(XLA_FFI_CallFrame* frame) { \
    return tj::ffi::handle(tj::ffi::name##_signature(), TJ_CUDA, frame);            \
  }                                                                                 \
  extern "C" TJ_API XLA_FFI_Error* tj_xla_##name##_hip(XLA_FFI_CallFrame* frame) {  \
    return tj::ffi::handle(tj::ffi::name##_signature(), TJ_HIP, frame);             \
  }
TJ_FFI_OPS(TJ_HANDLER)
#undef TJ_HANDLER
