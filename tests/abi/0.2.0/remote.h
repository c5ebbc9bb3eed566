/* A store of kernels elsewhere, in C, as remote.hpp has it.
 *
 * A part of tilejit.h, which includes it. */
#include "tilejit.h" /* before the guard: it includes this file, in its order */

#ifndef TILEJIT_REMOTE_H
#define TILEJIT_REMOTE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Answers of a store's functions: the numbers of tj::RemoteAnswer. Any other number is a failure, too. */
enum { TJ_REMOTE_DONE = 0, TJ_REMOTE_ABSENT = 1, TJ_REMOTE_FAILED = 2 };

/* Takes `count` bytes of a value; called any number of times, in the order of the bytes. It may be called until get
 * returns, and by that thread alone. Not 0: no more are wanted, get ought to return. */
typedef int32_t (*tj_remote_sink)(void* sink_user, const void* bytes, size_t count);

/* A remote store, as tj::Remote (remote.hpp) says, for tj_options.remote. tj_runtime_create() copies the structure.
 *
 * Names end with NUL and have at most 160 characters. Names and bytes are valid during the call alone. The functions
 * are called by threads of the library, two at once at most, until tj_runtime_destroy() returns: `user` lives as long.
 * They may not call tj_ functions of the same runtime. One that takes longer than the time limit is given up: the call
 * that waits goes on without it. */
struct tj_remote {
  uint64_t size;
  int32_t (*get)(void* user, const char* name, tj_remote_sink sink, void* sink_user); /* null: nothing is read */
  int32_t (*put)(void* user, const char* name, const void* bytes, size_t count);      /* null: nothing is written */
  int32_t (*has)(void* user, const char* name); /* asked before put; null: each value is put */
  void* user;                                   /* handed to all three */
  double time_limit_s;                          /* of one function; 0: 2 s */
  const char* sign_key;                         /* a file of a secret key; null: values are not signed */
  int32_t trusted;                              /* 1: values need no signature; 0: of a key of pack_keys */
  int32_t reserved;                             /* 0 */
};

#ifdef __cplusplus
}
#endif

#endif /* TILEJIT_REMOTE_H */
