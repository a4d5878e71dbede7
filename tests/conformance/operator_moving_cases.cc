// Cases of what reads, moves, picks and repeats elements.
#include <cstring>

#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

using Ints = std::vector<int64_t>;

// Numbers of another type, which has no gradient.
CaseInput values_of(DType dtype, const Shape& shape, int64_t count = 2) {
  return {{dtype, shape}, Role::kInput, Draw::kClass, count};
}

class Cases {
 public:
  void add(std::string name, std::string op, Attributes attributes, std::vector<CaseInput> inputs,
           std::vector<std::string> whole_axes = {}) {
    cases_.push_back({.name = std::move(name),
                      .op = std::move(op),
                      .attributes = std::move(attributes),
                      .inputs = std::move(inputs),
                      .whole_axes = std::move(whole_axes)});
  }
  OperatorCase& last() { return cases_.back(); }
  std::vector<OperatorCase> take() { return std::move(cases_); }

 private:
  std::vector<OperatorCase> cases_;
};

void add_alias_cases(Cases& cases) {
  cases.add("Squeeze", "Squeeze", {{"axes", Ints{-1, 1}}}, {activation({kBatch, 1, 5, 3, 1})});
  cases.add("Squeeze_of_all_that_is_one", "Squeeze", {}, {parameter({1, 4, 1})});
  cases.add("Unsqueeze", "Unsqueeze", {{"axes", Ints{1, -1}}}, {activation({kBatch, 5, 3})});
  cases.add("Unsqueeze_of_flags", "Unsqueeze", {{"axes", Ints{0}}},
            {values_of(DType::kBool, {kBatch, 4})});
  cases.add("Identity", "Identity", {}, {activation({kBatch, 4, 3})});
  cases.add("Identity_of_bytes", "Identity", {}, {values_of(DType::kUint8, {4, 3}, 200)});
  cases.add("Reshape_of_integers", "Reshape", {{"shape", Ints{0, 2, -1}}},
            {values_of(DType::kInt64, {kBatch, 6}, 50)});
  cases.add("Reshape_to_axes_that_fit_in_part", "Reshape", {{"shape", Ints{0, 2, 6, 6}}},
            {activation({kBatch, 8, 9})}, {"axis 1", "axis 2"});
  cases.add("Reshape_from_axes_that_fit_in_part", "Reshape", {{"shape", Ints{0, 8, 9}}},
            {activation({kBatch, 2, 6, 6})}, {"axis 1", "axis 2"});
  cases.add("Reshape_without_an_element", "Reshape",
            {{"shape", Ints{3, 4, 0}}, {"allowzero", int64_t{1}}},
            {values_of(DType::kInt64, {0, 3, 4})}, {"axis 0", "axis 1", "axis 2"});
}

void add_slice_cases(Cases& cases) {
  cases.add("Slice", "Slice",
            {{"starts", Ints{1, -3}}, {"ends", Ints{5, 1000}}, {"axes", Ints{1, 2}}},
            {activation({kBatch, 7, 4, 3})});
  cases.add("Slice_of_the_first_axes", "Slice", {{"starts", Ints{0, 2}}, {"ends", Ints{4, -1}}},
            {parameter({5, 6})});
  cases.add("Slice_by_steps", "Slice",
            {{"starts", Ints{1, -1}},
             {"ends", Ints{100, -100}},
             {"axes", Ints{1, 2}},
             {"steps", Ints{2, -1}}},
            {activation({kBatch, 7, 4})}, {"axis 1", "features"});
  cases.add("Slice_of_every_other_channel", "Slice",
            {{"starts", Ints{1}}, {"ends", Ints{100}}, {"axes", Ints{1}}, {"steps", Ints{2}}},
            {activation({kBatch, 7, 2, 3})}, {"features"});
  cases.add("Slice_backwards_by_steps", "Slice",
            {{"starts", Ints{6}}, {"ends", Ints{0}}, {"axes", Ints{-1}}, {"steps", Ints{-2}}},
            {parameter({3, 8})}, {"features"});
  cases.add("Slice_of_the_whole_batch", "Slice",
            {{"starts", Ints{0, 1}}, {"ends", Ints{int64_t{1} << 62, 3}}, {"axes", Ints{0, 1}}},
            {activation({kBatch, 4})});
  cases.add("Slice_of_integers", "Slice",
            {{"starts", Ints{1}}, {"ends", Ints{3}}, {"axes", Ints{1}}},
            {values_of(DType::kInt16, {kBatch, 4, 2}, 300)});
}

