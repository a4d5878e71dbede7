#include "ops/operators/reduce.h"

#include <algorithm>
#include <array>

#include "ops/operators/indices.h"

namespace kerf::ops {
namespace {

constexpr std::array<const char*, 10> kReductions = {
    "ReduceSum", "ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceProd",
    "ReduceL1",  "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};

bool is_summed(Reduction kind) {
  return kind == Reduction::kSum || kind == Reduction::kMean || kind == Reduction::kL1 ||
         kind == Reduction::kSumSquare;
}

std::string undivided_reason(Reduction kind, DType type) {
  if (is_summed(kind))
    return type == DType::kFloat32 ? "" : "parts are put together by adding, which is of float32";
  if (kind == Reduction::kMax || kind == Reduction::kMin || kind == Reduction::kProd)
    return "parts are put together by adding only";
  return "the root or logarithm is of the whole sum";
}

void check_reduced_type(std::string_view op, Reduction kind, const Operand& data) {
  const DType type = data.spec.dtype;
  const bool analytic =
      kind == Reduction::kL2 || kind == Reduction::kLogSum || kind == Reduction::kLogSumExp;
  const bool extreme = kind == Reduction::kMax || kind == Reduction::kMin;
  const bool known = type == DType::kFloat32 || type == DType::kFloat64 ||
                     (!analytic && !is_floating(type) && (extreme || type != DType::kBool));
  if (!known) throw Error(ErrorCode::kUsage, format("{} is not made of {}", op, to_string(type)));
  if (data.wants_gradient && type != DType::kFloat32)
    throw Error(ErrorCode::kUsage,
                format("{} has gradients of float32, not of {}", op, to_string(type)));
}

// Of each axis, whether it is reduced.
std::vector<bool> reduced_axes(std::string_view op, const NodeFacts& facts) {
  const Shape& shape = facts.inputs[0].spec.shape;
  const auto wanted = attribute_ints(facts.attributes, "axes", {});
  const bool all =
      wanted.empty() && attribute_int(facts.attributes, "noop_with_empty_axes", 0) == 0;
  std::vector<bool> reduced(static_cast<size_t>(shape.rank()), all);
  for (const int64_t axis : wanted)
    reduced[static_cast<size_t>(resolved_axis(op, axis, shape.rank()))] = true;
  if (shape.batched() && reduced[static_cast<size_t>(shape.batch_axis())])
    throw Error(
        ErrorCode::kUsage,
        format("{} of {} reduces the batch, of which a step has several micro-batches: name "
               "other axes, or end in a loss",
               op, to_string(shape)));
  return reduced;
}

}  // namespace

Reduce::Reduce(std::string_view name, Reduction kind, const NodeFacts& facts)
    : BoundOperator(name, facts), kind_(kind), reduced_(reduced_axes(name, facts)) {
  check_reduced_type(name, kind, input(0));
  const Shape& x = shape(0);
  const bool keep = attribute_int(facts.attributes, "keepdims", 1) != 0;
  std::vector<int64_t> extents;
  std::vector<int64_t> reduced;
  std::vector<std::vector<int>> kept;
  space_.axes = axes_of_image(image_format(facts), x);
  for (int i = 0; i < x.rank(); ++i) {
    const auto axis = static_cast<size_t>(i);
    if (!reduced_[axis]) {
      extents.push_back(x[i]);
      kept.push_back({i});
      continue;
    }
    reduced.push_back(x[i]);
    space_.axes[axis].kind = AxisKind::kSummed;
    space_.axes[axis].undivided = undivided_reason(kind, input(0).spec.dtype);
    if (!keep) continue;
    extents.push_back(1);
    kept.emplace_back();
  }
  terms_ = Shape(reduced).elements();
  outputs_ = {{input(0).spec.dtype, Shape(extents)}};
  space_.inputs = {same_axes(x.rank())};
  space_.outputs = {operand_axes(kept)};
}

Cost Reduce::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[0].shape.elements());
  const double x = bytes_of(local.inputs[0]);
  const double y = bytes_of(local.outputs[0]);
  const bool weights = input(0).in_weight_gradient();
  const BackwardReads reads = backward_reads();
  const bool reads_x =
      !reads.inputs_for_input_gradient.empty() || !reads.inputs_for_weight_gradient.empty();
  const double back = (reads_x ? 2 : 1) * x + y;
  return {n, weights ? 0 : n, weights ? n : 0, x + y, weights ? 0 : back, weights ? back : 0};
}

BackwardReads Reduce::backward_reads() const {
  BackwardReads reads;
  const bool x =
      kind_ != Reduction::kSum && kind_ != Reduction::kMean && kind_ != Reduction::kLogSum;
  const bool y = kind_ == Reduction::kL2 || kind_ == Reduction::kLogSum ||
                 kind_ == Reduction::kLogSumExp || kind_ == Reduction::kMax ||
                 kind_ == Reduction::kMin;
  const bool weights = input(0).in_weight_gradient();
  if (x) (weights ? reads.inputs_for_weight_gradient : reads.inputs_for_input_gradient) = {0};
  if (y) (weights ? reads.outputs_for_weight_gradient : reads.outputs_for_input_gradient) = {0};
  return reads;
}

std::optional<ChannelsLast> reduction_channels_last(const NodeFacts& facts) {
  auto node = image_channels_last(facts);
  if (!node) return node;
  const int rank = facts.inputs[0].spec.shape.rank();
  std::vector<int64_t> stored;
  std::vector<bool> reduced(static_cast<size_t>(rank), false);
  for (const int64_t each : attribute_ints(facts.attributes, "axes", {})) {
    const int axis = resolved_axis("A reduction", each, rank);
    reduced[static_cast<size_t>(axis)] = true;
    stored.push_back(stored_axis(ImageFormat::kChannelsLast, axis, rank));
  }
  const bool keep = attribute_int(facts.attributes, "keepdims", 1) != 0;
  if (!keep && !stored.empty() && !reduced[1] && !(reduced[2] && reduced[3])) return std::nullopt;
  if (!stored.empty()) node->attributes["axes"] = stored;
  return node;
}

OperatorDefinitions define_reduce() {
  OperatorDefinitions all;
  for (size_t i = 0; i < kReductions.size(); ++i) {
    const auto kind = static_cast<Reduction>(i);
    all.push_back({.name = kReductions[i],
                   .inputs = {{"data"}},
                   .outputs = {{"reduced"}},
                   .attributes = {{"axes", AttributeType::kInts},
                                  {"keepdims"},
                                  {"noop_with_empty_axes"},
                                  format_attribute()},
                   .input_attributes = {{"axes", 1, kind == Reduction::kSum ? 13 : 18}},
                   .bind =
                       [kind](const NodeFacts& facts) {
                         return std::make_unique<Reduce>(kReductions[static_cast<size_t>(kind)],
                                                         kind, facts);
                       },
                   .channels_last = reduction_channels_last});
  }
  return all;
}

}  // namespace kerf::ops
