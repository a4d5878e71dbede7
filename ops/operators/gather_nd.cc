#include "ops/operators/gather_nd.h"

#include "ops/operators/indices.h"

namespace kerf::ops {

GatherND::GatherND(const NodeFacts& facts) : BoundOperator("GatherND", facts) {
  const int64_t shared = attribute_int(facts.attributes, "batch_dims", 0);
  const Shape& data = shape(0);
  const Shape& indices = shape(1);
  want_indices("GatherND", input(1));
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage, format("GatherND of {} with indices of {} and batch_dims {}: {}",
                                          to_string(data), to_string(indices), shared, why));
  };
  if (shared < 0 || shared >= indices.rank() || shared >= data.rank())
    refuse("there are not so many axes");
  batch_axes_ = static_cast<int>(shared);
  const int64_t tuple = indices[indices.rank() - 1];
  if (tuple < 1 || tuple > data.rank() - batch_axes_)
    refuse(format("its tuples are of {} indices", tuple < 0 ? "the batch's" : format("{}", tuple)));
  for (int i = 0; i < batch_axes_; ++i)
    if (data[i] != indices[i]) refuse(format("axis {} differs", i));

  std::vector<int64_t> extents(indices.begin(), indices.end() - 1);
  std::vector<std::vector<int>> from;
  std::vector<std::vector<int>> picks;
  for (int i = 0; i < static_cast<int>(extents.size()); ++i) picks.push_back({i});
  picks.emplace_back();
  for (int i = 0; i < data.rank(); ++i) {
    const bool pick = i >= batch_axes_ && i < batch_axes_ + tuple;
    if (pick && data[i] < 1) refuse(format("axis {} has nothing to pick from, or is the batch", i));
    if (pick) {
      picked_.push_back(data[i]);
      from.emplace_back();
    } else if (i < batch_axes_) {
      from.push_back({i});
    } else {
      from.push_back({static_cast<int>(extents.size())});
      extents.push_back(data[i]);
    }
  }
  outputs_ = {{input(0).spec.dtype, Shape(extents)}};
  space_ = {axes_of_tensor(outputs_[0].shape),
            {operand_axes(from), operand_axes(picks)},
            {same_axes(outputs_[0].shape.rank())}};
}

Cost GatherND::cost(const LocalSpecs& local) const {
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double picks = bytes_of(local.inputs[1]) + 2 * bytes_of(local.outputs[0]);
  const double back = picks + bytes_of(local.outputs[0]) + bytes_of(local.inputs[0]);
  const bool weights = input(0).in_weight_gradient();
  return {0, weights ? 0 : y, weights ? y : 0, picks, weights ? 0 : back, weights ? back : 0};
}

BackwardReads GatherND::backward_reads() const {
  BackwardReads reads;
  if (input(0).in_input_gradient()) reads.inputs_for_input_gradient = {1};
  if (input(0).in_weight_gradient()) reads.inputs_for_weight_gradient = {1};
  return reads;
}

OperatorDefinitions define_gather_nd() {
  return {{.name = "GatherND",
           .inputs = {{"data"}, {"indices"}},
           .outputs = {{"output"}},
           .attributes = {{"batch_dims"}},
           .bind = bind_as<GatherND>,
           .first_opset = 11}};
}

}  // namespace kerf::ops
