// A store of kernels elsewhere, which the program reaches for the library: Redis, an object store, a server of its own.
//
// Decides what the library asks of such a store. Does not decide whom to trust: cache/README.md has the rules, by which
// no bytes of a store are loaded that were not verified. Invariant: a store that fails, is slow or lies costs time, and
// never a call.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tj {

/// How a function of a remote store ended.
enum class RemoteAnswer : std::int32_t {
  done,    ///< get: all bytes were handed over; put: the value is kept; has: it is there
  absent,  ///< get, has: there is no such value; put: it is not wanted
  failed   ///< the store could not be asked; any other number counts as this
};

/// Takes the bytes of a value, piece by piece in their order. False: no more are wanted, get() ends soon. Behind the
/// end of get() it takes nothing and says false.
using RemoteSink = std::function<bool(std::string_view bytes)>;

/// A remote store, in three functions. A name has at most 160 letters, digits, '-' and '.'; a value has at most 65 MiB,
/// and one name's value never changes in meaning.
///
/// The functions are called by threads of the library, two at once at most, with the program's signals blocked. They
/// must not call the same runtime, and may throw: that is a failure. Each ought to return within the time limit. One
/// that does not is given up: the call goes on without it, while its thread stays until it returns, as does what the
/// function uses. The runtime's end waits for functions that have not returned.
struct Remote {
  /// Asked behind the folders of the cache and before a kernel is compiled. Empty: nothing is read.
  std::function<RemoteAnswer(std::string_view name, const RemoteSink& sink)> get;
  /// Called behind each store of a kernel that was compiled here. Empty: nothing is written.
  std::function<RemoteAnswer(std::string_view name, std::string_view bytes)> put;
  /// Asked before put(), which is left out where the value is there. Empty: each one is put.
  std::function<RemoteAnswer(std::string_view name)> has;
  /// Seconds that a call waits for one function, above 0, at most 3600.
  double time_limit_s = 2;
  /// True: whoever can write the store is trusted as this user is, and values need no signature. False: each value must
  /// be signed by a key of Options::pack_keys.
  bool trusted = false;
  /// A file of a secret key (tj-warm --make-key), which others cannot read. Values that are put are signed by it.
  /// Empty: they are not, and nothing is put unless `trusted`.
  std::string sign_key;
};

}  // namespace tj
