/* Calls with a framework's own tensor objects: what the Python package asks of the library beside tilejit.h.
 *
 * Not installed, and not stable as binary: the package and its library are of one version.
 * Decides how objects become addresses: by the functions that DLPack 1.x calls its exchange API, which a framework's
 * tensor type offers as __dlpack_c_exchange_api__. Knows no framework and no Python. A call that is not known yet is
 * the caller's to make by tj_run(); once its plan is kept, the next call with tensors of the same shapes, strides,
 * types and device takes that plan. Invariant: a call that is not known touches no memory and enqueues nothing.
 *
 * Tensors are borrowed for the time of a call. Calls that take objects must be made by a thread that may use them: in
 * Python the one that holds the GIL. None of these functions compiles. Calls on the CPU model are never kept.
 */
#ifndef TILEJIT_API_OBJECTS_H
#define TILEJIT_API_OBJECTS_H

#include <tilejit/tilejit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names a folder of Python packages other than the library's own: NVRTC may come from NVIDIA's wheels in it. Call it
 * before a runtime is used. */
TJ_C_API tj_status tj_add_packages_folder(const char* folder);

/* Most tensors of a call. */
enum { TJ_MAX_OBJECTS = 9 };
/* The status that tj_object_calls_run() and tj_object_plan_run() give for a call that they cannot serve. */
enum { TJ_NOT_KEPT = -1 };
/* The stream that the framework enqueues on now, asked at each call. */
#define TJ_CURRENT_STREAM ((void*)-1)

/* Functions of the language that the objects belong to. CPython's functions of these shapes are named
 * behind each; all are called by the thread that called the library. */
typedef struct tj_object_host {
  uint64_t size;
  void (*clear_error)(void);          /* forgets an error that the framework has raised: PyErr_Clear */
  void (*retain)(void* object);       /* Py_IncRef */
  void (*release)(void* object);      /* Py_DecRef */
  void* (*pack)(intptr_t count, ...); /* a new list of that many objects, which retains each: PyTuple_Pack */
  void* nothing;                      /* the object for "no result": Py_None */
} tj_object_host;

/* The calls of one op with the same numbers and flags and with tensors of the same types. */
typedef struct tj_object_calls tj_object_calls;

/* exchange_api: the framework's DLPackExchangeAPI, which lives as long as the process. names: of the op's tensors, as
 * tj_plan_info.tensors has them, in the order in which objects are given; at most TJ_MAX_OBJECTS. made: how many of
 * them, the last ones, are results that the framework allocates in each call; at most 2. On failure *out is null:
 * TJ_UNSUPPORTED for an exchange API of another major version, or without one of the functions that are called. */
TJ_C_API tj_status tj_object_calls_create(const char* const* names, size_t count, size_t made, const void* exchange_api,
                                          const tj_object_host* host, tj_object_calls** out);
/* No thread may be inside a call of it; work that was enqueued goes on. Null is ignored. */
TJ_C_API void tj_object_calls_destroy(tj_object_calls* calls);
/* Learns a call that tj_run() has served. objects: one for each name, results too. plan: of that call; a share of it is
 * kept. Without a plan (null) *wanted becomes 1 when a plan is worth making: the same call was asked for before. With a
 * plan `wanted` may be null. At most 256 plans are kept; the one that was used longest ago goes. */
TJ_C_API tj_status tj_object_calls_keep(tj_object_calls* calls, const tj_plan* plan, void* const* objects,
                                        int32_t* wanted);
/* Serves a call on `stream`, or TJ_CURRENT_STREAM; one object for each name follows. TJ_OK: it is enqueued.
 * TJ_NOT_KEPT: make it by tj_run(), which also says what may be wrong with it. */
TJ_C_API tj_status tj_object_calls_run(tj_object_calls* calls, void* stream, ...);
/* The same with objects for the arguments alone, and new results. Returns a reference that is the caller's: to the
 * result, or to the list of both that `pack` makes; to host.nothing for a call that it cannot serve. */
TJ_C_API void* tj_object_calls_make(tj_object_calls* calls, void* stream, ...);
/* 1 while the choices hold that the plan's kernel was chosen by, as tj::Plan::current() says; else 0, as for null. */
TJ_C_API int32_t tj_plan_is_current(const tj_plan* plan);
/* A plan that is run with objects. */
typedef struct tj_object_plan tj_object_plan;
/* exchange_api and host as above. A share of the plan is kept. On failure *out is null. */
TJ_C_API tj_status tj_object_plan_create(const tj_plan* plan, const void* exchange_api, const tj_object_host* host,
                                         tj_object_plan** out);
/* No thread may be inside a run of it. Null is ignored. */
TJ_C_API void tj_object_plan_destroy(tj_object_plan* plan);
/* Runs the plan at the addresses of objects, one for each of tj_plan_info.tensors, without a caller's workspace.
 * TJ_NOT_KEPT: an object gave no address, or the run failed; tj_plan_run() says why. */
TJ_C_API tj_status tj_object_plan_run(const tj_object_plan* plan, void* stream, ...);

#ifdef __cplusplus
}
#endif

#endif /* TILEJIT_API_OBJECTS_H */
