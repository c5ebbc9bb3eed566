// Protects the arguments of ops as frameworks pass them: their order and defaults, which value each kind of parameter
// takes, the whole text of a refusal, shapes of results that nobody gave, and which calls count as one kind.
#include "ffi/arguments.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ffi/signature.hpp"

namespace {

using namespace tj;
using ffi::Arguments;
using ffi::Kind;
using ffi::Parameter;
using ffi::Signature;

tj_tensor tensor_of(std::int32_t dtype, std::initializer_list<std::int64_t> shape, std::uintptr_t address = 4096) {
  tj_tensor tensor{};
  tensor.data = reinterpret_cast<void*>(address);
  tensor.dtype = dtype;
  for (const std::int64_t size : shape) tensor.shape[tensor.rank++] = size;
  return tensor;
}

const Parameter& parameter(const Signature& signature, std::string_view name) {
  const Parameter* found = signature.find(name);
  REQUIRE(found != nullptr);
  return *found;
}

void give(Arguments& arguments, std::string_view name, const tj_tensor& tensor) {
  arguments.tensor(parameter(arguments.signature(), name), tensor);
}

/// The words that the work is refused with; "" where it is not.
template <class Work>
std::string said(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.stage == Stage::argument);
    CHECK(error.code == Code::invalid_argument);
    return error.message;
  }
  return "";
}

std::vector<std::int64_t> shape_of(const tj_tensor& tensor) { return {tensor.shape, tensor.shape + tensor.rank}; }

/// The result that the op makes for these tensors.
tj_tensor made(const Signature& signature, const std::vector<std::pair<const char*, tj_tensor>>& tensors) {
  Arguments arguments(signature);
  for (const auto& [name, tensor] : tensors) give(arguments, name, tensor);
  tj_tensor result{};
  signature.make(arguments, result);
  return result;
}

}  // namespace

TEST_CASE("the order of each op's arguments, how many may be left out, and what is allocated where nobody gives it") {
  struct Row {
    const char *op, *names, *made;
    std::size_t least, most;
  };
  const Row rows[] = {
      {"fmha",
       "q, k, v, o, lse, causal, scale, window_left, window_right, top_left, softcap, alibi_slopes, sinks, "
       "cu_seqlens_q, "
       "cu_seqlens_k, seqused_k, block_table, bias, score_mod, mask_mod, key_range, mod_params",
       "o", 3, 22},
      {"gemm",
       "a, b, d, c, bias, alpha, beta, activation, scale_a, scale_b, gate, gate_interleaved, "
       "scale_d, powers_of_two, end_text, end_params",
       "d", 2, 16},
      {"chunk_indices", "cu_seqlens, chunk_indices, total_chunks", nullptr, 3, 3},
      {"chunk_o",
       "q, k, v_new, h, o, g_cu, cu_seqlens, chunk_indices, total_chunks, seq_length, scale, h_transposed, "
       "max_sms, num_stages, evict_first",
       "o", 4, 15}};
  for (const Row& row : rows) {
    CAPTURE(row.op);
    const Signature* signature = ffi::signature_of(row.op);
    REQUIRE(signature != nullptr);
    CHECK(std::string(signature->op) == row.op);
    CHECK(ffi::names_of(*signature) == row.names);
    CHECK(ffi::counts_of(*signature) == std::pair(row.least, row.most));
    CHECK((signature->made == nullptr) == (row.made == nullptr));
    if (row.made != nullptr) CHECK(std::string(signature->made->name) == row.made);
    CHECK(signature->find("nothing") == nullptr);
    const Arguments arguments(*signature);
    CHECK(said([&] { arguments.first(); }) == std::string(row.op) + ": there is no tensor; allowed: " + row.names);
  }
  CHECK(ffi::signature_of("copy_rows") == nullptr);
  CHECK(ffi::signature_of("") == nullptr);
}

