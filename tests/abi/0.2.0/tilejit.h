/* The C ABI of tilejit: the calls of runtime.hpp for C and for foreign-function interfaces.
 *
 * Decides the binary layout of what crosses the library's boundary. Adds no feature of its own. A call of an op takes
 * the op's name and the address of its structure: tj_run(runtime, "fmha", &args, stream) with a tj_fmha_args.
 * Invariants: no exception leaves a tj_ function; a null pointer where one is needed is TJ_INVALID_ARGUMENT, never a
 * crash; a structure only ever grows at its end.
 *
 * Errors: a function returns TJ_OK or the status of the tj::Error that its C++ call throws. tj_last_error() then says
 * what was wrong, what is allowed and what to do next. Behind an error of an argument, nothing was launched. Behind an
 * error of a launch or of the model, a part of the work may have run.
 *
 * Structures start with `size`: set it to sizeof of the structure. Fields beyond the caller's size get their defaults;
 * fields that the library does not know must be zero. A structure that the library fills needs its `size` set before.
 *
 * From 0.2.0 on this interface is stable as binary: a program that was built against one version runs with the library
 * of each later 0.x. The C++ headers are stable as source: programs are compiled again. Documents that comments name
 * lie in the sources, and below share/doc/tilejit of an installed tree.
 *
 * Every function may be called from any thread at any time. A tj_..._destroy() function must not get an object that
 * another thread is using. Texts returned as const char* belong to the library; each function says how long its text
 * lives.
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
enum { TJ_OK = 0, TJ_INVALID_ARGUMENT = 1, TJ_UNSUPPORTED = 2, TJ_NOT_FOUND = 3, TJ_OUT_OF_MEMORY = 4 };
enum { TJ_COMPILE_FAILED = 5, TJ_DRIVER_ERROR = 6, TJ_DEADLOCK = 7, TJ_COLD_IN_CAPTURE = 8, TJ_IO = 9 };
enum { TJ_MODEL_FAULT = 10, TJ_INTERNAL = 11, TJ_NOT_IN_CACHE = 12 };

/* Element types: the numbers of tj::DType. */
enum { TJ_F16 = 0, TJ_BF16 = 1, TJ_F32 = 2, TJ_I32 = 3, TJ_E4M3 = 4 };
/* Kinds of memory: the numbers of tj::DeviceKind. */
enum { TJ_CPU = 0, TJ_CUDA = 1, TJ_HIP = 2 };
/* Origins of a kernel: the numbers of tj::KernelOrigin. */
enum { TJ_FROM_MEMORY = 0, TJ_FROM_DISK = 1, TJ_COMPILED = 2 };
/* Activations of a product: the numbers of tj::Activation. */
enum { TJ_ACTIVATION_NONE = 0, TJ_ACTIVATION_RELU = 1, TJ_ACTIVATION_GELU = 2, TJ_ACTIVATION_SILU = 3 };
enum { TJ_ACTIVATION_GELU_TANH = 4 };
/* Levels of the log, as tj::LogLevel. TJ_LOG_DEFAULT leaves the level to the variable TJ_LOG_LEVEL. */
enum { TJ_LOG_DEFAULT = -1, TJ_LOG_TRACE = 0, TJ_LOG_DEBUG = 1, TJ_LOG_INFO = 2 };
enum { TJ_LOG_WARN = 3, TJ_LOG_ERROR = 4, TJ_LOG_OFF = 5 };
/* Answers to a miss, as tj::MissPolicy. TJ_MISS_DEFAULT leaves the answer to the variable TJ_ON_MISS. */
enum { TJ_MISS_DEFAULT = -1, TJ_MISS_WAIT = 0, TJ_MISS_ERROR = 1, TJ_MISS_QUICK = 2 };
#define TJ_MAX_RANK 5

/* A tj::Runtime and the memory that tj_allocate() took from it. */
typedef struct tj_runtime tj_runtime;