void add_pad_cases(Cases& cases) {
  cases.add("Pad", "Pad", {{"pads", Ints{0, 0, 1, 2, 0, 0, 3, 0}}, {"value", 1.5}},
            {activation({kBatch, 3, 4, 5})});
  cases.add("Pad_of_features", "Pad", {{"pads", Ints{2, 1}}, {"axes", Ints{-2}}},
            {activation({kBatch, 4, 3})});
  cases.add("Pad_that_takes_away", "Pad", {{"pads", Ints{-1, 2, 1, -2}}, {"axes", Ints{0, 1}}},
            {parameter({5, 6})});
  const auto mode = [&](std::string name, const char* how, Ints pads) {
    cases.add(std::move(name), "Pad",
              {{"pads", std::move(pads)}, {"axes", Ints{2, 3}}, {"mode", how}},
              {activation({kBatch, 2, 4, 3})}, {"axis 2", "axis 3"});
  };
  mode("Pad_by_reflection", "reflect", {3, 1, 2, 2});
  mode("Pad_by_reflection_again_and_again", "reflect", {9, 1, 2, 7});
  mode("Pad_by_the_edge", "edge", {3, 1, 0, 2});
  mode("Pad_by_wrapping", "wrap", {3, 1, 9, -1});
  cases.add("Pad_of_integers", "Pad", {{"pads", Ints{0, 1, 0, 2}}, {"value", 7.0}},
            {values_of(DType::kInt32, {kBatch, 4}, 9)});
  for (const DType half : {DType::kFloat16, DType::kBFloat16})
    cases.add(std::string("Pad_of_") + std::string(to_string(half)), "Pad",
              {{"pads", Ints{0, 1, 0, 2}}, {"value", -1.5}},
              {numbers(half, {kBatch, 4}, Draw::kHalves)});
  cases.add("Pad_of_flags", "Pad", {{"pads", Ints{0, 1, 0, 2}}, {"value", 1.0}},
            {values_of(DType::kBool, {kBatch, 4})});
}

void add_repeating_cases(Cases& cases) {
  cases.add("Expand", "Expand", {{"shape", Ints{1, 3, 4, 1}}}, {activation({kBatch, 1, 4, 2})});
  cases.add("Expand_of_a_row_to_the_batch", "Expand", {{"shape", Ints{-1, 1, 5}}},
            {parameter({1, 2, 5})});
  cases.add("Expand_of_a_vector", "Expand", {{"shape", Ints{3, 1, 5}}}, {parameter({4, 1})});
  cases.add("Expand_of_integers", "Expand", {{"shape", Ints{3, 1, 2}}},
            {values_of(DType::kInt64, {kBatch, 1}, 100)});
  cases.add("Tile", "Tile", {{"repeats", Ints{1, 2, 3}}}, {activation({kBatch, 4, 1})});
  cases.add("Tile_of_a_parameter", "Tile", {{"repeats", Ints{2, 3}}}, {parameter({3, 4})});
  cases.add("Tile_of_doubles", "Tile", {{"repeats", Ints{1, 2}}},
            {values_of(DType::kFloat64, {kBatch, 3}, 40)});
  for (const char* mode : {"DCR", "CRD"}) {
    const Attributes attributes{{"blocksize", int64_t{2}}, {"mode", mode}};
    cases.add(std::string("DepthToSpace_") + mode, "DepthToSpace", attributes,
              {activation({kBatch, 12, 2, 3})});
    cases.add(std::string("SpaceToDepth_") + mode, "SpaceToDepth", attributes,
              {activation({kBatch, 3, 4, 6})});
  }
  cases.add("Transpose_of_bytes", "Transpose", {{"perm", Ints{2, 0, 1}}},
            {values_of(DType::kUint8, {kBatch, 19, 20}, 250)});
  cases.add("Transpose_of_a_scalar", "Transpose", {}, {parameter({})});
}

void add_joining_cases(Cases& cases) {
  cases.add("Split_with_a_smaller_end", "Split",
            {{"axis", int64_t{1}}, {"num_outputs", int64_t{3}}}, {activation({kBatch, 8, 3})});
  cases.last().outputs = 3;
  cases.add("Split_of_integers_with_nothing_in_one", "Split",
            {{"axis", int64_t{-1}}, {"split", Ints{2, 0, 1}}},
            {values_of(DType::kInt64, {kBatch, 4, 3}, 90)});
  cases.last().outputs = 3;
  cases.add("Concat_of_flags", "Concat", {{"axis", int64_t{1}}},
            {values_of(DType::kBool, {kBatch, 2}), values_of(DType::kBool, {kBatch, 3})});
}

