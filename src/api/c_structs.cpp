// See c_structs.hpp.
#include "api/c_structs.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::c_api {

using support::cat;

// No structure comes near it in any version: a larger size was never set.
constexpr std::uint64_t kMostBytes = 4096;

void refuse(const std::string& message, Code code) { support::fail(Stage::argument, code, message); }

void check_size(std::uint64_t size, const char* name, std::size_t known) {
  if (size < known || size > kMostBytes)
    refuse(cat(name, ".size is ", size, "; allowed: sizeof of the structure, at least ", known, " in version ",
               version(), " and at most ", kMostBytes));
}

namespace {

constexpr const char* kDTypes = "0 (f16), 1 (bf16), 2 (f32), 3 (i32), 4 (e4m3)";
constexpr const char* kActivations = "0 (none), 1 (relu), 2 (gelu), 3 (silu)";

/// Bytes of a structure in its first version.
template <class Struct>
inline constexpr std::size_t kFirstSize = sizeof(Struct);
template <>
inline constexpr std::size_t kFirstSize<tj_kernel_config> = offsetof(tj_kernel_config, m);
template <>
inline constexpr std::size_t kFirstSize<tj_options> = offsetof(tj_options, use_tuning);
template <>
inline constexpr std::size_t kFirstSize<tj_gemm_args> = offsetof(tj_gemm_args, scale_a);

/// The caller's structure as this version knows it: what an older caller lacks stays as in `defaults`; what a newer one
/// adds must be zero.
template <class Struct>
Struct read(const Struct* given, const char* name, const Struct& defaults = {}) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (given == nullptr) refuse(cat(name, " is null; allowed: the address of a structure"));
  std::uint64_t size = 0;
  std::memcpy(&size, given, sizeof size);
  check_size(size, name, kFirstSize<Struct>);
  Struct result = defaults;
  std::memcpy(&result, given, std::min<std::size_t>(size, sizeof(Struct)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(Struct); i < size; ++i)
    if (bytes[i] != 0)
      refuse(cat(name, " sets a field at byte ", i, " that version ", version(), " does not know; use a newer library"),
             Code::unsupported);
  return result;
}

void check_reserved(std::int32_t reserved) {
  if (reserved != 0) refuse(cat("args.reserved is ", reserved, "; allowed: 0"), Code::unsupported);
}

template <class Enum>
Enum to_enum(std::int32_t value, std::int32_t last, const std::string& name, const char* allowed) {
  if (value < 0 || value > last) refuse(cat(name, " is ", value, "; allowed: ", allowed));
  return static_cast<Enum>(value);
}

Tensor to_tensor(const tj_tensor* given, const char* name) {
  const tj_tensor t = read(given, name);
  if (t.dtype < 0 || t.dtype > TJ_E4M3) refuse(cat(name, ".dtype is ", t.dtype, "; allowed: ", kDTypes));
  if (t.rank < 0 || t.rank > TJ_MAX_RANK) refuse(cat(name, ".rank is ", t.rank, "; allowed: 0 to ", TJ_MAX_RANK));
  Tensor result;
  result.data = t.data;
  result.device = to_device(t.device, name, ".device");
  result.dtype = static_cast<DType>(t.dtype);
  result.rank = t.rank;
  std::copy(std::begin(t.shape), std::end(t.shape), result.shape.begin());
  std::copy(std::begin(t.strides), std::end(t.strides), result.strides.begin());
  return result;
}

FmhaConfig to_fmha(const tj_kernel_config& c) {
  return {to_enum<DType>(c.dtype, TJ_E4M3, "config.dtype", kDTypes), c.head_dim, c.causal != 0, c.general_scale != 0};
}

GemmConfig to_gemm(const tj_kernel_config& c) {
  GemmConfig config;
  config.m = c.m;
  config.n = c.n;
  config.k = c.k;
  config.batch = c.batch == 0 ? 1 : c.batch;
  config.dtype = to_enum<DType>(c.dtype, TJ_E4M3, "config.dtype", kDTypes);
  config.out = to_enum<DType>(c.out, TJ_E4M3, "config.out", kDTypes);
  config.a_transposed = c.a_transposed != 0;
  config.b_transposed = c.b_transposed != 0;
  config.bias = c.bias != 0;
  config.add_c = c.add_c != 0;
  config.activation = to_enum<Activation>(c.activation, TJ_ACTIVATION_SILU, "config.activation", kActivations);
  return config;
}

ChunkOConfig to_chunk_o(const tj_kernel_config& c) {
  return {c.v_heads_per_head == 0 ? ChunkOConfig{}.v_heads_per_head : c.v_heads_per_head, c.ungated == 0,
          c.equal_lengths == 0, c.h_transposed != 0};
}

}  // namespace

Device to_device(const tj_device& device, const char* name, const char* member) {
  // The name is put together only when it is needed: tensors pass here on every call.
  if (device.kind < 0 || device.kind > TJ_HIP)
    refuse(cat(name, member, ".kind is ", device.kind, "; allowed: 0 (cpu), 1 (cuda), 2 (hip)"));
  if (device.index < 0) refuse(cat(name, member, ".index is ", device.index, "; allowed: 0 and up"));
  return {static_cast<DeviceKind>(device.kind), device.index};
}

