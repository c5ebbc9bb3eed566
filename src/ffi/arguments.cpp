// See arguments.hpp.
#include "ffi/arguments.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "ops/op.hpp"
#include "support/c_structs.hpp"
#include "support/fail.hpp"
#include "support/text.hpp"

namespace tj::ffi {
namespace {

using support::cat;

[[noreturn]] void refuse(const Signature& signature, const std::string& message) {
  support::fail(Stage::argument, Code::invalid_argument, cat(signature.op, ": ", message));
}

bool is_tensor(const Parameter& parameter) { return parameter.kind == Kind::read || parameter.kind == Kind::written; }

std::string words_of(const Parameter& parameter) {
  std::string words;
  for (const char* word : parameter.words) words += cat(words.empty() ? "" : ", ", word);
  return words;
}

}  // namespace

std::string allowed_for(const Parameter& parameter) {
  const std::string none = parameter.optional ? ", or None" : "";
  switch (parameter.kind) {
    case Kind::flag:
      return "true or false";
    case Kind::whole:
      return "a whole number";
    case Kind::count:
      return "a whole number of 32 bits";
    case Kind::real:
      return cat("a number", parameter.has != 0 ? none : "");
    case Kind::text:
      return cat("a text", none);
    case Kind::word:
      return cat(words_of(parameter), ", or a number from 0 to ", parameter.words.size() - 1);
    default:
      return cat("a tensor", none);
  }
}

std::string names_of(const Signature& signature) {
  std::string names;
  for (const Parameter& parameter : signature.parameters) {
    if (!names.empty()) names += ", ";
    names += parameter.name;
  }
  return names;
}

std::pair<std::size_t, std::size_t> counts_of(const Signature& signature) noexcept {
  const auto& rows = signature.parameters;
  std::size_t least = rows.size();
  while (least > 0 && rows[least - 1].optional) --least;
  return {least, rows.size()};
}

Arguments::Arguments(const Signature& signature) : signature_(&signature) {
  std::memcpy(structure_.data(), signature.defaults, signature.bytes);
}

void Arguments::refuse_kind(const Parameter& parameter, const std::string& given) {
  wrong_kind_ = true;
  refuse(*signature_, cat(parameter.name, " is ", given, "; allowed: ", allowed_for(parameter)));
}

template <class Value>
void Arguments::put(std::size_t offset, const Value& value) {
  std::memcpy(structure_.data() + offset, &value, sizeof value);
}

std::size_t Arguments::place_of(const Parameter& parameter) const noexcept {
  return static_cast<std::size_t>(&parameter - signature_->parameters.data());
}

void Arguments::tensor(const Parameter& parameter, const tj_tensor& value) {
  if (!is_tensor(parameter)) refuse_kind(parameter, "a tensor");
  tj_tensor& own = tensors_.at(place_of(parameter));
  own = value;
  own.size = sizeof own;
  put(parameter.offset, static_cast<const tj_tensor*>(&own));
  given_.at(place_of(parameter)) = true;
}

void Arguments::flag(const Parameter& parameter, bool value) {
  if (parameter.kind != Kind::flag) refuse_kind(parameter, value ? "true" : "false");
  put(parameter.offset, std::int32_t{value ? 1 : 0});
}

void Arguments::whole(const Parameter& parameter, std::int64_t value) {
  if (parameter.kind == Kind::real) return real(parameter, static_cast<double>(value));
  if (parameter.kind == Kind::whole) return put(parameter.offset, value);
  const auto narrow = static_cast<std::int32_t>(value);
  if (parameter.kind == Kind::count && narrow == value) return put(parameter.offset, narrow);
  if (parameter.kind == Kind::flag && (value == 0 || value == 1)) return flag(parameter, value == 1);
  if (parameter.kind != Kind::word || value < 0 || value >= static_cast<std::int64_t>(parameter.words.size()))
    refuse_kind(parameter, std::to_string(value));
  put(parameter.offset, static_cast<std::int32_t>(value));
}

void Arguments::real(const Parameter& parameter, double value) {
  if (parameter.kind != Kind::real) refuse_kind(parameter, cat(value));
  put(parameter.offset, static_cast<float>(value));
  if (parameter.has != 0) put(parameter.has, std::int32_t{1});
}

void Arguments::text(const Parameter& parameter, std::string_view value) {
  if (value.find('\0') != std::string_view::npos)
    refuse(*signature_, cat(parameter.name, " has a zero byte; allowed: a text without a zero byte"));
  std::string& own = texts_.at(place_of(parameter));
  own = value;
  put(parameter.offset, static_cast<const char*>(own.c_str()));
}

void Arguments::word(const Parameter& parameter, std::string_view value) {
  if (parameter.kind == Kind::text) return text(parameter, value);
  const auto& words = parameter.words;
  const auto found = std::find(words.begin(), words.end(), value);
  if (parameter.kind == Kind::word && found == words.end()) {
    refuse(*signature_, cat(parameter.name, " is '", support::shown(value), "'; allowed: ", words_of(parameter)));
  }
  if (parameter.kind != Kind::word) refuse_kind(parameter, cat("'", support::shown(value), "'"));
  put(parameter.offset, static_cast<std::int32_t>(found - words.begin()));
}

const tj_tensor* Arguments::tensor(std::string_view name) const {
  const Parameter* parameter = signature_->find(name);
  if (parameter == nullptr || !given_.at(place_of(*parameter))) return nullptr;
  return &tensors_.at(place_of(*parameter));
}

std::int32_t Arguments::number(std::string_view name) const {
  std::int32_t value = 0;
  if (const Parameter* parameter = signature_->find(name); parameter != nullptr)
    std::memcpy(&value, structure_.data() + parameter->offset, sizeof value);
  return value;
}

const tj_tensor& Arguments::with_rank(std::string_view name, int least, int most) const {
  const tj_tensor* found = tensor(name);
  if (found == nullptr) refuse(*signature_, cat(name, " is missing; allowed: a tensor"));
  if (found->rank < least || found->rank > most)
    refuse(*signature_, cat(name, ".rank is ", found->rank, "; allowed: ", least,
                            least == most ? std::string() : cat(" to ", most)));
  return *found;
}

const tj_tensor& Arguments::first() const {
  for (std::size_t i = 0; i < given_.size(); ++i)
    if (given_.at(i)) return tensors_.at(i);
  refuse(*signature_, cat("there is no tensor; allowed: ", names_of(*signature_)));
}

void Arguments::check_complete() const {
  for (const Parameter& parameter : signature_->parameters) {
    const bool needed = is_tensor(parameter) && (!parameter.optional || &parameter == signature_->made);
    if (needed && !given_.at(place_of(parameter)))
      refuse(*signature_, cat(parameter.name, " is missing; allowed: a tensor"));
  }
}

void Arguments::run(Stream stream) const {
  check_complete();
  const ops::Op& op = detail::find_op(signature_->op);
  op.from_c(structure_.data(), [&](const void* args) { Runtime::instance().run(op.name(), args, stream); });
}

void Arguments::prepare() const {
  check_complete();
  const ops::Op& op = detail::find_op(signature_->op);
  op.from_c(structure_.data(), [&](const void* args) { Runtime::instance().prepare(op.name(), args); });
}

std::uint64_t Arguments::kind() const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  const auto add = [&](const void* bytes, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3ull;  // FNV-1a
  };
  add(signature_->op, std::strlen(signature_->op));
  for (const Parameter& parameter : signature_->parameters) {
    const std::size_t place = place_of(parameter);
    if (parameter.kind == Kind::text) {
      const char* text = nullptr;
      std::memcpy(&text, structure_.data() + parameter.offset, sizeof text);
      const bool given = text != nullptr;  // an empty text is not none: the op refuses it
      add(&given, sizeof given);
      add(texts_.at(place).c_str(), texts_.at(place).size() + 1);
      continue;
    }
    if (!is_tensor(parameter)) {
      add(structure_.data() + parameter.offset,
          parameter.kind == Kind::whole ? sizeof(std::int64_t) : sizeof(std::int32_t));
      if (parameter.has != 0) add(structure_.data() + parameter.has, sizeof(std::int32_t));
      continue;
    }
    tj_tensor plain = tensors_.at(place);
    plain.data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(plain.data) % 256);
    add(&given_.at(place), sizeof(bool));
    add(&plain, sizeof plain);
  }
  return hash;
}

}  // namespace tj::ffi
