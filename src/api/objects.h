/* Calls with a framework's own tensor objects: what the Python package asks of the library beside tilejit.h.
 *
 * Not installed, and not stable as binary: the package and its library are of one version.
 * Decides how objects become addresses: by the functions that DLPack 1.x calls its exchange API, which a framework's
 * tensor type offers as __dlpack_c_exchange_api__. Knows no framework, and of Python the functions of a table alone. A
 * call that is not known yet is the caller's to make by tj_run(); once its plan is kept, the next call with tensors of
 * the same shapes, strides, types and device takes that plan. Invariant: a call that is not known touches no memory and
 * enqueues nothing.
 *
 * Tensors are borrowed for the time of a call. Calls that take objects must be made by a thread that may use them: in
 * Python the one that holds the GIL. None of these functions compiles. Calls on the CPU model are never kept.
 *
 * tj_object_calls_serve() and tj_object_plan_serve() have the shape of a C function of the language, so that calling
 * them converts no argument. In CPython they become PyMethodDef::ml_meth with METH_FASTCALL, and `self` is the handle
 * as a number. The first argument is a list (a tuple) of all objects in order. The second, if there are two, is the
 * stream as a number; without it the stream is the framework's own, asked at each call. They return a new reference,
 * and leave no error behind. host.nothing is for what they cannot serve: the caller makes it by tj_run() or
 * tj_plan_run(). Null is for a `self` that is no handle.
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

/* The end of a language's interpreter, whose functions runtimes call from threads of their own. A gate is made for each
 * interpreter and lives as long as the process. Given as log_user, allocator_user or tj_remote.user, it is what that
 * option's functions pass through. Behind a closed gate none of them is called: log lines are lost, a remote store
 * fails, there is no memory, and no memory is given back. */
typedef struct tj_host_gate tj_host_gate;
TJ_C_API tj_status tj_host_gate_create(tj_host_gate** out);
/* Closes it for good, and waits for functions under way, for so many seconds (above 0) at most. The caller must hold no
 * lock that they need, such as the GIL. Null and what is no gate are ignored. */
TJ_C_API tj_status tj_host_gate_close(tj_host_gate* gate, double seconds);

/* Most tensors of a call. */
enum { TJ_MAX_OBJECTS = 9 };

/* Functions and objects of the language that tensors belong to, of which a process has one. CPython's functions of
 * these shapes are named behind each; all are called by the thread that called the library. */
typedef struct tj_object_host {
  uint64_t size;
  void (*clear_error)(void);                      /* forgets an error of the language: PyErr_Clear */
  void (*retain)(void* object);                   /* Py_IncRef */
  void (*release)(void* object);                  /* Py_DecRef */
  void* (*pack)(intptr_t count, ...);             /* a new list, which retains its objects: PyTuple_Pack */
  intptr_t (*count)(void* list);                  /* of its objects; below 0 with an error: PyTuple_Size */
  void* (*item)(void* list, intptr_t index);      /* borrowed from it: PyTuple_GetItem */
  void* (*address)(void* number);                 /* PyLong_AsVoidPtr */
  void* (*type_of)(void* object);                 /* a new reference: PyObject_Type */
  void* (*attribute)(void* object, void* name);   /* a new reference, null with an error: PyObject_GetAttr */
  void* (*call)(void* function, void* arguments); /* the same; arguments null: none: PyObject_CallObject */
  void *nothing, *yes, *no;                       /* Py_None, Py_True, Py_False */
  void* wants_grad;                               /* the name of a tensor's attribute: "requires_grad" */
} tj_object_host;

/* The calls of one op with the same numbers and flags and with tensors of the same types. */
typedef struct tj_object_calls tj_object_calls;

/* exchange_api: the framework's DLPackExchangeAPI, which lives as long as the process. names: of the op's tensors, as
 * tj_plan_info.tensors has them, in the order in which objects are given; at most TJ_MAX_OBJECTS. made: how many of
 * them, the last ones, are results that the framework allocates in each call; at most 2. records: the framework's
 * function without arguments that says whether calls are recorded for gradients, or null; it outlives the calls. While
 * it does not say `no`, no call is served with an object whose attribute `wants_grad` is not `no`. On failure *out is
 * null: TJ_UNSUPPORTED for an exchange API of another major version, or without one of the functions that are called.
 */
TJ_C_API tj_status tj_object_calls_create(const char* const* names, size_t count, size_t made, const void* exchange_api,
                                          const tj_object_host* host, void* records, tj_object_calls** out);
/* No thread may be inside a call of it; work that was enqueued goes on. Call it where objects may be used: it gives
 * the makers back. Null is ignored. */
TJ_C_API void tj_object_calls_destroy(tj_object_calls* calls);
/* Learns a call that tj_run() has served. objects: one for each name, results too. plan: of that call; a share of it is
 * kept. makers: for each result that is made, a function of the language without arguments that gives a new tensor like
 * it; null where the exchange API allocates it. They are retained. Without a plan (null) *wanted becomes 1 when a plan
 * is worth making: the same call was asked for before; makers may be null then. With a plan `wanted` may be null. At
 * most 256 plans are kept; the one that was used longest ago goes. */
TJ_C_API tj_status tj_object_calls_keep(tj_object_calls* calls, const tj_plan* plan, void* const* objects,
                                        void* const* makers, int32_t* wanted);
/* Serves a call, whose objects have the types of those that were learned. Objects for results that are made are left
 * out. Returns host.yes once it is enqueued; where results are made, the result, or the list of both that `pack` made.
 */
TJ_C_API void* tj_object_calls_serve(void* self, void* const* arguments, intptr_t count);
/* 1 while the choices hold that the plan's kernel was chosen by, as tj::Plan::current() says; else 0, as for null. */
TJ_C_API int32_t tj_plan_is_current(const tj_plan* plan);
/* 1: no quick kernel serves for now. Else a plan would wait for the best one. */
TJ_C_API int32_t tj_runtime_is_settled(tj_runtime* runtime);
/* A plan that is run with objects. */
typedef struct tj_object_plan tj_object_plan;
/* exchange_api, host and records as above. types: of the objects, one for each of tj_plan_info.tensors; they outlive
 * the handle. A share of the plan is kept. On failure *out is null. */
TJ_C_API tj_status tj_object_plan_create(const tj_plan* plan, void* const* types, const void* exchange_api,
                                         const tj_object_host* host, void* records, tj_object_plan** out);
/* No thread may be inside a run of it. Null is ignored. */
TJ_C_API void tj_object_plan_destroy(tj_object_plan* plan);
/* Runs the plan at the addresses of objects, one for each of tj_plan_info.tensors, without a caller's workspace.
 * Returns host.yes once it is enqueued. Not served: another number of objects, another type, an object without an
 * address, one of one number or with gaps in every dimension, and a run that failed. */
TJ_C_API void* tj_object_plan_serve(void* self, void* const* arguments, intptr_t count);

#ifdef __cplusplus
}
#endif

#endif /* TILEJIT_API_OBJECTS_H */