FmhaArgs to_args(const tj_fmha_args* given) {
  const tj_fmha_args a = read(given, "args");
  check_reserved(a.reserved);
  FmhaArgs args;
  args.q = to_tensor(a.q, "q");
  args.k = to_tensor(a.k, "k");
  args.v = to_tensor(a.v, "v");
  args.o = to_tensor(a.o, "o");
  if (a.lse != nullptr) args.lse = to_tensor(a.lse, "lse");
  if (a.has_scale != 0) args.scale = a.scale;
  args.causal = a.causal != 0;
  return args;
}

GemmArgs to_args(const tj_gemm_args* given) {
  const tj_gemm_args g = read(given, "args");
  check_reserved(g.reserved);
  GemmArgs args;
  args.a = to_tensor(g.a, "a");
  args.b = to_tensor(g.b, "b");
  args.d = to_tensor(g.d, "d");
  if (g.c != nullptr) args.c = to_tensor(g.c, "c");
  if (g.bias != nullptr) args.bias = to_tensor(g.bias, "bias");
  if (g.scale_a != nullptr) args.scale_a = to_tensor(g.scale_a, "scale_a");
  if (g.scale_b != nullptr) args.scale_b = to_tensor(g.scale_b, "scale_b");
  args.alpha = g.alpha;
  args.beta = g.beta;
  args.activation = to_enum<Activation>(g.activation, TJ_ACTIVATION_SILU, "args.activation", kActivations);
  return args;
}

ChunkIndicesArgs to_args(const tj_chunk_indices_args* given) {
  const tj_chunk_indices_args c = read(given, "args");
  return {to_tensor(c.cu_seqlens, "cu_seqlens"), to_tensor(c.chunk_indices, "chunk_indices"),
          to_tensor(c.total_chunks, "total_chunks")};
}

ChunkOArgs to_args(const tj_chunk_o_args* given) {
  const tj_chunk_o_args c = read(given, "args");
  check_reserved(c.reserved);
  ChunkOArgs args;
  args.q = to_tensor(c.q, "q");
  args.k = to_tensor(c.k, "k");
  args.v_new = to_tensor(c.v_new, "v_new");
  args.h = to_tensor(c.h, "h");
  args.o = to_tensor(c.o, "o");
  if (c.g_cu != nullptr) args.g_cu = to_tensor(c.g_cu, "g_cu");
  if (c.cu_seqlens != nullptr) args.cu_seqlens = to_tensor(c.cu_seqlens, "cu_seqlens");
  if (c.chunk_indices != nullptr) args.chunk_indices = to_tensor(c.chunk_indices, "chunk_indices");
  if (c.total_chunks != nullptr) args.total_chunks = to_tensor(c.total_chunks, "total_chunks");
  args.seq_length = c.seq_length;
  if (c.has_scale != 0) args.scale = c.scale;
  args.h_transposed = c.h_transposed != 0;
  return args;
}

std::variant<FmhaConfig, GemmConfig, ChunkIndicesConfig, ChunkOConfig> to_config(const tj_kernel_config* given) {
  const tj_kernel_config c = read(given, "config");
  constexpr const char* kOps = "\"fmha\", \"gemm\", \"chunk_indices\", \"chunk_o\"";
  if (c.op == nullptr) refuse(cat("config.op is null; allowed: ", kOps));
  if (std::strcmp(c.op, "fmha") == 0) return to_fmha(c);
  if (std::strcmp(c.op, "gemm") == 0) return to_gemm(c);
  if (std::strcmp(c.op, "chunk_indices") == 0) return ChunkIndicesConfig{};
  if (std::strcmp(c.op, "chunk_o") == 0) return to_chunk_o(c);
  refuse(cat("config.op is \"", support::shown(c.op), "\"; allowed: ", kOps,
             support::meant(c.op, {"fmha", "gemm", "chunk_indices", "chunk_o"})),
         Code::unsupported);
}

Options to_options(const tj_options* given) {
  tj_options defaults;
  tj_options_init(&defaults);
  const tj_options o = given == nullptr ? defaults : read(given, "options", defaults);
  const auto set = [](std::optional<std::string>& field, const char* text) {
    if (text != nullptr) field = text;
  };
  Options options;
  set(options.cache_dir, o.cache_dir);
  set(options.target, o.target);
  set(options.dump_dir, o.dump_dir);
  set(options.hip_compiler, o.hip_compiler);
  if (o.cache_max_size_bytes >= 0) options.cache_max_size_bytes = static_cast<std::uint64_t>(o.cache_max_size_bytes);
  if (o.log_level != TJ_LOG_DEFAULT)
    options.log_level = to_enum<LogLevel>(o.log_level, TJ_LOG_OFF, "options.log_level", "-1 (default) to 5 (off)");
  options.use_disk_cache = to_enum<int>(o.use_disk_cache, 1, "options.use_disk_cache", "0 (no), 1 (yes)") != 0;
  if (o.reserved != 0) refuse(cat("options.reserved is ", o.reserved, "; allowed: 0"), Code::unsupported);
  if (o.use_tuning != -1)
    options.use_tuning =
        to_enum<int>(o.use_tuning, 1, "options.use_tuning", "-1 (TJ_TUNE, else on), 0 (off), 1 (on)") != 0;
  if (o.wait_limit_s != -1)
    options.wait_limit_s = o.wait_limit_s;  // other negative ones, and no numbers, are refused with the rest
  if (o.compile_limit_s != -1) options.compile_limit_s = o.compile_limit_s;
  if (o.log_sink != nullptr)
    options.log_sink = [sink = o.log_sink, user = o.log_user](LogLevel level, std::string_view text) {
      sink(user, static_cast<std::int32_t>(level), text.data(), text.size());
    };
  return options;
}

}  // namespace tj::c_api
