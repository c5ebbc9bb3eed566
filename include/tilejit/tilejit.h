/* The C ABI of tilejit: the calls of runtime.hpp for C and for foreign-function interfaces.
 *
 * Decides the binary layout of what crosses the library's boundary. Adds no feature of its own. These calls have no C
 * form: prepare() from tensors (tj_prepare() takes a configuration), run_op(), warm_op(), time_ms() and those of
 * custom.hpp. Invariants: no exception leaves a tj_ function; a null pointer where one is needed is
 * TJ_INVALID_ARGUMENT, never a crash; a structure only ever grows at its end.
 *
 * Structures start with `size`: set it to sizeof of the structure. A library that is newer than its caller fills what
 * the caller does not know with defaults; one that is older accepts fields that it does not know when they are zero.
 *
 * Every function may be called from any thread. Texts returned as const char* belong to the library and stay valid
 * as long as the function that gives them says.
 */
#ifndef TILEJIT_TILEJIT_H
#define TILEJIT_TILEJIT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TJ_C_API __attribute__((visibility("default")))
#else
#define TJ_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* 0 is success; the other numbers are those of tj::Code (error.hpp), where each is explained. */
typedef int32_t tj_status;
enum {
  TJ_OK = 0,
  TJ_INVALID_ARGUMENT = 1,
  TJ_UNSUPPORTED = 2,
  TJ_NOT_FOUND = 3,
  TJ_OUT_OF_MEMORY = 4,
  TJ_COMPILE_FAILED = 5,
  TJ_DRIVER_ERROR = 6,
  TJ_DEADLOCK = 7,
  TJ_COLD_IN_CAPTURE = 8,
  TJ_IO = 9,
  TJ_MODEL_FAULT = 10,
  TJ_INTERNAL = 11
};

/* Element types, as tj::DType. */
enum { TJ_F16 = 0, TJ_BF16 = 1, TJ_F32 = 2, TJ_I32 = 3, TJ_E4M3 = 4 };
/* Where memory lives, as tj::DeviceKind. */
enum { TJ_CPU = 0, TJ_CUDA = 1, TJ_HIP = 2 };
/* How a kernel came to be, as tj::KernelOrigin. */
enum { TJ_FROM_MEMORY = 0, TJ_FROM_DISK = 1, TJ_COMPILED = 2 };
/* What is applied to a product, as tj::Activation. */
enum { TJ_ACTIVATION_NONE = 0, TJ_ACTIVATION_RELU = 1, TJ_ACTIVATION_GELU = 2, TJ_ACTIVATION_SILU = 3 };
/* As tj::LogLevel; TJ_LOG_DEFAULT leaves it to TJ_LOG_LEVEL. */
enum {
  TJ_LOG_DEFAULT = -1,
  TJ_LOG_TRACE = 0,
  TJ_LOG_DEBUG = 1,
  TJ_LOG_INFO = 2,
  TJ_LOG_WARN = 3,
  TJ_LOG_ERROR = 4,
  TJ_LOG_OFF = 5
};

#define TJ_MAX_RANK 5

/* A tj::Runtime and the memory that tj_allocate() took from it. */
typedef struct tj_runtime tj_runtime;

typedef struct tj_device {
  int32_t kind;  /* TJ_CPU, TJ_CUDA, TJ_HIP */
  int32_t index; /* driver ordinal; 0 for TJ_CPU */
} tj_device;

/* A view of memory that the caller owns. Shape and strides in elements, outermost dimension first. */
typedef struct tj_tensor {
  uint64_t size;
  void* data;
  tj_device device;
  int32_t dtype; /* TJ_F16, ... */
  int32_t rank;  /* at most TJ_MAX_RANK */
  int64_t shape[TJ_MAX_RANK];
  int64_t strides[TJ_MAX_RANK];
} tj_tensor;

/* Attention forward; shapes, alignment and masks as tj::FmhaArgs (ops.hpp) says. */
typedef struct tj_fmha_args {
  uint64_t size;
  const tj_tensor* q;   /* [B, H, Sq, D] */
  const tj_tensor* k;   /* [B, Hkv, Sk, D] */
  const tj_tensor* v;   /* [B, Hkv, Sk, D] */
  const tj_tensor* o;   /* [B, H, Sq, D], written */
  const tj_tensor* lse; /* f32 [B, H, Sq], written; null: not wanted */
  float scale;          /* looked at only when has_scale is not 0; else D^-1/2 */
  int32_t has_scale;
  int32_t causal;
  int32_t reserved; /* 0 */
} tj_fmha_args;

/* Matrix product; shapes, alignment and meaning as tj::GemmArgs (ops.hpp) says. */
typedef struct tj_gemm_args {
  uint64_t size;
  const tj_tensor* a;    /* [M, K] or [B, M, K] */
  const tj_tensor* b;    /* [N, K] or [B, N, K] */
  const tj_tensor* d;    /* [M, N] or [B, M, N], written */
  const tj_tensor* c;    /* as d; null: none */
  const tj_tensor* bias; /* [N] or [B, N]; null: none */
  float alpha;           /* 1 for a plain product: what is left 0 leaves a and b out */
  float beta;
  int32_t activation;       /* TJ_ACTIVATION_NONE, ... */
  int32_t reserved;         /* 0 */
  const tj_tensor* scale_a; /* f32, one element, with TJ_E4M3 only; null: 1 */
  const tj_tensor* scale_b;
} tj_gemm_args;

