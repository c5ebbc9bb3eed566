// DLPack's binary interface, version 1: tensors, and the functions of a framework that gives them.
//
// Decides nothing; the names are DLPack's, without its prefix. Sizes and order are fixed by its specification.
#pragma once

#include <cstdint>

namespace tj::api::dlpack {

inline constexpr std::uint32_t kMajor = 1;
enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kRocm = 10, kRocmHost = 11, kCudaManaged = 13 };
enum TypeCode : std::uint8_t { kInteger = 0 };  // of whole numbers with a sign

struct Tensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t rank;
  std::uint8_t type_code;
  std::uint8_t bits;
  std::uint16_t lanes;
  std::int64_t* shape;
  std::int64_t* strides;  ///< null: dense
  std::uint64_t byte_offset;
};

struct Version {
  std::uint32_t major, minor;
};

struct ManagedTensor {
  Version version;
  void* context;
  void (*deleter)(ManagedTensor*);
  std::uint64_t flags;
  Tensor tensor;
};

/// Functions return 0, or -1 with an error in the framework's language. All but the allocator need its lock.
struct ExchangeApi {
  Version version;
  const ExchangeApi* previous;
  int (*allocate)(Tensor* prototype, ManagedTensor** out, void* user,
                  void (*set_error)(void* user, const char* kind, const char* message));
  int (*managed_of_object)(void* object, ManagedTensor** out);
  int (*object_of_managed)(ManagedTensor* tensor, void** out);
  int (*tensor_of_object)(void* object, Tensor* out);  ///< borrows; may be null
  int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** out);
};

}  // namespace tj::api::dlpack
