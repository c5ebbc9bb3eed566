// One program of a run-time compiler: NVRTC's and hiprtc's calls have the same shape.
//
// Decides the life of the handle and how texts go in and out. Knows no options. Invariant: the handle dies with the
// object.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compile/compiler.hpp"

namespace tj::compile {

/// Api has a Handle type, the calls create, destroy, compile, log_size, log, code_size and code, and check(result,
/// call), which throws for a failure.
template <class Api>
class RtcProgram {
 public:
  RtcProgram(const Api& api, const Job& job) : api_(api) {
    // The libraries want texts that end with 0; the views of a job do not promise that.
    std::vector<std::string> texts;
    std::vector<const char*> text_pointers, name_pointers;
    for (const Header& header : job.headers) {
      texts.emplace_back(header.text.empty() ? "\n" : header.text);  // hiprtc takes no empty text
      name_pointers.push_back(header.name.c_str());
    }
    for (const std::string& text : texts) text_pointers.push_back(text.c_str());
    api_.check(api_.create(&handle_, job.text.c_str(), job.name.c_str(), static_cast<int>(texts.size()),
                           text_pointers.data(), name_pointers.data()),
               "CreateProgram");
  }
  ~RtcProgram() { api_.destroy(&handle_); }
  RtcProgram(const RtcProgram&) = delete;
  RtcProgram& operator=(const RtcProgram&) = delete;

  typename Api::Handle handle() const { return handle_; }

  /// The library's own result, so that the caller can add the log to what it throws.
  auto compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return api_.compile(handle_, static_cast<int>(pointers.size()), pointers.data());
  }

  std::string log() const {
    std::string text = fetch(api_.log_size, api_.log, "GetProgramLog");
    std::erase(text, '\0');  // at its end, and in NVRTC's also before the table of --time
    return text;
  }

  std::string code() const { return fetch(api_.code_size, api_.code, "GetCode"); }
  /// NVRTC's alone: the text, with the 0 behind it.
  std::string ptx() const { return fetch(api_.ptx_size, api_.ptx, "GetPTX"); }

 private:
  template <class Size, class Get>
  std::string fetch(Size size_of, Get get, const char* call) const {
    std::size_t size = 0;
    api_.check(size_of(handle_, &size), call);
    std::string bytes(size, '\0');
    if (size > 0) api_.check(get(handle_, bytes.data()), call);
    return bytes;
  }

  const Api& api_;
  typename Api::Handle handle_ = nullptr;
};

}  // namespace tj::compile