TEST_CASE("each kind of parameter takes its values and refuses the others, with its name and what is allowed") {
  const Signature &fmha = ffi::fmha_signature(), &gemm = ffi::gemm_signature(), &chunk_o = ffi::chunk_o_signature();
  const tj_tensor tensor = tensor_of(TJ_F16, {8, 8});
  struct Row {
    const Signature& signature;
    const char *name, *allowed;
  };
  for (const Row& row :
       {Row{fmha, "q", "a tensor"}, Row{fmha, "lse", "a tensor, or None"}, Row{fmha, "causal", "true or false"},
        Row{fmha, "scale", "a number, or None"}, Row{gemm, "alpha", "a number"},
        Row{chunk_o, "seq_length", "a whole number"}, Row{chunk_o, "num_stages", "a whole number of 32 bits"},
        Row{gemm, "end_text", "a text, or None"},
        Row{gemm, "activation", "none, relu, gelu, silu, gelu_tanh, or a number from 0 to 4"}}) {
    CAPTURE(row.name);
    Arguments arguments(row.signature);
    const Parameter& one = parameter(row.signature, row.name);
    CHECK(ffi::allowed_for(one) == row.allowed);
    const auto refusal = [&](const char* given) {
      return std::string(row.signature.op) + ": " + row.name + " is " + given + "; allowed: " + row.allowed;
    };
    const bool is_tensor = one.kind == Kind::read || one.kind == Kind::written;
    CHECK(said([&] { arguments.tensor(one, tensor); }) == (is_tensor ? "" : refusal("a tensor")));
    CHECK(arguments.wrong_kind() == !is_tensor);
    CHECK(said([&] { arguments.flag(one, true); }) == (one.kind == Kind::flag ? "" : refusal("true")));
    CHECK(said([&] { arguments.flag(one, false); }) == (one.kind == Kind::flag ? "" : refusal("false")));
    CHECK(said([&] { arguments.real(one, 0.5); }) == (one.kind == Kind::real ? "" : refusal("0.5")));
    const bool counts = one.kind == Kind::whole || one.kind == Kind::count || one.kind == Kind::real;
    if (one.kind == Kind::count)
      CHECK(said([&] { arguments.whole(one, std::int64_t{1} << 32); }) == refusal("4294967296"));
    for (const std::int64_t value : {-1, 0, 1, 2, 3, 4, 5}) {
      const bool fits = counts || (one.kind == Kind::word && value >= 0 && value <= 4) ||
                        (one.kind == Kind::flag && (value == 0 || value == 1));
      CHECK(said([&] { arguments.whole(one, value); }) == (fits ? "" : refusal(std::to_string(value).c_str())));
    }
    if (one.kind != Kind::word)
      CHECK(said([&] { arguments.word(one, "relu"); }) == (one.kind == Kind::text ? "" : refusal("'relu'")));
    CHECK(arguments.wrong_kind());
  }
  Arguments product(gemm);
  const Parameter& activation = parameter(gemm, "activation");
  CHECK(said([&] { product.word(activation, "tanh"); }) ==
        "gemm: activation is 'tanh'; allowed: none, relu, gelu, silu, gelu_tanh");
  CHECK(!product.wrong_kind());  // a word, but not one of these
  CHECK(said([&] { product.word(activation, "silu"); }) == "");
}

TEST_CASE("a text is copied, and calls with other texts are of another kind") {
  const auto kind_of = [](const char* name, const char* text) {
    Arguments arguments(ffi::fmha_signature());
    if (text != nullptr) arguments.word(parameter(arguments.signature(), name), text);
    return arguments.kind();
  };
  const std::uint64_t one = kind_of("mask_mod", "return true;");
  CHECK(one == kind_of("mask_mod", "return true;"));
  std::vector<std::uint64_t> kinds = {one, kind_of("mask_mod", nullptr), kind_of("mask_mod", ""),
                                      kind_of("mask_mod", "return k <= q;"), kind_of("score_mod", "return true;")};
  std::sort(kinds.begin(), kinds.end());
  CHECK(std::adjacent_find(kinds.begin(), kinds.end()) == kinds.end());
  Arguments arguments(ffi::fmha_signature());
  CHECK(said([&] { arguments.word(parameter(arguments.signature(), "mask_mod"), {"a\0b", 3}); }) ==
        "fmha: mask_mod has a zero byte; allowed: a text without a zero byte");
}

