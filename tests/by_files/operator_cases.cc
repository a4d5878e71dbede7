// The rows of the suite for the operator that lies in this folder.
#include "tests/conformance/operator_case.h"

namespace kerf::ops {

std::vector<OperatorCase> operator_cases() {
  const auto scene = [](std::string name, Attributes attributes, const CaseInput& x,
                        const CaseInput& factors) {
    return OperatorCase{.name = std::move(name),
                        .op = "ChannelScale",
                        .attributes = std::move(attributes),
                        .inputs = {x, factors}};
  };
  return {
      scene("Images", {}, activation({kBatch, 4, 3, 2}), parameter({4})),
      scene("Rows", {}, activation({kBatch, 7}), parameter({7})),
      scene("The_last_axis", {{"axis", int64_t{-1}}}, activation({kBatch, 3, 5}), parameter({5})),
      scene("Before_the_batch", {{"axis", int64_t{0}}}, activation({4, kBatch, 3}), parameter({4})),
      scene("Factors_that_are_computed", {}, activation({kBatch, 4, 3}), activation({4}))};
}

}  // namespace kerf::ops
