// All ops of the library: a header each.
#pragma once

#include <tilejit/chunk_cumsum.hpp>
#include <tilejit/chunk_indices.hpp>
#include <tilejit/chunk_o.hpp>
#include <tilejit/chunk_solve.hpp>
#include <tilejit/chunk_states.hpp>
#include <tilejit/chunk_wu.hpp>
#include <tilejit/combine.hpp>
#include <tilejit/fmha.hpp>
#include <tilejit/gated_delta_rule.hpp>
#include <tilejit/gemm.hpp>
#include <tilejit/grouped_gemm.hpp>
#include <tilejit/merge_states.hpp>
#include <tilejit/quantise.hpp>