void add_picking_cases(Cases& cases) {
  const Attributes second{{"axis", int64_t{1}}};
  CaseInput narrow = classes({kBatch, 2}, 5);
  narrow.spec.dtype = DType::kInt32;
  cases.add("Gather_of_integers", "Gather", second,
            {values_of(DType::kInt64, {3, 5, 2}, 900), narrow}, {"vocabulary"});
  cases.add("Gather_of_one_index", "Gather", second, {activation({kBatch, 5, 2}), classes({}, 5)});
  cases.add("GatherElements", "GatherElements", second,
            {activation({kBatch, 6, 3}), classes({kBatch, 4, 2}, 6)});
  cases.add("GatherElements_of_a_parameter", "GatherElements", {},
            {parameter({4, 3}), classes({5, 3}, 4)});
  cases.add("GatherElements_of_bytes", "GatherElements", second,
            {values_of(DType::kUint8, {kBatch, 6}, 250), classes({kBatch, 4}, 6)}, {"vocabulary"});
  cases.add("GatherND", "GatherND", {}, {parameter({4, 3, 2}), classes({kBatch, 5, 2}, 3)});
  cases.add("GatherND_by_sample", "GatherND", {{"batch_dims", int64_t{1}}},
            {activation({kBatch, 4, 3}), classes({kBatch, 5, 1}, 4)});
  cases.add("Compress", "Compress", {{"axis", int64_t{1}}, {"condition", Ints{0, 1, 1, 0, 1}}},
            {activation({kBatch, 6, 2})}, {"axis 1"});
  cases.add("Compress_in_one_stretch", "Compress",
            {{"axis", int64_t{-1}}, {"condition", Ints{0, 1, 1}}}, {parameter({3, 5})});
  TensorLiteral pair{DType::kFloat32, {2}, std::string(8, '\0')};
  const float values[] = {-1, 2};
  std::memcpy(pair.bytes.data(), values, sizeof values);
  cases.add("OneHot", "OneHot", {{"depth", int64_t{4}}, {"values", pair}, {"axis", int64_t{1}}},
            {classes({kBatch, 3}, 6)});
}

void add_putting_cases(Cases& cases) {
  cases.add("ScatterElements", "ScatterElements", {{"axis", int64_t{1}}},
            {activation({kBatch, 5, 3}), classes({kBatch, 4, 2}, 5), activation({kBatch, 4, 2})});
  cases.add("ScatterElements_added", "ScatterElements", {{"reduction", "add"}},
            {parameter({4, 3}), classes({6, 2}, 4), parameter({6, 2})});
  cases.add("ScatterElements_of_the_greatest", "ScatterElements",
            {{"axis", int64_t{1}}, {"reduction", "max"}},
            {values_of(DType::kInt32, {kBatch, 5}, 90), classes({kBatch, 7}, 5),
             values_of(DType::kInt32, {kBatch, 7}, 90)});
  cases.add("ScatterND", "ScatterND", {},
            {parameter({7, 3, 2}), classes({5, 1}, 7), parameter({5, 3, 2})});
  cases.add("ScatterND_added", "ScatterND", {{"reduction", "add"}},
            {parameter({4, 3, 2}), classes({5, 2}, 3), parameter({5, 2})});
  cases.add(
      "ScatterND_multiplied", "ScatterND", {{"reduction", "mul"}},
      {values_of(DType::kInt64, {4, 3}, 9), classes({5, 2}, 3), values_of(DType::kInt64, {5}, 9)});
}

void add_ordered_cases(Cases& cases) {
  cases.add("Trilu", "Trilu", {{"k", int64_t{1}}}, {activation({kBatch, 4, 6})});
  cases.add("Trilu_lower", "Trilu", {{"upper", int64_t{0}}, {"k", int64_t{-1}}},
            {parameter({5, 4})});
  cases.add("Trilu_of_integers", "Trilu", {}, {values_of(DType::kInt64, {kBatch, 3, 3}, 9)});
  cases.add("EyeLike", "EyeLike", {{"dtype", int64_t{1}}, {"k", int64_t{1}}},
            {values_of(DType::kInt32, {4, 6})});
  cases.add("CumSum", "CumSum", {{"axis", int64_t{1}}}, {activation({kBatch, 5, 3})}, {"axis 1"});
  cases.add("CumSum_from_the_end", "CumSum",
            {{"axis", int64_t{-1}}, {"reverse", int64_t{1}}, {"exclusive", int64_t{1}}},
            {parameter({4, 6})}, {"features"});
  cases.add("CumSum_of_integers", "CumSum", {{"axis", int64_t{1}}},
            {values_of(DType::kInt32, {kBatch, 5}, 50)}, {"features"});
  cases.add("ReverseSequence", "ReverseSequence", {},
            {activation({5, kBatch, 3}), classes({kBatch}, 6)}, {"axis 0"});
  cases.add("ReverseSequence_samples_first", "ReverseSequence",
            {{"batch_axis", int64_t{0}}, {"time_axis", int64_t{1}}},
            {activation({kBatch, 5}), classes({kBatch}, 6)}, {"features"});
}

}  // namespace

std::vector<OperatorCase> moving_cases() {
  Cases cases;
  add_alias_cases(cases);
  add_slice_cases(cases);
  add_pad_cases(cases);
  add_repeating_cases(cases);
  add_joining_cases(cases);
  add_picking_cases(cases);
  add_putting_cases(cases);
  add_ordered_cases(cases);
  return cases.take();
}

}  // namespace kerf::ops