typedef struct tj_device {
  int32_t kind;  /* TJ_CPU, TJ_CUDA, TJ_HIP */
  int32_t index; /* driver ordinal; 0 for TJ_CPU */
} tj_device;

/* A view of memory that the caller owns, as tj::Tensor. Shape and strides are in elements, outermost dimension first.
 * Entries from `rank` on are not read. The structure is read during the call alone; its memory is in use until the
 * stream has done the work. */
typedef struct tj_tensor {
  uint64_t size;
  void* data;
  tj_device device;
  int32_t dtype; /* TJ_F16, ... */
  int32_t rank;  /* at most TJ_MAX_RANK */
  int64_t shape[TJ_MAX_RANK];
  int64_t strides[TJ_MAX_RANK];
} tj_tensor;

/* Attention forward; shapes, alignment and masks as tj::FmhaArgs (fmha.hpp) says. */
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
  int32_t max_sms;                   /* multiprocessors that the call may fill; 0: all */
  int32_t has_window;                /* not 0: the next two are looked at */
  int32_t top_left;                  /* not 0: query r stands at key r, else at key r + Sk - Sq */
  int64_t window_left, window_right; /* keys before and behind its place that a query sees; -1: all */
  float softcap;                     /* 0: off */
  int32_t reserved;                  /* 0 */
  const tj_tensor* alibi_slopes;     /* f32 [H] or [B, H]; null: none */
  const tj_tensor* sinks;            /* f32 [H]; null: none */
  const tj_tensor* cu_seqlens_q;     /* i32 [B + 1]; q, k, v and o are then [rows, H, D], lse [H, rows]; null: none */
  const tj_tensor* cu_seqlens_k;     /* i32 [B + 1]; null: none */
  const tj_tensor* seqused_k;        /* i32 [B]; null: none */
  const tj_tensor* block_table;      /* i32 [B, pages]; k and v are then [pages, page size, Hkv, D]; null: none */
  const tj_tensor* bias;             /* f32 or q's type [B or 1, H or 1, Sq or 1, Sk or 1]; null: none */
  const tj_tensor* mod_params;       /* i32 or f32 [N], what the texts read; null: none */
  const char* score_mod;             /* bodies of functions, as tj::FmhaArgs says; null: none */
  const char* mask_mod;
  const char* key_range;
} tj_fmha_args;

/* Merging partial outputs of attention; shapes and meaning as tj::MergeStatesArgs (merge_states.hpp) says. */
typedef struct tj_merge_states_args {
  uint64_t size;
  const tj_tensor* states;     /* [N, ..., D] */
  const tj_tensor* lse_states; /* f32 [N, ...] */
  const tj_tensor* o;          /* [..., D], written */
  const tj_tensor* lse;        /* f32 [...], written; null: not wanted */
  const tj_tensor* cu_seqlens; /* i32 [B + 1]: its first and last number bound the rows that are merged; null: all */
  int32_t max_sms;             /* multiprocessors that the call may fill; 0: all */
  int32_t reserved;            /* 0 */
} tj_merge_states_args;

