// Umbrella header: everything a C++ user needs.
//
// From 0.2.0 on the C++ interface is stable as source: a program that compiles with one version compiles with each
// later 0.x. It must be compiled again for each minor version; version.hpp sees to that. The C interface (tilejit.h) is
// stable as binary.
// Documents that comments name, such as src/graph/README.md, lie in the sources, and below share/doc/tilejit of an
// installed tree.
#pragma once

#include <tilejit/custom.hpp>
#include <tilejit/dist.hpp>
#include <tilejit/error.hpp>
#include <tilejit/graph.hpp>
#include <tilejit/graph_examples.hpp>
#include <tilejit/ops.hpp>
#include <tilejit/preparation.hpp>
#include <tilejit/runtime.hpp>
#include <tilejit/tensor.hpp>
#include <tilejit/version.hpp>
