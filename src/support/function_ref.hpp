// A callable that outlives the call it is handed to: what hot calls pass down, as std::function would allocate.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace tj::support {

template <class Signature>
class FunctionRef;

template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<F, FunctionRef>)
  FunctionRef(const F& callable)
      : callable_(std::addressof(callable)), call_([](const void* of, Args... args) -> Result {
          return (*static_cast<const F*>(of))(std::forward<Args>(args)...);
        }) {}
  Result operator()(Args... args) const { return call_(callable_, std::forward<Args>(args)...); }

 private:
  const void* callable_;
  Result (*call_)(const void* of, Args... args);
};

}  // namespace tj::support
