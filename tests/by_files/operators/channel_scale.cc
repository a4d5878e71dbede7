#include "tests/by_files/operators/channel_scale.h"

namespace kerf::ops {

ChannelScale::ChannelScale(const NodeFacts& facts)
    : BoundOperator("ChannelScale", facts),
      axis_(resolved_axis("ChannelScale", attribute_int(facts.attributes, "axis", 1),
                          shape(0).rank())) {
  want_float32("ChannelScale", input(0), "X");
  want_float32("ChannelScale", input(1), "S");
  const Shape& x = shape(0);
  if (x[axis_] < 0 || shape(1) != Shape{x[axis_]})
    throw Error(
        ErrorCode::kUsage,
        format("ChannelScale wants one factor for each index of axis {} of X {}, which is no "
               "batch, not S {}",
               axis_, to_string(x), to_string(shape(1))));
  outputs_ = {input(0).spec};
  for (int i = 0; i < x.rank(); ++i) {
    if (i == axis_)
      space_.axes.push_back({AxisKind::kFeature, "channels", x[i]});
    else if (x[i] < 0)
      space_.axes.push_back({AxisKind::kSample, "samples", x[i]});
    else
      space_.axes.push_back({AxisKind::kSpace, format("axis {}", i), x[i]});
  }
  space_.inputs = {same_axes(x.rank()), operand_axes({{axis_}})};
  space_.outputs = {same_axes(x.rank())};
}

Cost ChannelScale::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[0].shape.elements());
  const double channels = static_cast<double>(local.inputs[1].shape.elements());
  const double bytes = 4 * (2 * n + channels);
  return {n, n, 2 * n, bytes, bytes, bytes};
}

OperatorDefinitions define_channel_scale() {
  return {{.name = "ChannelScale",
           .inputs = {{"X"}, {"S"}},
           .outputs = {{"Y"}},
           .attributes = {{"axis"}},
           .bind = bind_as<ChannelScale>}};
}

}  // namespace kerf::ops