/* Matrix product; shapes, alignment and meaning as tj::GemmArgs (gemm.hpp) says. */
typedef struct tj_gemm_args {
  uint64_t size;
  const tj_tensor* a;          /* [M, K] or [B, M, K] */
  const tj_tensor* b;          /* [N, K] or [B, N, K] */
  const tj_tensor* d;          /* [M, N] or [B, M, N], written; with a gate N / 2 columns */
  const tj_tensor* c;          /* as d, or f32; null: none */
  const tj_tensor* bias;       /* [N] or [B, N]; null: none */
  float alpha;                 /* 1 for a plain product; 0 leaves a and b out */
  float beta;                  /* factor of c; 0 leaves c out */
  int32_t activation;          /* TJ_ACTIVATION_NONE, ... */
  int32_t max_sms;             /* multiprocessors that the call may fill; 0: all */
  const tj_tensor* scale_a;    /* with TJ_E4M3 only: f32, one element or [M, ceil(K / 128)], or i32 of four exponents
                                  (gemm.hpp); null: 1 */
  const tj_tensor* scale_b;    /* as scale_a, or [ceil(N / 128), ceil(K / 128)] or [N, ceil(K / 128)] */
  int32_t gate;                /* TJ_ACTIVATION_NONE: no gate; else d is that of half of the columns times the others */
  int32_t gate_interleaved;    /* not 0: rows of b of the two halves take turns, else those of the gate come first */
  const tj_tensor* scale_d;    /* with d of TJ_E4M3 only: f32 [M, ceil(N / 128)] of d's N, written; null: none */
  int32_t powers_of_two;       /* not 0: scales of d are rounded up to powers of two */
  int32_t reserved;            /* 0 */
  const char* end_text;        /* body of a function in the place of the activation, as tj::GemmArgs says; null: none */
  const tj_tensor* end_params; /* i32 or f32 [N], what end_text reads; null: none */
} tj_gemm_args;

/* The list of all chunks of sequences in a row; all i32, as tj::ChunkIndicesArgs (chunk_indices.hpp) says. */
typedef struct tj_chunk_indices_args {
  uint64_t size;
  const tj_tensor* cu_seqlens;    /* [N + 1] */
  const tj_tensor* chunk_indices; /* [C, 2], written */
  const tj_tensor* total_chunks;  /* [1], written */
  int32_t max_sms;                /* multiprocessors that the call may fill; 0: all */
  int32_t reserved;               /* 0 */
} tj_chunk_indices_args;

/* Output of the gated delta rule by chunks; shapes and meaning as tj::ChunkOArgs (chunk_o.hpp) says. */
typedef struct tj_chunk_o_args {
  uint64_t size;
  const tj_tensor* q;             /* bf16 [T, H, 128] */
  const tj_tensor* k;             /* as q */
  const tj_tensor* v_new;         /* bf16 [R, Hv, 128] */
  const tj_tensor* h;             /* bf16 [C, Hv, 128, 128] */
  const tj_tensor* o;             /* bf16 [T, Hv, 128], written */
  const tj_tensor* g_cu;          /* f32 [T, Hv]; null: none */
  const tj_tensor* cu_seqlens;    /* i32 [N + 1]; either all three lists are given, or none of them */
  const tj_tensor* chunk_indices; /* i32 [n, 2], rows without gaps */
  const tj_tensor* total_chunks;  /* i32 [1] */
  int64_t seq_length;             /* tokens of each sequence, without the lists; else 0 */
  float scale;                    /* looked at only when has_scale is not 0; else 128^-1/2 */
  int32_t has_scale;
  int32_t h_transposed; /* 1: matrices of h are stored [K, V] */
  int32_t max_sms;      /* multiprocessors that the call may fill; 0: all */
  int32_t num_stages;   /* slots of each ring that copies fill; 0: as many as fit */
  int32_t evict_first;  /* 1: L2 lets go of the lines of h and v_new first */
} tj_chunk_o_args;

/* The kernel that was found or made, as tj::KernelReport says. Its texts live until this thread's next report. */
typedef struct tj_kernel_report {
  uint64_t size; /* set by the caller; only that many bytes are written */
  const char* name;
  const char* target;
  const char* schedule_json; /* src/sched/README.md has its keys */
  const char* source_path;   /* "" without a dump folder */
  double schedule_ms, codegen_ms, compile_ms, load_ms;
  int32_t origin;    /* TJ_FROM_MEMORY, TJ_FROM_DISK, TJ_COMPILED */
  int32_t registers; /* a thread, at entry; 0 when unknown */
} tj_kernel_report;

/* Options of tj_tune(), as tj::TuneOptions says. A member that is left 0 has its default. */
typedef struct tj_tune_options {
  uint64_t size;
  const char* only; /* names of kernels with commas between them; null: all */
  uint64_t seed;    /* of the operands' values */
  int32_t limit;    /* kernels that are measured; 0: all */
  int32_t rounds;   /* 0 counts as 10 */
} tj_tune_options;

