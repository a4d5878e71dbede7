// One small case of an operator for the conformance suite: what to feed it, and what to expect.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/operator.h"

namespace kerf::ops {

// How a case's input is drawn. Finite differences need distance from kinks, hence kApart.
enum class Draw : uint8_t {
  kUniform,  // in [-1, 1)
  kApart,    // a shuffled ladder without 0: no two closer than 0.1, none closer than 0.05 to 0
  kClass,    // int64 in [0, classes)
};

struct CaseInput {
  ValueSpec spec;  // kBatch for the samples
  bool parameter = false;
  Draw draw = Draw::kUniform;
  int64_t classes = 0;
};

struct OperatorCase {
  std::string name;  // of the case, for the test's name
  std::string op;
  Attributes attributes{};
  std::vector<CaseInput> inputs{};
  int64_t samples = 3;
  double epsilon = 0.25;  // of finite differences; any will do for what is linear
  bool divides = true;    // its feature axis can be divided
  int64_t unit = 1;       // indices that must stay together there
};

std::vector<OperatorCase> operator_cases();

}  // namespace kerf::ops
