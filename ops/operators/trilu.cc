#include "ops/operators/trilu.h"

#include <algorithm>

#include "ops/onnx_types.h"
#include "ops/operators/indices.h"

namespace kerf::ops {
namespace {

constexpr int64_t kFarDiagonal = int64_t{1} << 48;  // beyond every matrix

DType eye_type(const NodeFacts& facts) {
  if (!facts.attributes.contains("dtype")) return facts.inputs[0].spec.dtype;
  const int64_t wanted = attribute_int(facts.attributes, "dtype", 0);
  if (const auto dtype = dtype_of_onnx(wanted)) return *dtype;
  throw Error(ErrorCode::kUsage, format("EyeLike cannot make ONNX's element type {}", wanted));
}

}  // namespace

Diagonal::Diagonal(std::string_view name, const NodeFacts& facts, int least_rank, int most_rank)
    : BoundOperator(name, facts),
      k_(std::clamp(attribute_int(facts.attributes, "k", 0), -kFarDiagonal, kFarDiagonal)) {
  const Shape& x = shape(0);
  const int rank = x.rank();
  if (rank < least_rank || rank > most_rank || x[rank - 1] < 0 || x[rank - 2] < 0)
    throw Error(ErrorCode::kUsage,
                format("{} wants {} whose rows and columns are not the batch, not {}", name,
                       most_rank == 2 ? "a matrix" : "matrices", to_string(x)));
  space_ = {axes_of_tensor(x), {same_axes(rank)}, {same_axes(rank)}};
}

Trilu::Trilu(const NodeFacts& facts)
    : Diagonal("Trilu", facts, 2, Shape::kMaxRank),
      upper_(attribute_int(facts.attributes, "upper", 1) != 0) {
  outputs_ = {input(0).spec};
}

Cost Trilu::cost(const LocalSpecs& local) const {
  const double bytes = 2 * bytes_of(local.outputs[0]);
  const bool weights = input(0).in_weight_gradient();
  return {0, 0, 0, bytes, weights ? 0 : bytes, weights ? bytes : 0};
}

EyeLike::EyeLike(const NodeFacts& facts) : Diagonal("EyeLike", facts, 2, 2) {
  outputs_ = {{eye_type(facts), shape(0)}};
}

Cost EyeLike::cost(const LocalSpecs& local) const {
  return {0, 0, 0, bytes_of(local.outputs[0]), 0, 0};
}

OperatorDefinitions define_trilu() {
  return {{.name = "Trilu",
           .inputs = {{"input"}},
           .outputs = {{"output"}},
           .attributes = {{"k"}, {"upper"}},
           .input_attributes = {{"k", 1, 14}},
           .bind = bind_as<Trilu>,
           .first_opset = 14},
          {.name = "EyeLike",
           .inputs = {{"input"}},
           .outputs = {{"output"}},
           .attributes = {{"dtype"}, {"k"}},
           .bind = bind_as<EyeLike>,
           .first_opset = 9}};
}

}  // namespace kerf::ops
