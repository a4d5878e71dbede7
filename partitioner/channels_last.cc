#include "partitioner/channels_last.h"

#include <algorithm>

#include "ops/image_format.h"

namespace kerf::partitioner {
namespace {

using ops::ImageFormat;

constexpr ImageFormat kFirst = ImageFormat::kChannelsFirst;
constexpr ImageFormat kLast = ImageFormat::kChannelsLast;
constexpr int kImageRank = 4;

// What a region begins with.
bool is_convolution(const Node& node) { return node.op == "Conv" || node.op == "FusedConv"; }

ImageFormat other(ImageFormat format) { return format == kFirst ? kLast : kFirst; }

// Replays a model node by node; of each value there may be one in either order.
class Formatter {
 public:
  explicit Formatter(const Model& from) : from_(from), to_(from.name()) {
    for (auto& ids : known_) ids.assign(static_cast<size_t>(from.values()), -1);
  }

  Model made() {
    for (ValueId id = 0; id < from_.values(); ++id)
      if (const Value& value = from_.value(id); value.producer < 0)
        known(id, kFirst) = to_.add_copy(value);
      else if (value.output == 0)
        add_node(value.producer);
    if (from_.loss() >= 0) return std::move(to_);
    turn_results_back();
    if (from_.names_results())
      for (const Result& result : from_.results())
        to_.add_result(result.name, known(result.value, kFirst));
    return std::move(to_);
  }

 private:
  ValueId& known(ValueId id, ImageFormat format) {
    return known_[static_cast<size_t>(format)][static_cast<size_t>(id)];
  }

  // What the node is with its images' channels last, if it is to be so.
  std::optional<ops::ChannelsLast> formatted(const Node& node) {
    const ops::OperatorDefinition& definition = ops::find_operator(node.op);
    if (definition.channels_last == nullptr) return std::nullopt;
    ops::NodeFacts facts{node.attributes, node.bound->inputs()};
    facts.outputs = static_cast<int>(node.outputs.size());
    auto last = definition.channels_last(facts);
    if (!last) return std::nullopt;
    const auto any = [&](const auto& holds) {
      return std::any_of(last->images.begin(), last->images.end(),
                         [&](int input) { return holds(node.inputs[static_cast<size_t>(input)]); });
    };
    // A parameter stays as it is: it has no samples to be moved with.
    if (any([&](ValueId image) { return ops::is_kept(from_.value(image).role); }))
      return std::nullopt;
    if (!is_convolution(node) && !any([&](ValueId image) { return known(image, kLast) >= 0; }))
      return std::nullopt;
    return last;
  }

  void add_node(NodeId id) {
    const Node& node = from_.node(id);
    const auto last = formatted(node);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool image = last && std::find(last->images.begin(), last->images.end(),
                                           static_cast<int>(i)) != last->images.end();
      inputs.push_back(node.inputs[i] < 0 ? -1 : in(node.inputs[i], image ? kLast : kFirst, node));
    }
    const NodeId made = to_.add_node(node.name, node.op, last ? last->attributes : node.attributes,
                                     inputs, static_cast<int>(node.outputs.size()));
    to_.set_key(made, node.key);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      const bool image = last && from_.value(output).spec.shape.rank() == kImageRank;
      known(output, image ? kLast : kFirst) = to_.node(made).outputs[i];
    }
  }

  // What nobody reads is what the model gives: in ONNX's order.
  void turn_results_back() {
    for (const Result& result : from_.results())
      if (known(result.value, kFirst) < 0)
        in(result.value, kFirst, from_.node(from_.value(result.value).producer));
  }

  // The value in this order, brought into it by a node where need be; for a reader.
  ValueId in(ValueId id, ImageFormat format, const Node& reader) {
    ValueId& found = known(id, format);
    if (found >= 0) return found;
    const Value& value = from_.value(id);
    const std::string name = format_name(value, format);
    const ops::Shape& onnx = value.spec.shape;
    const ops::Shape wanted = ops::stored_shape(format, onnx);
    // With one channel, or one position, nothing moves.
    const bool alias = onnx[0] < 0 && (onnx[1] == 1 || (onnx[2] == 1 && onnx[3] == 1));
    const NodeId made =
        alias ? to_.add_node(name, "Reshape",
                             {{"shape", std::vector<int64_t>{0, wanted[1], wanted[2], wanted[3]}}},
                             {known(id, other(format))})
              : to_.add_node(name, "Transpose", {{"perm", perm_to(format)}},
                             {known(id, other(format))});
    to_.set_key(made, reader.key);
    return found = to_.node(made).outputs[0];
  }

  static std::vector<int64_t> perm_to(ImageFormat format) {
    const std::vector<int> to_last = ops::stored_order(kLast, kImageRank);
    std::vector<int64_t> perm;
    for (int axis = 0; axis < kImageRank; ++axis)
      perm.push_back(format == kLast ? to_last[static_cast<size_t>(axis)]
                                     : ops::stored_axis(kLast, axis, kImageRank));
    return perm;
  }

  std::string format_name(const Value& value, ImageFormat format) const {
    const std::string& base = value.producer < 0 ? value.name : from_.node(value.producer).name;
    const std::string output = value.output == 0 ? "" : kerf::format(".output{}", value.output + 1);
    return kerf::format("{}{}.{}", base, output,
                        format == kLast ? "channels_last" : "channels_first");
  }

  const Model& from_;
  Model to_;
  std::vector<ValueId> known_[2];  // by format, by value of `from_`
};

}  // namespace

Model channels_last(const Model& model) {
  KERF_CHECK(model.original() == nullptr, "{} is rewritten already", model.name());
  for (NodeId id = 0; id < model.nodes(); ++id)
    if (is_convolution(model.node(id))) return Formatter(model).made();
  return model;
}

}  // namespace kerf::partitioner
