// Umbrella header: everything a C++ user needs.
#pragma once

#include <tilejit/custom.hpp>
#include <tilejit/error.hpp>
#include <tilejit/graph.hpp>
#include <tilejit/ops.hpp>
#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>
