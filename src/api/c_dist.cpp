// Groups of ranks in C.
#include <tilejit/tilejit.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tilejit/dist.hpp>

#include "api/c_errors.hpp"
#include "api/c_runtime.hpp"
#include "ops/fmha/fmha.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/c_structs.hpp"
#include "support/fail.hpp"

struct tj_group {
  tj::dist::Group member;
  std::string description = {};  ///< that was asked for last
};

namespace {

using namespace tj::c_api;
using namespace tj::support::c_structs;
using tj::support::cat;

tj::dist::Group& member_of(tj_group* group) {
  if (group == nullptr) refuse("group is null; allowed: what tj_group_create() or one of its like gave");
  return group->member;
}

std::vector<std::int64_t> lengths_of(const std::int64_t* lengths, std::uint64_t count) {
  if (lengths == nullptr && count != 0)
    refuse(cat("lengths is null and lengths_count is ", count, "; allowed: 0 of them"));
  return lengths == nullptr ? std::vector<std::int64_t>() : std::vector<std::int64_t>(lengths, lengths + count);
}

template <class Args>
Args to_product(const tj_split_gemm_args* given) {
  if (given == nullptr) refuse("args is null; allowed: the address of a tj_split_gemm_args");
  const tj_split_gemm_args a = read(given, "args");
  if (a.product == nullptr) refuse("args.product is null; allowed: the address of a tj_gemm_args");
  return {tj::ops::gemm_from_c(a.product), lengths_of(a.lengths, a.lengths_count)};
}

tj::dist::ContextDecodeArgs to_decode(const tj_context_decode_args* given) {
  if (given == nullptr) refuse("args is null; allowed: the address of a tj_context_decode_args");
  const tj_context_decode_args a = read(given, "args");
  if (a.attention == nullptr) refuse("args.attention is null; allowed: the address of a tj_fmha_args");
  return {tj::ops::fmha_from_c(a.attention)};
}

tj::dist::ContextFmhaArgs to_args(const tj_context_fmha_args* given) {
  if (given == nullptr) refuse("args is null; allowed: the address of a tj_context_fmha_args");
  const tj_context_fmha_args a = read(given, "args");
  tj::dist::ContextFmhaArgs args;
  args.q = to_tensor(a.q, "q");
  args.k = to_tensor(a.k, "k");
  args.v = to_tensor(a.v, "v");
  args.o = to_tensor(a.o, "o");
  const auto optional = [](std::optional<tj::Tensor>& into, const tj_tensor* from, const char* name) {
    if (from != nullptr) into = to_tensor(from, name);
  };
  optional(args.lse, a.lse, "lse");
  optional(args.alibi_slopes, a.alibi_slopes, "alibi_slopes");
  optional(args.sinks, a.sinks, "sinks");
  optional(args.cu_seqlens, a.cu_seqlens, "cu_seqlens");
  args.lengths = lengths_of(a.lengths, a.lengths_count);
  if (a.has_window != 0) args.window = {a.window_left, a.window_right};
  if (a.has_scale != 0) args.scale = a.scale;
  args.causal = a.causal != 0;
  args.split =
      to_enum<tj::dist::Split>(a.split, TJ_SPLIT_STRIPED, "args.split", "0 (contiguous), 1 (zigzag), 2 (striped)");
  args.exchange =
      to_enum<tj::dist::Exchange>(a.exchange, TJ_EXCHANGE_HEADS, "args.exchange", "0 (auto), 1 (keys), 2 (heads)");
  check_reserved(a.reserved);
  args.max_sms = a.max_sms;
  args.softcap = a.softcap;
  args.heads_first = a.heads_first != 0;
  return args;
}

void give(tj::dist::Group member, tj_group** out) {
  *out = std::make_unique<tj_group>(tj_group{std::move(member)}).release();
}

}  // namespace

extern "C" {

tj_status tj_group_unique_id(void* id) {
  return guarded([&] {
    need(id, "id");
    const std::string made = tj::dist::Group::unique_id();
    std::memcpy(id, made.data(), made.size());
  });
}

tj_status tj_group_create(tj_runtime* runtime, const void* id, int32_t rank, int32_t ranks, tj_device device,
                          tj_group** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    need(id, "id");
    const std::string text(static_cast<const char*>(id), TJ_GROUP_ID_BYTES);
    give(tj::dist::Group(runtime_of(runtime), text, rank, ranks, to_device(device, "device")), out);
  });
}

tj_status tj_group_of_comm(tj_runtime* runtime, void* nccl_comm, tj_device device, tj_group** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    give(tj::dist::Group(runtime_of(runtime), nccl_comm, to_device(device, "device")), out);
  });
}

tj_status tj_group_on_model(tj_runtime* runtime, int32_t ranks, tj_group** out) {
  return guarded([&] {
    need(out, "out");
    for (std::int32_t r = 0; r < ranks && r < 1024; ++r) out[r] = nullptr;
    std::vector<std::unique_ptr<tj_group>> made;
    for (tj::dist::Group& member : tj::dist::Group::on_model(runtime_of(runtime), ranks))
      made.push_back(std::make_unique<tj_group>(tj_group{std::move(member)}));
    for (std::size_t r = 0; r < made.size(); ++r) out[r] = made[r].release();
  });
}

void tj_group_destroy(tj_group* group) { delete group; }

tj_status tj_group_prepare(tj_group* group, const tj_context_fmha_args* args) {
  return guarded([&] { member_of(group).prepare(to_args(args)); });
}

tj_status tj_group_fmha(tj_group* group, const tj_context_fmha_args* args, void* stream) {
  return guarded([&] { member_of(group).fmha(to_args(args), tj::Stream{stream}); });
}

tj_status tj_group_prepare_decode(tj_group* group, const tj_context_decode_args* args) {
  return guarded([&] { member_of(group).prepare(to_decode(args)); });
}

tj_status tj_group_decode(tj_group* group, const tj_context_decode_args* args, void* stream) {
  return guarded([&] { member_of(group).decode(to_decode(args), tj::Stream{stream}); });
}

tj_status tj_group_prepare_all_gather_gemm(tj_group* group, const tj_split_gemm_args* args) {
  return guarded([&] { member_of(group).prepare(to_product<tj::dist::AllGatherGemmArgs>(args)); });
}

tj_status tj_group_all_gather_gemm(tj_group* group, const tj_split_gemm_args* args, void* stream) {
  return guarded(
      [&] { member_of(group).all_gather_gemm(to_product<tj::dist::AllGatherGemmArgs>(args), tj::Stream{stream}); });
}

tj_status tj_group_prepare_gemm_reduce_scatter(tj_group* group, const tj_split_gemm_args* args) {
  return guarded([&] { member_of(group).prepare(to_product<tj::dist::GemmReduceScatterArgs>(args)); });
}

tj_status tj_group_gemm_reduce_scatter(tj_group* group, const tj_split_gemm_args* args, void* stream) {
  return guarded([&] {
    member_of(group).gemm_reduce_scatter(to_product<tj::dist::GemmReduceScatterArgs>(args), tj::Stream{stream});
  });
}

tj_status tj_group_check(tj_group* group) {
  return guarded([&] { member_of(group).check(); });
}

tj_status tj_group_description(tj_group* group, const char** out) {
  return guarded([&] {
    if (out == nullptr) refuse("out is null; allowed: the address of a const char*");
    const std::string text = member_of(group).description();
    group->description = text;
    *out = group->description.c_str();
  });
}

}  // extern "C"