/* The result of tj_tune(). The texts live until this thread's next tj_tune(). */
typedef struct tj_tune_report {
  uint64_t size;       /* set by the caller; only that many bytes are written */
  const char* problem; /* the sizes, in words */
  const char* device;  /* the GPU's name */
  const char* target;
  const char* chosen;         /* the fastest kernel's name; "" when none was measured */
  double measured_us;         /* of one call, median */
  double usual_us;            /* of the kernel that is taken unmeasured; 0 when it was not measured */
  double flops;               /* of one call */
  int32_t variants, measured; /* kernels that there are, and that were measured */
  int32_t kept;               /* 1: the cache has it */
  int32_t reserved;
} tj_tune_report;

/* A call that was validated and resolved once. */
typedef struct tj_plan tj_plan;

/* Facts of a plan; tj::Plan (plan.hpp) explains them. The texts live as long as the plan. */
typedef struct tj_plan_info {
  uint64_t size;              /* set by the caller; only that many bytes are written */
  const char* const* tensors; /* names, in the order of tj_plan_run()'s addresses */
  uint64_t tensor_count;
  uint64_t workspace_bytes, workspace_alignment;
  int32_t workspace_zeroed; /* 1: zero the caller's workspace at first, and once others wrote to it */
  int32_t registers;        /* a thread's of the kernel, at entry; 0 when unknown */
  tj_device device;
  const char* kernel;
  const char* target;
} tj_plan_info;

/* A receiver of log lines. It is called from any thread until the runtime is destroyed, and may not call tj_ functions
 * of the same runtime. The text has no terminating NUL and is valid during the call. */
typedef void (*tj_log_sink)(void* user, int32_t level, const char* text, size_t length);

/* An allocator of workspaces in the place of the library's pool, as tj::Allocator. It gives at least so many bytes at a
 * multiple of 256 for work on the stream, or null. The memory is given back once all work that uses it has been
 * enqueued. Both functions are called from any thread. */
typedef void* (*tj_allocator)(void* user, tj_device device, size_t bytes, void* stream);
typedef void (*tj_deallocator)(void* user, tj_device device, void* memory, size_t bytes, void* stream);

typedef struct tj_remote tj_remote; /* remote.h */

/* Options of a runtime, as tj::Options. Fill the structure with tj_options_init() first. A null text or the number -1
 * leaves the setting to its environment variable or default. */
typedef struct tj_options {
  uint64_t size;
  const char* cache_dir;        /* a folder, or layers with ':' between them, as TJ_CACHE_DIR says */
  int64_t cache_max_size_bytes; /* 0: no bound */
  const char* target;           /* "sm_90a", "model:sm_90a", "sm_90+copies=threads+smem=99K", "sm_90+code=ptx" */
  const char* dump_dir;         /* sources and compiler logs are written there */
  const char* hip_compiler;     /* "auto", "hiprtc", "clang" */
  int32_t log_level;            /* TJ_LOG_DEFAULT, ... */
  int32_t use_disk_cache;       /* 1; 0: neither read nor write the disk */
  tj_log_sink log_sink;         /* null: standard error */
  void* log_user;               /* handed to log_sink */
  /* 1: choices that tj-warm --tune measured go before predicted ones; 0: they are ignored; -1: as TJ_TUNE says. */
  int32_t use_tuning;
  int32_t reserved; /* 0 */
  /* Seconds to wait for another maker of the same kernel. 0: no limit; -1: as TJ_WAIT_LIMIT says. */
  double wait_limit_s;
  /* Seconds that a compiler program may take. 0: no limit; -1: as TJ_COMPILE_LIMIT says. */
  double compile_limit_s;
  tj_allocator allocate; /* both, or null: the library's pool */
  tj_deallocator deallocate;
  void* allocator_user;    /* handed to both */
  const char* record_file; /* kernels that calls ask for are written there, as TJ_RECORD says */
  const char* pack_keys;   /* a file of public keys of packs, as TJ_PACK_KEYS says */
  int32_t on_miss;         /* TJ_MISS_DEFAULT, ... */
  int32_t reserved2;       /* 0 */
  const tj_remote* remote; /* a store elsewhere, as remote.h says; null: none */
  /* Bytes of binaries that stay loaded on a device. 0: no bound; -1: as TJ_CODE_MAX_SIZE says. */
  int64_t code_max_size_bytes;
  const char* facts_file; /* a file with facts of an arch, as TJ_FACTS says */
} tj_options;

