// What follows a convolution, as exporters write it: a normalisation by known statistics, an
// addition of something of the same shape (a residual), a Relu; each may be absent.
#include <algorithm>

#include "partitioner/onnx/fuse.h"

namespace kerf::partitioner::onnx {
namespace {

// Convolutions of fewer channels have a way of their own, which is faster than being fused.
constexpr int64_t kLeastChannels = 3;

// A convolution and its normalisation, which may be absent: -1.
struct ConvAndNorm {
  NodeId conv = -1;
  NodeId norm = -1;
  NodeId last() const { return norm < 0 ? conv : norm; }
};

bool is_kept_or_absent(const Model& model, ValueId value) {
  return value < 0 || ops::is_kept(model.value(value).role);
}

// Whether one node reads the value, and it is no result.
bool has_one_reader(const Model& model, ValueId value) {
  const auto results = model.results();
  return model.uses(value).size() == 1 &&
         std::none_of(results.begin(), results.end(),
                      [&](const Result& result) { return result.value == value; });
}

bool is_fusible_conv(const Model& model, const Node& conv) {
  const ops::Shape& x = model.value(conv.inputs[0]).spec.shape;
  return conv.op == "Conv" && x.rank() == 4 && x[1] >= kLeastChannels &&
         std::all_of(conv.inputs.begin() + 1, conv.inputs.end(),
                     [&](ValueId input) { return is_kept_or_absent(model, input); });
}

bool is_known_norm(const Model& model, const Node& norm) {
  return norm.op == "BatchNormalization" && norm.outputs.size() == 1 &&
         ops::attribute_int(norm.attributes, "training_mode", 0) == 0 &&
         std::all_of(norm.inputs.begin() + 1, norm.inputs.end(),
                     [&](ValueId input) { return is_kept_or_absent(model, input); });
}

// That which gives the value.
ConvAndNorm conv_giving(const Model& model, ValueId value) {
  ConvAndNorm found;
  found.norm = maker(model, value, "BatchNormalization");
  if (found.norm >= 0) {
    const Node& norm = model.node(found.norm);
    if (!is_known_norm(model, norm) || !has_one_reader(model, norm.inputs[0])) return {};
    value = norm.inputs[0];
  }
  found.conv = maker(model, value, "Conv");
  return found.conv >= 0 && is_fusible_conv(model, model.node(found.conv)) ? found : ConvAndNorm{};
}

// A convolution of which one side of an addition is, and the other side.
struct Residual {
  ConvAndNorm conv;
  ValueId other = -1;
};

// The later of two, which finds the other one ready.
Residual residual(const Model& model, NodeId add) {
  const Node& node = model.node(add);
  if ((node.op != "Add" && node.op != "Sum") || node.inputs.size() != 2) return {};
  Residual found;
  for (const ValueId side : node.inputs) {
    const ValueId other = other_input(node, side);
    if (other == side || !(model.value(side).spec == model.value(other).spec) ||
        ops::is_kept(model.value(other).role) || !has_one_reader(model, side))
      continue;
    const ConvAndNorm conv = conv_giving(model, side);
    if (conv.conv > found.conv.conv) found = {conv, other};
  }
  return found;
}

Fusion fused_conv(const Model& model, const ConvAndNorm& found, ValueId added) {
  const Node& conv = model.node(found.conv);
  Fusion fusion{{found.conv}, "FusedConv", conv.attributes, conv.inputs, {}};
  fusion.inputs.resize(added < 0 ? 7 : 8, -1);
  if (found.norm >= 0) {
    const Node& norm = model.node(found.norm);
    fusion.nodes.push_back(found.norm);
    std::copy(norm.inputs.begin() + 1, norm.inputs.end(), fusion.inputs.begin() + 3);
    fusion.attributes["epsilon"] = ops::attribute_float(norm.attributes, "epsilon", 1e-5);
  }
  if (added >= 0) fusion.inputs[7] = added;
  fusion.made.resize(fusion.inputs.size());
  return fusion;
}

}  // namespace

std::optional<Fusion> conv_and_relu(const Model& model, NodeId last) {
  const Node& relu = model.node(last);
  if (relu.op != "Relu" || !has_one_reader(model, relu.inputs[0])) return std::nullopt;
  const ValueId before = relu.inputs[0];
  const NodeId producer = model.value(before).producer;
  Residual found{conv_giving(model, before), -1};
  if (found.conv.conv < 0 && producer >= 0) found = residual(model, producer);
  if (found.conv.conv < 0) return std::nullopt;
  Fusion fusion = fused_conv(model, found.conv, found.other);
  fusion.attributes["activation"] = std::string("Relu");
  if (found.other >= 0) fusion.nodes.push_back(producer);
  fusion.nodes.push_back(last);
  return fusion;
}

std::optional<Fusion> conv_and_sum(const Model& model, NodeId last) {
  const Residual found = residual(model, last);
  if (found.conv.conv < 0) return std::nullopt;
  Fusion fusion = fused_conv(model, found.conv, found.other);
  fusion.nodes.push_back(last);
  return fusion;
}

std::optional<Fusion> conv_and_norm(const Model& model, NodeId last) {
  if (model.node(last).op != "BatchNormalization") return std::nullopt;
  const ConvAndNorm found = conv_giving(model, model.node(last).outputs[0]);
  if (found.conv < 0) return std::nullopt;
  return fused_conv(model, found, -1);
}

}  // namespace kerf::partitioner::onnx