/* The list of all chunks of sequences that follow each other; all i32, as tj::ChunkIndicesArgs (ops.hpp) says. */
typedef struct tj_chunk_indices_args {
  uint64_t size;
  const tj_tensor* cu_seqlens;    /* [N + 1] */
  const tj_tensor* chunk_indices; /* [C, 2], written */
  const tj_tensor* total_chunks;  /* [1], written */
} tj_chunk_indices_args;

/* Output of the gated delta rule by chunks; shapes and meaning as tj::ChunkOArgs (ops.hpp) says. */
typedef struct tj_chunk_o_args {
  uint64_t size;
  const tj_tensor* q; /* bf16 [T, H, 128] */
  const tj_tensor* k;
  const tj_tensor* v_new;         /* bf16 [R, Hv, 128] */
  const tj_tensor* h;             /* bf16 [C, Hv, 128, 128] */
  const tj_tensor* o;             /* bf16 [T, Hv, 128], written */
  const tj_tensor* g_cu;          /* f32 [T, Hv]; null: none */
  const tj_tensor* cu_seqlens;    /* i32; these three, or none of them and seq_length */
  const tj_tensor* chunk_indices; /* rows without gaps */
  const tj_tensor* total_chunks;
  int64_t seq_length;
  float scale; /* looked at only when has_scale is not 0; else 128^-1/2 */
  int32_t has_scale;
  int32_t h_transposed;
  int32_t reserved; /* 0 */
} tj_chunk_o_args;

/* Which kernel to make ready, without any memory. The fields of other ops will follow. */
typedef struct tj_kernel_config {
  uint64_t size;
  const char* op;        /* "fmha", "gemm", "chunk_o"; "chunk_indices", which has no fields */
  int32_t dtype;         /* TJ_F16, TJ_BF16; gemm: TJ_E4M3 too */
  int32_t head_dim;      /* fmha: 64, 128 */
  int32_t causal;        /* fmha */
  int32_t general_scale; /* fmha; 0: 1e-6 <= scale <= 1, the fast form; 1: any finite scale */
  int64_t m, n, k;       /* gemm, from here on: tj::GemmConfig */
  int64_t batch;         /* 0 counts as 1 */
  int32_t out;           /* TJ_F16, TJ_BF16, TJ_F32 */
  int32_t a_transposed, b_transposed;
  int32_t bias, add_c;
  int32_t activation;       /* TJ_ACTIVATION_NONE, ... */
  int32_t v_heads_per_head; /* chunk_o, from here on: tj::ChunkOConfig; 0 counts as 2 */
  int32_t ungated;          /* 1: without g_cu */
  int32_t equal_lengths;    /* 1: without lists of sequences and chunks */
  int32_t h_transposed;
} tj_kernel_config;

/* What tj_prepare() and tj_warm() found or made, as tj::KernelReport. The texts live until this thread's next
 * tj_prepare() or tj_warm(). */
typedef struct tj_kernel_report {
  uint64_t size; /* set by the caller; only that many bytes are written */
  const char* name;
  const char* target;
  const char* schedule_json;
  const char* source_path; /* "" without a dump folder */
  double schedule_ms, codegen_ms, compile_ms, load_ms;
  int32_t origin;    /* TJ_FROM_MEMORY, TJ_FROM_DISK, TJ_COMPILED */
  int32_t registers; /* a thread, at entry; 0 when unknown */
} tj_kernel_report;

/* Called from any thread, until the runtime is destroyed; may not call tj_ functions of the same runtime. The text is
 * not terminated; it is valid during the call. */
typedef void (*tj_log_sink)(void* user, int32_t level, const char* text, size_t length);

/* As tj::Options; a null text or a negative number leaves the setting to its environment variable or default.
 * Fill with tj_options_init(). */
typedef struct tj_options {
  uint64_t size;
  const char* cache_dir;
  int64_t cache_max_size_bytes;
  const char* target; /* "sm_90a", "model:sm_90a", "sm_90+copies=threads+smem=99K" */
  const char* dump_dir;
  const char* hip_compiler;
  int32_t log_level;      /* TJ_LOG_DEFAULT, ... */
  int32_t use_disk_cache; /* 1; 0: neither read nor write the disk */
  tj_log_sink log_sink;   /* null: standard error */
  void* log_user;
  int32_t use_tuning; /* 0: what tj-warm --tune measured is left alone; 1: it goes before predictions; -1: as TJ_TUNE
                         says */
  int32_t reserved;   /* 0 */
  double
      wait_limit_s; /* seconds to wait for another maker of the same kernel; 0: no limit; -1: as TJ_WAIT_LIMIT says */
  double compile_limit_s; /* seconds that a compiler may take that is a program; 0: no limit; -1: as TJ_COMPILE_LIMIT
                             says */
} tj_options;

/* ---- runtimes ---- */