/* ---- runtimes ---- */

/* Fills in all defaults, and size. A null pointer is ignored. */
TJ_C_API void tj_options_init(tj_options* options);
/* Makes a runtime. options may be null (defaults). On failure *out is null. */
TJ_C_API tj_status tj_runtime_create(const tj_options* options, tj_runtime** out);
/* Ends a runtime, as ~Runtime() does: it waits for kernels that are made in the background, and for no device. Frees
 * what tj_allocate() gave. Null and the instance are left alone. */
TJ_C_API void tj_runtime_destroy(tj_runtime* runtime);
/* The process-wide runtime with default options (tj::Runtime::instance()), made on first use. */
TJ_C_API tj_status tj_runtime_instance(tj_runtime** out);

/* ---- ops and kernels ---- */

/* Runs an op. args is the op's structure, tj_fmha_args for "fmha". Enqueues on a stream (CUstream or hipStream_t; null:
 * the default stream); finished on return on the model. */
TJ_C_API tj_status tj_run(tj_runtime* runtime, const char* op, const void* args, void* stream);
/* Gets the kernels of such a call compiled, cached and loaded. Addresses may be null. report may be null. */
TJ_C_API tj_status tj_prepare(tj_runtime* runtime, const char* op, const void* args, tj_kernel_report* report);
/* Prepares the kernels that flags of tj-warm name: "--dtype f16 --head-dim 64,128". *report is the last kernel's,
 * *kernels the number of kernels; both may be null. */
TJ_C_API tj_status tj_prepare_flags(tj_runtime* runtime, const char* op, const char* flags, tj_device device,
                                    tj_kernel_report* report, size_t* kernels);
/* Compiles such kernels into the disk cache for a target, without any device. */
TJ_C_API tj_status tj_warm_flags(tj_runtime* runtime, const char* op, const char* flags, const char* target,
                                 tj_kernel_report* report, size_t* kernels);
/* Runs one rung of an op's ladder, as tj::Ladder (ladder.hpp) says. Rung 0 is the op's own kernel. */
TJ_C_API tj_status tj_run_rung(tj_runtime* runtime, const char* op, const void* args, int32_t rung, void* stream);
/* Gets a rung's kernel compiled, cached and loaded. Addresses may be null. report may be null. */
TJ_C_API tj_status tj_prepare_rung(tj_runtime* runtime, const char* op, const void* args, int32_t rung,
                                   tj_kernel_report* report);
/* Measures the kernels that can serve a call's sizes on its GPU and keeps the fastest one's name in the cache, as
 * tj::Runtime::tune(). Addresses may be null. options and report may be null. */
TJ_C_API tj_status tj_tune(tj_runtime* runtime, const char* op, const void* args, const tj_tune_options* options,
                           tj_tune_report* report);

/* ---- plans ---- */

/* Validates and resolves a call once, to be run many times, as tj::Plan (plan.hpp) says. Addresses may be null. On
 * failure *out is null. */
TJ_C_API tj_status tj_plan_create(tj_runtime* runtime, const char* op, const void* args, tj_plan** out);
/* Ends a plan. No thread may be inside a run of it; work that its runs have enqueued goes on. Null is ignored. */
TJ_C_API void tj_plan_destroy(tj_plan* plan);
/* Fills in the facts of a plan. */
TJ_C_API tj_status tj_plan_get_info(const tj_plan* plan, tj_plan_info* info);
/* Runs a plan at `count` addresses, in the order of tj_plan_info.tensors. workspace is null or the caller's memory. Any
 * thread may run it, also after the runtime was destroyed. */
