// A plan as C holds it.
#pragma once

#include <tilejit/tilejit.h>

#include <vector>

#include <tilejit/plan.hpp>

struct tj_plan {
  tj::Plan plan;
  std::vector<const char*> names;
};
