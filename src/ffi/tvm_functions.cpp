// Functions of tvm-ffi, one for each op: __tvm_ffi_<op>.
//
// Decides how tagged values become arguments, and how failures become errors of tvm-ffi. Decides nothing about ops:
// signature.hpp has their tables. Invariant: nothing is thrown to the caller, and nothing is read of a value whose tag
// is another than expected.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tilejit/export.hpp>

#include "api/c_errors.hpp"
#include "ffi/arguments.hpp"
#include "ffi/dlpack.hpp"
#include "ffi/signature.hpp"
#include "ffi/tvm_api.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::ffi {
namespace {

using support::cat;

const char* name_of_tag(std::int32_t tag) {
  switch (tag) {
    case kTVMFFINone:
      return "None";
    case kTVMFFIInt:
      return "an integer";
    case kTVMFFIBool:
      return "a bool";
    case kTVMFFIFloat:
      return "a float";
    case kTVMFFIOpaquePtr:
      return "an opaque pointer";
    case kTVMFFIDataType:
      return "a data type";
    case kTVMFFIDevice:
      return "a device";
    case kTVMFFIDLTensorPtr:
    case kTVMFFITensor:
      return "a tensor";
    case kTVMFFIRawStr:
    case kTVMFFISmallStr:
    case kTVMFFIStr:
      return "a string";
    case kTVMFFIByteArrayPtr:
    case kTVMFFISmallBytes:
    case kTVMFFIBytes:
      return "bytes";
    case kTVMFFIObjectRValueRef:
      return "a moved object";
    case kTVMFFIFunction:
      return "a function";
    case kTVMFFIShape:
      return "a shape";
    case kTVMFFIArray:
      return "an array";
    case kTVMFFIMap:
      return "a map";
    default:
      return "another object";
  }
}

/// One call, from its values to its result.
class Call {
 public:
  Call(const Signature& signature, const TVMFFIAny* values, std::int32_t count, TVMFFIAny* result)
      : signature_(signature), values_(values), count_(count), result_(result), arguments_(signature) {}
  ~Call() {
    if (made_ != nullptr) api_->drop(made_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void run() {
    api_ = &tvm_api();
    check_count();
    for (std::int32_t i = 0; i < count_; ++i) read_at(i);
    if (signature_.made != nullptr && arguments_.tensor(signature_.made->name) == nullptr) allocate();
    arguments_.run(Stream{stream()});
    *result_ = TVMFFIAny{};
    if (made_ == nullptr) return;
    result_->type_index = kTVMFFITensor;
    result_->v_obj = static_cast<TVMFFIObject*>(std::exchange(made_, nullptr));
  }

  /// Hands the thread's last error to tvm-ffi, where that is not its own.
  void raise(tj_status status) const noexcept {
    if (api_ == nullptr || raised_) return;
    const c_api::LastError& error = c_api::last_error();
    const char* kind = wrong_type_ || arguments_.wrong_kind()        ? "TypeError"
                       : status == TJ_OUT_OF_MEMORY                  ? "MemoryError"
                       : error.stage == std::string_view("argument") ? "ValueError"
                                                                     : "RuntimeError";
    try {
      const std::string log = error.log.empty() ? std::string() : cat("\n", error.log);
      api_->raise(kind, cat("tilejit: ", error.stage, ": ", error.message, log).c_str());
    } catch (...) {
      api_->raise(kind, "tilejit: no memory for the error's text; tj_last_error() has it");
    }
  }

 private:
  [[noreturn]] void refuse_type(const std::string& message) {
    wrong_type_ = true;
    support::fail(Stage::argument, Code::invalid_argument, cat(signature_.op, ": ", message));
  }

  void check_count() {
    const auto [least, most] = counts_of(signature_);
    if (count_ < static_cast<std::int32_t>(least) || count_ > static_cast<std::int32_t>(most))
      refuse_type(cat("there are ", count_, " arguments; allowed: ", least, least == most ? "" : cat(" to ", most),
                      " (", names_of(signature_), ")"));
    if (values_ == nullptr || result_ == nullptr)
      refuse_type("the place of the arguments or of the result is null; allowed: what tvm-ffi's calls pass");
  }

  /// Reads one place. Its error names the order, as a wrong kind often means a shifted argument.
  void read_at(std::int32_t place) {
    try {
      read(signature_.parameters[static_cast<std::size_t>(place)], values_[place]);
    } catch (const Error& error) {
      if (!wrong_type_ && !arguments_.wrong_kind()) throw;
      support::fail(error.stage, error.code,
                    cat(error.message, "; it is argument ", place + 1, " of (", names_of(signature_), ")"));
    }
  }

  void read(const Parameter& parameter, const TVMFFIAny& value) {
    switch (value.type_index) {
      case kTVMFFINone:
        return read_none(parameter);
      case kTVMFFIInt:
        return arguments_.whole(parameter, value.v_int64);
      case kTVMFFIBool:
        return arguments_.flag(parameter, value.v_int64 != 0);
      case kTVMFFIFloat:
        return arguments_.real(parameter, value.v_float64);
      case kTVMFFIDLTensorPtr:
        return read_tensor(parameter, static_cast<const DLTensor*>(value.v_ptr));
      case kTVMFFITensor:
        return read_tensor(parameter, value.v_obj == nullptr ? nullptr : TVMFFITensorGetDLTensorPtr(value.v_obj));
      case kTVMFFISmallStr:
        return arguments_.word(parameter, {value.v_bytes, std::min(value.small_str_len, 7u)});
      case kTVMFFIRawStr:
        if (value.v_c_str != nullptr) return arguments_.word(parameter, value.v_c_str);
        break;
      case kTVMFFIStr:
        if (value.v_obj == nullptr) break;
        return arguments_.word(parameter, text_of(*TVMFFIBytesGetByteArrayPtr(value.v_obj)));
      default:
        break;
    }
    refuse_type(cat(parameter.name, " is ", name_of_tag(value.type_index), " (tag ", value.type_index,
                    "); allowed: ", allowed_for(parameter)));
  }

  /// A framework's stream of the device, whatever kind of the device's memory the tensors have.
  void* stream() const {
    const tj_device device = arguments_.first().device;
    if (device.kind == TJ_CPU) return nullptr;
    return api_->stream(device.kind == TJ_CUDA ? kDLCUDA : kDLROCM, device.index);
  }

  static std::string_view text_of(const TVMFFIByteArray& bytes) { return {bytes.data, bytes.size}; }

  void read_none(const Parameter& parameter) {
    if (!parameter.optional) refuse_type(cat(parameter.name, " is None; allowed: a tensor"));
  }

  void read_tensor(const Parameter& parameter, const DLTensor* tensor) {
    if (tensor == nullptr) refuse_type(cat(parameter.name, " is a null tensor; allowed: a tensor"));
    arguments_.tensor(parameter, from_dlpack(*tensor, signature_.op, parameter.name));
    if (!has_device_) device_ = tensor->device;
    has_device_ = true;
  }

  void allocate() {
    const char* name = signature_.made->name;
    if (api_->allocator() == nullptr)
      support::fail(Stage::argument, Code::invalid_argument,
                    cat(signature_.op, ": ", name, " is None, and tvm-ffi has no allocator for it; give ", name,
                        ", or pass tensors of a framework that brings an allocator, such as torch"));
    tj_tensor wanted{};
    wanted.device = arguments_.first().device;
    signature_.make(arguments_, wanted);
    DLTensor prototype{};
    prototype.device = device_;
    prototype.ndim = wanted.rank;
    prototype.dtype = to_dlpack(wanted.dtype);
    prototype.shape = wanted.shape;
    if (api_->allocate(&prototype, &made_) != 0 || made_ == nullptr) {
      made_ = nullptr;
      raised_ = true;  // the framework's own error
      support::fail(Stage::argument, Code::out_of_memory, cat(signature_.op, ": ", name, " could not be allocated"));
    }
    read_tensor(*signature_.made, TVMFFITensorGetDLTensorPtr(made_));
  }

  const Signature& signature_;
  const TVMFFIAny* values_;
  std::int32_t count_;
  TVMFFIAny* result_;
  Arguments arguments_;
  const TvmApi* api_ = nullptr;
  DLDevice device_{kDLCPU, 0};
  bool has_device_ = false, wrong_type_ = false, raised_ = false;
  TVMFFIObjectHandle made_ = nullptr;
};

int call(const Signature& signature, const TVMFFIAny* values, std::int32_t count, TVMFFIAny* result) noexcept {
  Call whole(signature, values, count, result);
  const tj_status status = c_api::guarded([&] { whole.run(); });
  if (status == TJ_OK) return 0;
  whole.raise(status);
  return -1;
}

}  // namespace
}  // namespace tj::ffi

#define TJ_FUNCTION(name)                                                                                         \
  extern "C" TJ_API int __tvm_ffi_##name(void*, const TVMFFIAny* values, std::int32_t count, TVMFFIAny* result) { \
    return tj::ffi::call(tj::ffi::name##_signature(), values, count, result);                                     \
  }
TJ_FFI_OPS(TJ_FUNCTION)
#undef TJ_FUNCTION