TJ_C_API tj_status tj_plan_run(const tj_plan* plan, void* const* addresses, size_t count, void* workspace,
                               void* stream);

/* ---- devices and memory ---- */

/* The first GPU, else TJ_CPU with the model. Under a target of a GPU it is that vendor's first GPU, present or not:
 * using it says why it is missing. */
TJ_C_API tj_status tj_default_device(tj_runtime* runtime, tj_device* out);
/* *out is the target's name, for example "sm_90a"; valid until this thread's next tj_target_of(). */
TJ_C_API tj_status tj_target_of(tj_runtime* runtime, tj_device device, const char** out);
/* Allocates memory, at least one byte, at a multiple of 256. On failure *out is null. */
TJ_C_API tj_status tj_allocate(tj_runtime* runtime, tj_device device, size_t bytes, void** out);
/* Gives back what tj_allocate() of the same runtime gave; null is ignored. */
TJ_C_API tj_status tj_free(tj_runtime* runtime, void* memory);
/* Copies and waits for the copy. Nothing happens for 0 bytes. */
TJ_C_API tj_status tj_copy(tj_runtime* runtime, void* dst, tj_device dst_device, const void* src, tj_device src_device,
                           size_t bytes);
/* Waits until the stream has done what was enqueued; returns at once on the model. A failure may be that of an earlier
 * kernel. */
TJ_C_API tj_status tj_synchronize(tj_runtime* runtime, tj_device device, void* stream);
/* *out is the time in milliseconds of what `work` enqueues on the default stream. It is measured by device events (wall
 * clock on the model), and waited for. A status of `work` other than TJ_OK is returned, with the error of its last tj_
 * call. */
TJ_C_API tj_status tj_time_ms(tj_runtime* runtime, tj_device device, tj_status (*work)(void* user), void* user,
                              double* out);

/* ---- errors and identity ---- */

/* Texts of the error of this thread's last tj_ call that returns a tj_status; "" after a success. They are never null,
 * and valid until this thread's next such call. */
TJ_C_API const char* tj_last_error(void);             /* cause and next step, one line */
TJ_C_API const char* tj_last_error_stage(void);       /* "argument", "target", "compile", ...; may be "" */
TJ_C_API const char* tj_last_error_log(void);         /* compiler log or model report */
TJ_C_API const char* tj_last_error_source_path(void); /* the file that the generated source was written to */
/* The name of a status: "ok" for 0, "invalid_argument" for 1, "unknown" for a number that this version does not know.
 * The text is static. */
TJ_C_API const char* tj_status_name(tj_status status);
/* *out is a JSON object of what this library is and finds here: version, build_id, file, cache_dir (that of default
 * options), nvrtc (the file; null where there is none), targets (names). It opens no driver and no compiler. *out lives
 * until this thread's next tj_describe(); on failure it is null. */
TJ_C_API tj_status tj_describe(const char** out);
/* *out is what the runtime has counted, as tj::Counters (counters.hpp) says: a JSON object where format is null or
 * "json", Prometheus' text format for "prometheus". *out lives until this thread's next tj_counters(); on failure it is
 * null. */
TJ_C_API tj_status tj_counters(tj_runtime* runtime, const char* format, const char** out);
/* Version and build of the library. The texts are static. */
TJ_C_API const char* tj_version(void);
TJ_C_API const char* tj_build_id(void);

#ifdef __cplusplus
}
#endif

#include "custom.h"
#include "dist.h"
#include "experts.h"
#include "graphs.h"
#include "preparation.h"
#include "recurrence.h"
#include "remote.h"
#include "trim.h"

#endif /* TILEJIT_TILEJIT_H */