/* Defaults, size included. A null pointer is ignored. */
TJ_C_API void tj_options_init(tj_options* options);
/* options may be null (defaults). On failure *out is null. */
TJ_C_API tj_status tj_runtime_create(const tj_options* options, tj_runtime** out);
/* Waits for nothing: synchronize first. Frees what tj_allocate() gave. Null and the instance are left alone. */
TJ_C_API void tj_runtime_destroy(tj_runtime* runtime);
/* The process-wide runtime with default options (tj::Runtime::instance()), made on first use. */
TJ_C_API tj_status tj_runtime_instance(tj_runtime** out);

/* ---- ops and kernels ---- */

/* Enqueues attention on a stream (CUstream or hipStream_t; null: the default stream); finished on return on the model.
 */
TJ_C_API tj_status tj_fmha(tj_runtime* runtime, const tj_fmha_args* args, void* stream);
/* Enqueues a matrix product in the same way. */
TJ_C_API tj_status tj_gemm(tj_runtime* runtime, const tj_gemm_args* args, void* stream);
/* Enqueues the output of the gated delta rule in the same way. */
TJ_C_API tj_status tj_chunk_o(tj_runtime* runtime, const tj_chunk_o_args* args, void* stream);
/* Enqueues the listing of chunks in the same way. */
TJ_C_API tj_status tj_chunk_indices(tj_runtime* runtime, const tj_chunk_indices_args* args, void* stream);
/* Gets a kernel compiled, cached and loaded for a device. report may be null. */
TJ_C_API tj_status tj_prepare(tj_runtime* runtime, const tj_kernel_config* config, tj_device device,
                              tj_kernel_report* report);
/* One rung of an op's ladder, as tj::Ladder (ladder.hpp) says: op is "fmha" with tj_fmha_args, or "gemm" with
 * tj_gemm_args. Rung 0 is the op's own kernel. */
TJ_C_API tj_status tj_run_rung(tj_runtime* runtime, const char* op, const void* args, int32_t rung, void* stream);
/* The same made ready, without any memory; config->op is "fmha" or "gemm". report may be null. */
TJ_C_API tj_status tj_prepare_rung(tj_runtime* runtime, const tj_kernel_config* config, int32_t rung, tj_device device,
                                   tj_kernel_report* report);
/* Compiles into the disk cache for a target, without any device. report may be null. */
TJ_C_API tj_status tj_warm(tj_runtime* runtime, const tj_kernel_config* config, const char* target,
                           tj_kernel_report* report);

/* ---- graphs of your own ---- */

/* Schedules a dependence graph, as tj::schedule() (graph.hpp) does; needs no runtime and no device. graph_json: the
 * format is written down in src/graph/README.md. options_json: members of tj::ScheduleOptions, such as
 * {"max_stages": 2, "turns": false}; null or "": defaults. format says what *out is: "json" (also when null), "text",
 * "svg" for a picture, "trace" for Perfetto or chrome://tracing. *out lives until this thread's next tj_schedule(); on
 * failure it is null. */
TJ_C_API tj_status tj_schedule(const char* graph_json, const char* options_json, const char* format, const char** out);

/* ---- devices and memory ---- */

/* The first GPU, else TJ_CPU with the model; under a target of a GPU the first of those, whose use says why it is
 * missing. */
TJ_C_API tj_status tj_default_device(tj_runtime* runtime, tj_device* out);
/* *out is the target's name, for example "sm_90a"; valid until this thread's next tj_target_of(). */
TJ_C_API tj_status tj_target_of(tj_runtime* runtime, tj_device device, const char** out);
/* At least one byte; 256-byte aligned. On failure *out is null. */
TJ_C_API tj_status tj_allocate(tj_runtime* runtime, tj_device device, size_t bytes, void** out);
/* Gives back what tj_allocate() of the same runtime gave; null is ignored. */
TJ_C_API tj_status tj_free(tj_runtime* runtime, void* memory);
/* Synchronous. Nothing happens for 0 bytes. */
TJ_C_API tj_status tj_copy(tj_runtime* runtime, void* dst, tj_device dst_device, const void* src, tj_device src_device,
                           size_t bytes);
TJ_C_API tj_status tj_synchronize(tj_runtime* runtime, tj_device device, void* stream);

/* ---- errors and identity ---- */

/* Of this thread's last tj_ call that returns a tj_status; "" after a success. Never null. Valid until this thread's
 * next such call. */
TJ_C_API const char* tj_last_error(void);             /* cause and next step, one line */
TJ_C_API const char* tj_last_error_stage(void);       /* "argument", "target", "compile", ...; may be "" */
TJ_C_API const char* tj_last_error_log(void);         /* compiler log or model report */
TJ_C_API const char* tj_last_error_source_path(void); /* where the generated source was written */
/* "invalid_argument" for 1, "ok" for 0, "unknown" for no status of this version. Static text. */
TJ_C_API const char* tj_status_name(tj_status status);
/* Static texts. */
TJ_C_API const char* tj_version(void);
TJ_C_API const char* tj_build_id(void);

#ifdef __cplusplus
}
#endif

#endif /* TILEJIT_TILEJIT_H */
