#include "ops/operators/rotary_embedding.h"

#include "ops/samples_axis.h"

namespace kerf::ops {
namespace {

enum RotaryInput : int { kTurned, kCosines, kSines, kPositions };

}  // namespace

RotaryEmbedding::RotaryEmbedding(const NodeFacts& facts)
    : BoundOperator("RotaryEmbedding", facts),
      side_by_side_(shape(0).rank() == 3),
      interleaved_(attribute_int(facts.attributes, "interleaved", 0) != 0) {
  for (const int i : {kTurned, kCosines, kSines})
    want_float32("RotaryEmbedding", input(i), "X and the caches");
  const Shape& x = shape(0);
  const int64_t heads = side_by_side_   ? attribute_int(facts.attributes, "num_heads", 0)
                        : x.rank() == 4 ? x[1]
                                        : 0;
  if (heads < 1 || (side_by_side_ && x[2] % heads != 0))
    throw Error(ErrorCode::kUsage,
                format("RotaryEmbedding wants X [N, H, T, d], or [N, T, H * d] with num_heads H, "
                       "not {} with {} heads",
                       to_string(x), heads));
  width_ = side_by_side_ ? x[2] / heads : x[3];
  const int64_t said = attribute_int(facts.attributes, "rotary_embedding_dim", 0);
  turned_ = said == 0 ? width_ : said;
  if (turned_ < 2 || turned_ > width_ || turned_ % 2 != 0)
    throw Error(ErrorCode::kUsage,
                format("RotaryEmbedding cannot turn {} of a head's {} numbers", turned_, width_));
  const int64_t positions = side_by_side_ ? x[1] : x[2];
  check_caches(x[0], positions);
  if (input(kTurned).in_weight_gradient() || input(kCosines).wants_gradient ||
      input(kSines).wants_gradient)
    throw Error(ErrorCode::kUsage, "RotaryEmbedding has a gradient of X only, as an activation");
  space_.axes = {samples_axis(x[0]),
                 {AxisKind::kFeature, "heads", heads},
                 {AxisKind::kSpace, "positions", positions},
                 {AxisKind::kOther, "width", width_, 1, false, "pairs of a head are turned"}};
  const OperandMap image =
      side_by_side_ ? operand_axes({{0}, {2}, {1, 3}}) : operand_axes({{0}, {1}, {2}, {3}});
  const OperandMap cache = has(kPositions) ? operand_axes({{}, {}}) : operand_axes({{0}, {2}, {}});
  space_.inputs = {image, cache, cache};
  if (inputs().size() > 3)
    space_.inputs.push_back(has(kPositions) ? operand_axes({{0}, {2}}) : OperandMap{});
  space_.outputs = {image};
  outputs_ = {input(0).spec};
}

void RotaryEmbedding::check_caches(int64_t samples, int64_t positions) const {
  const Shape& cosines = shape(kCosines);
  bool fits = cosines == shape(kSines);
  if (has(kPositions))
    fits = fits && cosines.rank() == 2 && cosines[0] >= 1 && cosines[1] == turned_ / 2 &&
           shape(kPositions) == Shape{samples, positions} &&
           input(kPositions).spec.dtype == DType::kInt64;
  else
    fits = fits && cosines == Shape{samples, positions, turned_ / 2};
  if (!fits)
    throw Error(ErrorCode::kUsage,
                format("RotaryEmbedding of {} wants caches [N, T, {}], or [P, {}] with int64 "
                       "position_ids [N, T], not {} and {}",
                       to_string(shape(0)), turned_ / 2, turned_ / 2, to_string(cosines),
                       to_string(shape(kSines))));
}

Cost RotaryEmbedding::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.outputs[0].shape.elements());
  return {3 * n, 3 * n, 0, 8 * n, 8 * n, 0};
}

BackwardReads RotaryEmbedding::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {kCosines, kSines};
  if (has(kPositions)) reads.inputs_for_input_gradient.push_back(kPositions);
  return reads;
}

OperatorDefinitions define_rotary_embedding() {
  return {{.name = "RotaryEmbedding",
           .inputs = {{"X"},
                      {"cos_cache"},
                      {"sin_cache"},
                      {"position_ids", FormalOperand::Count::kOptional}},
           .outputs = {{"Y"}},
           .attributes = {{"interleaved"}, {"num_heads"}, {"rotary_embedding_dim"}},
           .bind = bind_as<RotaryEmbedding>,
           .first_opset = 23}};
}

}  // namespace kerf::ops
