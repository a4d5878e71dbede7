// Cases of reductions, and of what picks the greatest.
#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

using Ints = std::vector<int64_t>;

struct ReductionKind {
  const char* name;
  bool sums;  // parts of float32 can be added up
  Draw draw;  // far from where it has no derivative
  double epsilon;
};

constexpr ReductionKind kKinds[] = {{"ReduceSum", true, Draw::kUniform, 0.25},
                                    {"ReduceMean", true, Draw::kUniform, 0.25},
                                    {"ReduceMax", false, Draw::kApart, 0.02},
                                    {"ReduceMin", false, Draw::kApart, 0.02},
                                    {"ReduceProd", false, Draw::kPositive, 0.01},
                                    {"ReduceL1", true, Draw::kApart, 0.02},
                                    {"ReduceL2", false, Draw::kPositive, 0.01},
                                    {"ReduceLogSum", false, Draw::kPositive, 0.01},
                                    {"ReduceLogSumExp", false, Draw::kUniform, 0.01},
                                    {"ReduceSumSquare", true, Draw::kUniform, 0.05}};

// A reduction of every kind, of the last axis, of images' height and width, and of axes apart.
void add_kinds(std::vector<OperatorCase>& cases) {
  for (const ReductionKind& kind : kKinds) {
    const auto add = [&](const char* how, Ints axes, bool keep, const CaseInput& x,
                         std::vector<std::string> reduced) {
      cases.push_back({.name = std::string(kind.name) + how,
                       .op = kind.name,
                       .attributes = {{"axes", std::move(axes)}, {"keepdims", int64_t{keep}}},
                       .inputs = {x},
                       .epsilon = kind.epsilon,
                       .whole_axes = kind.sums ? std::vector<std::string>{} : std::move(reduced)});
    };
    add("", {-1}, false, activation({kBatch, 3, 5}, kind.draw), {"features"});
    add("_of_space", {2, 3}, true, activation({kBatch, 3, 2, 4}, kind.draw), {"axis 2", "axis 3"});
    add("_of_axes_apart", {0, 2}, true, parameter({3, 4, 5, 2}, kind.draw), {"axis 0", "axis 2"});
  }
}

void add_other_types(std::vector<OperatorCase>& cases) {
  const auto add = [&](std::string name, std::string op, DType type, int64_t count) {
    cases.push_back({.name = std::move(name),
                     .op = std::move(op),
                     .attributes = {{"axes", Ints{1}}, {"keepdims", int64_t{0}}},
                     .inputs = {{{type, {kBatch, 20}}, Role::kInput, Draw::kClass, count}},
                     .whole_axes = {"features"}});
  };
  add("ReduceSum_of_integers", "ReduceSum", DType::kInt64, 1000);
  add("ReduceMean_of_integers", "ReduceMean", DType::kInt32, 1000);
  add("ReduceProd_of_integers", "ReduceProd", DType::kInt64, 2);
  add("ReduceMax_of_bytes", "ReduceMax", DType::kUint8, 250);
  add("ReduceMin_of_flags", "ReduceMin", DType::kBool, 2);
  add("ReduceL2_of_doubles", "ReduceL2", DType::kFloat64, 10);
}

void add_special(std::vector<OperatorCase>& cases) {
  cases.push_back({.name = "ReduceSum_of_everything",
                   .op = "ReduceSum",
                   .attributes = {{"keepdims", int64_t{0}}},
                   .inputs = {parameter({3, 4})}});
  cases.push_back({.name = "ReduceSumSquare_of_no_axes",
                   .op = "ReduceSumSquare",
                   .attributes = {{"noop_with_empty_axes", int64_t{1}}},
                   .inputs = {activation({kBatch, 4, 3, 2})},
                   .epsilon = 0.05});
  cases.push_back({.name = "ReduceMean_of_pixels_without_their_axes",
                   .op = "ReduceMean",
                   .attributes = {{"axes", Ints{-1, -2}}, {"keepdims", int64_t{0}}},
                   .inputs = {activation({kBatch, 3, 2, 4})}});
  cases.push_back({.name = "ReduceMax_of_channels",
                   .op = "ReduceMax",
                   .attributes = {{"axes", Ints{1}}, {"keepdims", int64_t{0}}},
                   .inputs = {activation({kBatch, 4, 2, 3}, Draw::kApart)},
                   .epsilon = 0.02,
                   .whole_axes = {"features"}});
}

void add_picks(std::vector<OperatorCase>& cases) {
  CaseInput scores = activation({kBatch, 5, 3});
  scores.role = Role::kInput;
  for (const char* op : {"ArgMax", "ArgMin"})
    cases.push_back({.name = op,
                     .op = op,
                     .attributes = {{"axis", int64_t{1}}},
                     .inputs = {scores},
                     .whole_axes = {"axis 1"}});
  cases.push_back({.name = "ArgMax_the_last_of_equals",
                   .op = "ArgMax",
                   .attributes = {{"axis", int64_t{-1}},
                                  {"keepdims", int64_t{0}},
                                  {"select_last_index", int64_t{1}}},
                   .inputs = {{{DType::kInt8, {kBatch, 3, 9}}, Role::kInput, Draw::kClass, 3}},
                   .whole_axes = {"features"}});
  cases.push_back({.name = "TopK",
                   .op = "TopK",
                   .attributes = {{"k", int64_t{3}}},
                   .inputs = {activation({kBatch, 2, 7}, Draw::kApart)},
                   .outputs = 2,
                   .epsilon = 0.02,
                   .whole_axes = {"features"}});
  cases.push_back({.name = "TopK_of_the_smallest",
                   .op = "TopK",
                   .attributes = {{"k", int64_t{2}}, {"axis", int64_t{0}}, {"largest", int64_t{0}}},
                   .inputs = {parameter({6, 4}, Draw::kApart)},
                   .outputs = 2,
                   .epsilon = 0.02,
                   .whole_axes = {"axis 0"}});
  cases.push_back({.name = "TopK_of_integers",
                   .op = "TopK",
                   .attributes = {{"k", int64_t{4}}, {"axis", int64_t{1}}},
                   .inputs = {{{DType::kInt64, {kBatch, 9}}, Role::kInput, Draw::kClass, 5}},
                   .outputs = 2,
                   .whole_axes = {"features"}});
}

}  // namespace

std::vector<OperatorCase> reduction_cases() {
  std::vector<OperatorCase> cases;
  add_kinds(cases);
  add_other_types(cases);
  add_special(cases);
  add_picks(cases);
  return cases;
}

}  // namespace kerf::ops