TEST_CASE("a tensor is found by its name and rank once it is given") {
  Arguments arguments(ffi::gemm_signature());
  CHECK(arguments.tensor("a") == nullptr);
  CHECK(said([&] { arguments.with_rank("a", 2, 3); }) == "gemm: a is missing; allowed: a tensor");
  give(arguments, "b", tensor_of(TJ_F16, {5, 6}));
  REQUIRE(arguments.tensor("b") != nullptr);
  CHECK(arguments.tensor("b")->size == sizeof(tj_tensor));
  CHECK(&arguments.first() == arguments.tensor("b"));
  CHECK(arguments.tensor("a") == nullptr);
  CHECK(arguments.tensor("nothing") == nullptr);
  CHECK(arguments.with_rank("b", 2, 2).shape[1] == 6);
  CHECK(arguments.with_rank("b", 1, 2).shape[1] == 6);
  CHECK(said([&] { arguments.with_rank("b", 3, 3); }) == "gemm: b.rank is 2; allowed: 3");
  CHECK(said([&] { arguments.with_rank("b", 3, 4); }) == "gemm: b.rank is 2; allowed: 3 to 4");
  CHECK(said([&] { arguments.with_rank("b", 0, 1); }) == "gemm: b.rank is 2; allowed: 0 to 1");
  CHECK(said([&] { arguments.run({}); }) == "gemm: a is missing; allowed: a tensor");
  give(arguments, "a", tensor_of(TJ_F16, {4, 6}));
  CHECK(said([&] { arguments.run({}); }) == "gemm: d is missing; allowed: a tensor");
  CHECK(said([&] { arguments.prepare(); }) == "gemm: d is missing; allowed: a tensor");
}

TEST_CASE("a result that nobody gave has the type and shape that follow from the others") {
  const tj_tensor o =
      made(ffi::fmha_signature(), {{"q", tensor_of(TJ_BF16, {2, 3, 4, 5})}, {"v", tensor_of(TJ_BF16, {2, 1, 7, 6})}});
  CHECK(o.dtype == TJ_BF16);
  CHECK(shape_of(o) == std::vector<std::int64_t>{2, 3, 4, 6});
  const tj_tensor chunk =
      made(ffi::chunk_o_signature(), {{"q", tensor_of(TJ_BF16, {20, 2, 7})}, {"v_new", tensor_of(TJ_F16, {64, 6, 9})}});
  CHECK(chunk.dtype == TJ_BF16);
  CHECK(shape_of(chunk) == std::vector<std::int64_t>{20, 6, 9});
  const auto a = tensor_of(TJ_F16, {4, 6}), b = tensor_of(TJ_F16, {5, 6});
  const auto batch_a = tensor_of(TJ_F16, {2, 4, 6}), batch_b = tensor_of(TJ_F16, {3, 5, 6}),
             batch_c = tensor_of(TJ_F32, {7, 4, 5}), c = tensor_of(TJ_F32, {4, 5}), bias = tensor_of(TJ_BF16, {5});
  struct Row {
    std::vector<std::pair<const char*, tj_tensor>> given;
    std::int32_t dtype;
    std::vector<std::int64_t> shape;
  };
  for (const Row& row :
       {Row{{{"a", a}, {"b", b}}, TJ_F16, {4, 5}}, Row{{{"a", batch_a}, {"b", b}}, TJ_F16, {2, 4, 5}},
        Row{{{"a", a}, {"b", batch_b}}, TJ_F16, {3, 4, 5}}, Row{{{"a", batch_a}, {"b", batch_b}}, TJ_F16, {2, 4, 5}},
        Row{{{"a", a}, {"b", b}, {"c", batch_c}}, TJ_F32, {7, 4, 5}},
        Row{{{"a", a}, {"b", b}, {"c", c}, {"bias", bias}}, TJ_F32, {4, 5}},
        Row{{{"a", a}, {"b", b}, {"bias", bias}}, TJ_BF16, {4, 5}},
        Row{{{"a", tensor_of(TJ_E4M3, {4, 6})}, {"b", b}}, TJ_F32, {4, 5}}}) {
    const tj_tensor d = made(ffi::gemm_signature(), row.given);
    CHECK(d.dtype == row.dtype);
    CHECK(shape_of(d) == row.shape);
  }
  for (const auto& [name, shape] : {std::pair{"a", a}, {"b", b}}) {
    tj_tensor flat = shape;
    flat.rank = 1;
    const std::string key = name, message = said([&, n = name] {
                                    made(ffi::gemm_signature(), {{"a", n == std::string("a") ? flat : a},
                                                                 {"b", n == std::string("b") ? flat : b}});
                                  });
    CHECK(message == "gemm: " + key + ".rank is 1; allowed: 2 to 3");
  }
  CHECK(said([&] { made(ffi::fmha_signature(), {{"q", a}}); }) == "fmha: q.rank is 2; allowed: 4");
  CHECK(said([&] { made(ffi::chunk_o_signature(), {{"q", batch_a}}); }) ==
        "chunk_o: v_new is missing; allowed: a tensor");
}

