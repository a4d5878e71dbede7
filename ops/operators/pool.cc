#include "ops/operators/pool.h"

#include <limits>

#include "ops/samples_axis.h"

namespace kerf::ops {
namespace {

// Which entry a window took is reserved as int32.
constexpr int64_t kMaxEntries = std::numeric_limits<int32_t>::max();

std::string_view pool_name(Pool::Kind kind) {
  return kind == Pool::Kind::kMax ? "MaxPool" : kind == Pool::Kind::kLp ? "LpPool" : "AveragePool";
}

}  // namespace

std::string_view Pool::kernel_name(Kind kind, const NodeFacts& facts) {
  const bool volumes = facts.inputs[0].spec.shape.rank() > 4;
  if (kind == Kind::kLp) return "LpPool";
  if (kind == Kind::kAverage) return volumes ? "AveragePoolOfVolumes" : "AveragePool";
  return facts.outputs > 1 ? "MaxPoolWithIndices" : volumes ? "MaxPoolOfVolumes" : "MaxPool";
}

Pool::Pool(Kind kind, const NodeFacts& facts)
    : BoundOperator(kernel_name(kind, facts), facts),
      kind_(kind),
      format_(image_format(facts)),
      count_padding_(attribute_int(facts.attributes, "count_include_pad", 0) != 0),
      columns_first_(attribute_int(facts.attributes, "storage_order", 0) != 0),
      power_(attribute_int(facts.attributes, "p", 2)) {
  const std::string_view name = pool_name(kind);
  const Shape x = onnx_shape(format_, shape(0));
  if (input(0).spec.dtype != DType::kFloat32 || x.rank() < 3 || x.rank() > 5)
    throw Error(ErrorCode::kUsage,
                format("{} wants float32 [N, C, ...] with one to three axes of space, not {} {}",
                       name, to_string(input(0).spec.dtype), to_string(x)));
  if (facts.outputs > 1 && format_ == ImageFormat::kChannelsLast)
    throw Error(ErrorCode::kUsage, format("{} with Indices has no attribute '{}': leave it out",
                                          name, kChannelsLastAttribute));
  if (power_ < 1) throw Error(ErrorCode::kUsage, format("{}: p {} is less than 1", name, power_));
  windows_ = make_windows(name, facts.attributes, {x.begin() + 2, x.end()});
  if (entries() > kMaxEntries)
    throw Error(ErrorCode::kUsage, format("{}: a window of {} entries has more than {}; make "
                                          "kernel_shape smaller",
                                          name, entries(), kMaxEntries));
  for (size_t i = 0; i < windows_.size(); ++i)
    if (const int64_t blind = blind_window(windows_[i]); blind >= 0)
      throw Error(ErrorCode::kUsage,
                  format("{}: window {} of axis {} sees only padding; make pads smaller", name,
                         blind, i + 2));
  Shape y = x;
  for (size_t i = 0; i < windows_.size(); ++i) y[static_cast<int>(i) + 2] = windows_[i].output;
  outputs_ = {{DType::kFloat32, stored_shape(format_, y)}};
  if (facts.outputs > 1) outputs_.push_back({DType::kInt64, outputs_[0].shape});
  set_space(x);
}

void Pool::set_space(const Shape& image) {
  space_.axes = {samples_axis(image[0]), {AxisKind::kFeature, "channels", image[1]}};
  const auto names = names_of_space(windows_.size());
  for (size_t i = 0; i < windows_.size(); ++i)
    space_.axes.push_back({AxisKind::kSpace, names[i], windows_[i].output, 1, true});
  if (outputs_.size() > 1)
    for (IterationAxis& axis : space_.axes)
      axis.undivided = "its Indices count the elements of all of X";
  OperandMap map = same_axes(image.rank());
  space_.outputs.assign(outputs_.size(), stored_axes(format_, map));
  for (size_t i = 0; i < windows_.size(); ++i) map.axes[i + 2].window = sliding(windows_[i]);
  space_.inputs = {stored_axes(format_, map)};
}

Extent2 Pool::first_window(const Box& iterations) const {
  Extent2 first{};
  const size_t axes = std::min<size_t>(windows_.size(), 2);
  for (size_t i = 0; i < axes; ++i) {
    const IndexSet& set = iterations.axes[iterations.axes.size() - axes + i];
    const AxisWindow& window = windows_[windows_.size() - axes + i];
    first[2 - axes + i] = set.ranges(window.output).front().begin;
  }
  return first;
}

int64_t Pool::entries() const {
  int64_t entries = 1;
  for (const AxisWindow& window : windows_) entries *= window.kernel;
  return entries;
}

Cost Pool::cost(const LocalSpecs& local) const {
  const double x = static_cast<double>(local.inputs[0].shape.elements());
  const double y = static_cast<double>(local.outputs[0].shape.elements());
  const double flops = y * static_cast<double>(entries());
  return {flops, flops, 0, 4 * (x + y), 4 * (x + y), 0};
}

BackwardReads Pool::backward_reads() const {
  BackwardReads reads;
  if (kind_ != Kind::kLp) return reads;
  reads.inputs_for_input_gradient = {0};
  reads.outputs_for_input_gradient = {0};
  return reads;
}

size_t Pool::reserve_bytes(const LocalSpecs& local) const {
  if (kind_ != Kind::kMax) return 0;
  return static_cast<size_t>(local.outputs[0].shape.elements() * index_bytes());
}

OperatorDefinitions define_pool() {
  const auto define = [](Pool::Kind kind, std::vector<FormalOperand> outputs,
                         const std::vector<const char*>& own_attributes) {
    std::vector<FormalAttribute> attributes = window_attributes();
    for (const char* own : own_attributes) attributes.push_back({own});
    return OperatorDefinition{
        .name = std::string(pool_name(kind)),
        .inputs = {{"X"}},
        .outputs = std::move(outputs),
        .attributes = std::move(attributes),
        .bind = [kind](const NodeFacts& facts) { return std::make_unique<Pool>(kind, facts); }};
  };
  OperatorDefinitions all = {define(Pool::Kind::kMax, {{"Y"}, {"Indices"}},
                                    {"ceil_mode", "storage_order", kChannelsLastAttribute}),
                             define(Pool::Kind::kAverage, {{"Y"}},
                                    {"ceil_mode", "count_include_pad", kChannelsLastAttribute}),
                             define(Pool::Kind::kLp, {{"Y"}}, {"ceil_mode", "p"})};
  all[0].channels_last = [](const NodeFacts& facts) {
    return facts.outputs > 1 ? std::nullopt : image_channels_last(facts);
  };
  all[1].channels_last = image_channels_last;
  return all;
}

}  // namespace kerf::ops
