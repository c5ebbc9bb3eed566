// Changes of scores by a user's call: texts score_mod, mask_mod and key_range with their buffer, and a bias.
//
// Decides which texts may stand in a call, how they become a kernel's fields, its name and functions of its Config, and
// what the device is told. Does not decide what is asked of them when (kernel_templates/ops/fmha/mods.cuh, score.cuh).
// Invariant: kernels whose texts differ have keys, requests and names that differ.
#pragma once

#include <span>
#include <string>

#include <tilejit/fmha.hpp>

#include "graph/graph.hpp"
#include "ops/common/op_flags.hpp"
#include "ops/common/own_texts.hpp"
#include "ops/fmha/params.cuh"
#include "ops/fmha/validate.hpp"
#include "ops/op.hpp"

namespace tj::ops {

/// Does a call or a kernel have texts, or numbers of its own for scores?
template <class Fields>
bool has_mods(const Fields& of) {
  return of.score_mod.given() || of.mask_mod.given() || of.key_range.given();
}
inline bool has_bias(const FmhaArgs& args) { return args.bias.has_value(); }
inline bool has_bias(const FmhaConfig& config) { return config.bias != FmhaBias::none; }
/// Scores that a user makes may be of any size and sign.
template <class Fields>
bool makes_scores(const Fields& of) {
  return of.score_mod.given() || has_bias(of);
}

/// The set of texts of a kernel in one number, 0 without. Allocates where a set is new. Throws tj::Error(argument) for
/// more sets than the hot key has numbers for.
unsigned mods_number(const FmhaConfig& config);
void set_mods_number(FmhaConfig& config, unsigned number);
/// An empty word for each set that there is, and one for none: requests have the texts.
std::span<const char* const> mods_words();

/// Sets the fields of a kernel that a call asks for.
void set_mods(FmhaConfig& config, const FmhaArgs& args);
/// Sets the members of the kernel's parameter.
void set_mods(fmha::Params& params, const FmhaArgs& args);

/// Throws tj::Error(argument, invalid_argument) naming the text, and why it cannot be compiled.
void check_mods(const FmhaConfig& config);
/// Checks of a call's texts, their buffer and its bias. Passing allocates nothing.
void check_mods(const FmhaArgs& args, const FmhaBeside& of, Size batch, Size heads, bool varlen);

/// "_own0123456789abcdef" of a kernel with texts, else nothing.
std::string mods_tag(const FmhaConfig& config);
/// The fields of a request.
TextFields mods_fields(const FmhaConfig& config);
/// Reads those of a request; others are left alone.
void read_mods(FmhaConfig& config, const TextFields& fields);
/// Takes --score-mod, --mask-mod and --key-range out of `flags`, and sets them in kernels.
FmhaConfig take_mods(Flags& flags);
/// Constants and functions of Config.
void add_mods(graph::Graph& graph, const FmhaConfig& config);

/// Work for each score and registers throughout, estimated from the texts.
int mods_operations(const FmhaConfig& config);
int mods_registers(const FmhaConfig& config);

}  // namespace tj::ops