TEST_CASE("with a gate a result has half as many columns as b has rows") {
  const Signature& signature = *ffi::signature_of("gemm");
  Arguments arguments(signature);
  give(arguments, "a", tensor_of(TJ_BF16, {3, 16}));
  give(arguments, "b", tensor_of(TJ_BF16, {8, 16}));
  CHECK(arguments.number("gate") == TJ_ACTIVATION_NONE);
  arguments.word(parameter(signature, "gate"), "silu");
  CHECK(arguments.number("gate") == TJ_ACTIVATION_SILU);
  CHECK(arguments.number("nothing") == 0);
  tj_tensor result{};
  signature.make(arguments, result);
  CHECK(shape_of(result) == std::vector<std::int64_t>{3, 4});
}

TEST_CASE("calls are of one kind unless something that decides kernels differs") {
  const auto kind_of = [](auto change) {
    Arguments arguments(ffi::chunk_o_signature());
    give(arguments, "q", tensor_of(TJ_BF16, {20, 2, 128}));
    give(arguments, "k", tensor_of(TJ_BF16, {20, 2, 128}));
    change(arguments);
    return arguments.kind();
  };
  const auto plain = kind_of([](Arguments&) {});
  const auto put = [](const char* name, auto set) {
    return [=](Arguments& a) { set(a, parameter(a.signature(), name)); };
  };
  const auto place = [](std::uintptr_t address) {
    return [=](Arguments& a) { give(a, "q", tensor_of(TJ_BF16, {20, 2, 128}, address)); };
  };
  CHECK(kind_of(place(4096 + 256)) == plain);  // only what kernels may ask of an address counts
  CHECK(kind_of(place(4096 + 16)) != plain);
  CHECK(kind_of(place(4096 + 128)) != plain);
  const auto whole = [](std::int64_t value) { return [=](Arguments& a, const Parameter& p) { a.whole(p, value); }; };
  const auto real = [](double value) { return [=](Arguments& a, const Parameter& p) { a.real(p, value); }; };
  std::vector<std::uint64_t> kinds = {
      plain,
      kind_of(put("seq_length", whole(64))),
      kind_of(put("seq_length", whole(std::int64_t{1} << 40))),
      kind_of(put("scale", real(0))),  // given, though its bits are those of none
      kind_of(put("scale", real(2))),
      kind_of(put("h_transposed", [](Arguments& a, const Parameter& p) { a.flag(p, true); })),
      kind_of([](Arguments& a) { give(a, "g_cu", tj_tensor{}); }),
      kind_of([](Arguments& a) { give(a, "k", tensor_of(TJ_BF16, {21, 2, 128})); }),
      kind_of([](Arguments& a) { give(a, "k", tensor_of(TJ_F16, {20, 2, 128})); })};
  std::sort(kinds.begin(), kinds.end());
  CHECK(std::adjacent_find(kinds.begin(), kinds.end()) == kinds.end());
  CHECK(Arguments(ffi::chunk_o_signature()).kind() != Arguments(ffi::fmha_signature()).kind());
}
