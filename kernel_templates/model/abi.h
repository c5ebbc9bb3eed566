/* The interface between a unit compiled for the CPU model and the library: one table of calls, in plain C.
 *
 * Decides the shape of every primitive that needs the block's other threads, its shared memory or its asynchronous
 * units; decides no behaviour (the library's model does). A primitive that needs only the thread's own values is in the
 * unit. Invariant: any change here raises TJ_MODEL_ABI_VERSION; the library refuses a unit of another version.
 * Site ids: positive and unique in a unit; the library can switch each off. A call that finds misuse does not return.
 */
#pragma once

#define TJ_MODEL_ABI_VERSION 20u

/* Waits for the phase of a parity, 0 or 1. */
#define TJ_MODEL_PARITY 0
/* Waits for a phase by its whole number, counted from 0 for the barrier; 0xffffffff is the one before the first. */
#define TJ_MODEL_NUMBER 1
/* Asks for a phase by its number. */
#define TJ_MODEL_ASK 2
#define TJ_MODEL_SUFFIX "_model" /* symbol + this: the tj_model_kernel of an entry point */

#ifdef __cplusplus
extern "C" {
#endif

/* The place of the calling thread. Constant while it runs. */
typedef struct tj_model_thread {
  unsigned thread, block, grid_blocks;
  unsigned shared_base;  /* window address of the dynamic shared memory, a multiple of 1024 */
  unsigned cluster_rank; /* of its block in the block's cluster */
} tj_model_thread;

enum tj_model_element { TJ_MODEL_F16 = 0, TJ_MODEL_BF16 = 1, TJ_MODEL_E4M3 = 2 };

/* One warpgroup matrix instruction, m64nNk16 (e4m3: m64nNk32), as one thread issues it. */
typedef struct tj_model_matrix {
  enum tj_model_element element;
  int columns;     /* N */
  int transpose_a; /* a in shared memory is stored MN-major; never e4m3 */
  int transpose_b; /* so is b */
  int accumulate;  /* 0: d is overwritten */
  float* d;        /* this thread's columns / 2 accumulators */
  const unsigned*
      a; /* its four registers of the left operand; null: the left operand is in shared memory, as e4m3 always is */
  unsigned long long descriptor_a, descriptor_b;
} tj_model_matrix;

/* One matrix instruction of a warp, m16n8k16, or m16n8k32 of e4m3, as one lane issues it. */
typedef struct tj_model_mma {
  enum tj_model_element element;
  float* d;          /* this lane's four sums */
  const unsigned* a; /* its four registers of the left operand */
  unsigned b[2];     /* and two of the right */
} tj_model_mma;

/* How the lanes of a wave hold its matrix instruction, 16 rows, 16 columns, 16 of K:
 * kernel_templates/matrix_<arch>.cuh. */
enum tj_model_wave_layout {
  TJ_MODEL_GFX11 = 0, /* 32 lanes; 8 words of an operand, alike in lanes l and l + 16; sum v is row 2v + lane / 16 */
  TJ_MODEL_GFX12 = 1, /* 32 lanes; 4 words of an operand; sum v is row lane / 16 * 8 + v */
  TJ_MODEL_GFX9 = 2   /* 64 lanes; 2 words of an operand; sum v is row lane / 16 * 4 + v */
};

/* That instruction, as one lane issues it. */
typedef struct tj_model_wave_mma {
  enum tj_model_element element; /* e4m3, with gfx12 alone: 32 of K, four elements a word */
  enum tj_model_wave_layout layout;
  int flushes;       /* 1: subnormal elements and sums count as 0, in and out */
  float* d;          /* this lane's sums */
  const unsigned* a; /* its words of the left operand */
  const unsigned* b; /* and of the right one */
} tj_model_wave_mma;

/* One matrix instruction on tensor memory, 16 of K, by the thread that issues it. */
typedef struct tj_model_tensor_matrix {
  unsigned sums;        /* address in tensor memory */
  unsigned instruction; /* its descriptor: kernel_templates/matrix_sm100.cuh */
  int accumulate;       /* 0: the sums are overwritten */
  int left_in_tensor;   /* 1: the left operand is at a_tensor, else where descriptor_a says in shared memory */
  unsigned a_tensor;
  unsigned long long descriptor_a, descriptor_b;
  int blocks; /* 1, or 2: of a pair of blocks */
} tj_model_tensor_matrix;

/* The cells of tensor memory that a warp's registers are: kernel_templates/arch/sm100_tensor.cuh, tensor_load and
 * tensor_load_fragment. */
enum tj_model_tensor_shape { TJ_MODEL_ROWS = 0, TJ_MODEL_FRAGMENT = 1, TJ_MODEL_OPERAND = 2 };

typedef struct tj_model_api {
  unsigned version;
  const tj_model_thread* (*self)(void);

  void (*block_sync)(int site); /* these two: 0 where the unit gave none */
  void (*warp_sync)(int site);
  unsigned (*shuffle)(unsigned bits, unsigned lane);
  unsigned (*shuffle_xor)(unsigned bits, unsigned mask);
  int (*any_in_warp)(int value);
  void (*named_barrier)(int site, unsigned id, unsigned threads, int wait);

  void (*mbarrier_init)(unsigned barrier, unsigned arrivals);
  void (*mbarrier_init_done)(int site); /* 0 where the unit gave none */
  void (*mbarrier_arrive)(int site, unsigned barrier);
  void (*mbarrier_expect)(int site, unsigned barrier, unsigned bytes);
  /* How `phase` is told, and whether the thread waits. TJ_MODEL_ASK gives 0 where the wait would not be over at once,
   * or its site is switched off or weakened; else 1. */
  int (*mbarrier_wait)(int site, unsigned barrier, unsigned phase, int how);
  void (*proxy_fence)(int site);
  void (*registers)(int site, int registers, int grow);

  void (*copy_box)(unsigned destination, const void* map, unsigned barrier, const int* coordinates, int rank);
  /* Announced bytes that no copy brings; their place holds nothing of use any more. */
  void (*copy_nothing)(unsigned destination, unsigned bytes, unsigned barrier);
  void (*store_box)(const void* map, unsigned source, const int* coordinates, int rank);
  void (*store_commit)(int site);
  void (*store_wait)(int site, int pending); /* until the sources of all but the newest groups have been read */
  void (*shared_load)(unsigned address, void* to, unsigned bytes);
  void (*shared_store)(unsigned address, const void* from, unsigned bytes);

  void (*matrix_fence)(int site);
  void (*matrix_commit)(int site);
  void (*matrix_wait)(int site, int pending);
  void (*matrix_multiply)(const tj_model_matrix* instruction);

  void (*global_access)(const void* address, unsigned bytes,
                        int write); /* before an ordinary access of so many bytes at once */

  /* Clusters: all threads of all their blocks that have not ended, with `orders` what they did before for all; one
   * arrival on the barrier at this address in the block of that rank; a box to this address in every block of the mask,
   * where it completes on the barrier at that address. */
  void (*cluster_sync)(int site, int orders);
  void (*mbarrier_arrive_at)(int site, unsigned barrier, unsigned cluster_rank);
  void (*copy_box_multicast)(unsigned destination, const void* map, unsigned barrier, unsigned mask,
                             const int* coordinates, int rank);

  /* Copies by threads: `bytes` (4, 8, 16), of which the first `present` are read and the rest become zero; groups of
   * one thread; an arrival once all that the thread has issued before is done. Matrices of a warp: 1, 2 or 4 of them,
   * into as many words; products. */
  void (*copy_async)(unsigned destination, const void* source, unsigned bytes, unsigned present);
  void (*copy_async_commit)(int site);
  void (*copy_async_wait)(int site, int pending);
  void (*copy_async_arrive)(int site, unsigned barrier);
  void (*load_matrices)(unsigned address, unsigned* words, int count, int transposed);
  void (*mma)(const tj_model_mma* instruction);

  void (*wave_mma)(const tj_model_wave_mma* instruction);

  /* Call `call` of a node runs next, for that iteration, or for that tile where the node is none of the loop. Ids are
   * those of the notes. */
  void (*at_node)(int call, int iteration);
  void (*reads_arrived)(int site); /* what the thread has read of shared memory is there */
  void (*grids_before)(int site);  /* returns once the grids before are done; 0 where the unit gave none */
  int (*elect)(void);              /* true in one lane of the warp, all of which take part */

  /* Tensor memory: 128 lanes of 512 columns of 32 bits, an address is lane << 16 | column. All lanes of a warp take
   * part in all of this but the fence and the last two. `blocks`: 1, or 2 where a pair of blocks does it together.
   * Waits are for the warp's loads or stores. */
  void (*tensor_allocate)(unsigned place, unsigned columns,
                          int blocks); /* the address is written to shared memory, at `place` */
  void (*tensor_relinquish)(int blocks);
  void (*tensor_free)(unsigned tensor, unsigned columns, int blocks);
  void (*tensor_load)(unsigned tensor, unsigned* words, int count,
                      enum tj_model_tensor_shape shape); /* arrive at the wait */
  void (*tensor_store)(unsigned tensor, const unsigned* words, int count, enum tj_model_tensor_shape shape);
  void (*tensor_wait)(int site, int stores);
  void (*tensor_fence)(int site, int after); /* 0: before a sync, 1: after one */
  void (*tensor_multiply)(const tj_model_tensor_matrix* instruction);
  /* One arrival, once what the thread has issued is done, on the barrier at this address in every block of the mask;
   * ~0: in this block alone. */
  void (*tensor_commit)(int site, unsigned barrier, unsigned mask, int blocks);
  /* A box into this block, which completes on the barrier at this address in the block of the lower rank of its pair.
   */
  void (*copy_box_for_pair)(unsigned destination, const void* map, unsigned barrier, const int* coordinates, int rank);

  unsigned (*clock)(void); /* steps of the calling thread's block so far, each a turn of a warp or a completion */

  /* Counters in global memory, by which blocks tell each other: the number before one is added; an addition that tells
   * what the thread knows; a wait until the counter, counted from `value`, is not negative, which learns it; back to 0.
   */
  unsigned (*counter_draw)(unsigned* counter);
  void (*counter_signal)(int site, unsigned* counter, unsigned amount);
  void (*counter_wait)(int site, const unsigned* counter, unsigned value);
  void (*counter_reset)(int site, unsigned* counter);

  /* 4 or 16 bytes to this address in the block of that rank, done later: they complete on the barrier at that address
   * there. */
  void (*store_shared_at)(int site, unsigned address, const void* bytes, unsigned count, unsigned barrier,
                          unsigned cluster_rank);

  /* Words that ranks write for each other. Loads acquire, stores release. A rest is in a loop that waits for a word:
   * it ends when something may have changed. Nanoseconds since some time. */
  unsigned (*word_load)(const unsigned* word);
  void (*word_store)(unsigned* word, unsigned value);
  void (*word_rest)(void);
  unsigned long long (*time_ns)(void);
} tj_model_api;

/* The export of a unit beside the entry point, as <symbol>_model. */
typedef struct tj_model_kernel {
  unsigned version;
  unsigned threads;
  unsigned warp_threads;    /* 32 or 64 */
  unsigned shared_barriers; /* 0: nothing orders the block's threads but its syncs and those of its warps */
  unsigned params_bytes, params_alignment;
  void (*run)(const void* params); /* one thread, from begin to end */
  void (*bind)(const tj_model_api* api);
  const char* notes; /* what reports say of the unit, as JSON (kernel_templates/README.md); may be null */
} tj_model_kernel;

#ifdef __cplusplus
}
#endif
