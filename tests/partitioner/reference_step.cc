#include "tests/partitioner/reference_step.h"

#include <cstring>
#include <numeric>

#include "partitioner/at.h"
#include "runtime/error.h"
#include "tests/partitioner/reference_operators.h"

namespace kerf::partitioner {
namespace {

using tests::Scalar;
using tests::ScalarTensor;

template <class Number>
ScalarTensor tensor_of(const ops::Shape& shape, const std::vector<std::byte>& bytes,
                       tests::Tape* tape) {
  ScalarTensor tensor{shape, {}};
  for (size_t at = 0; at < bytes.size(); at += sizeof(Number)) {
    Number number;
    std::memcpy(&number, bytes.data() + at, sizeof(number));
    const auto value = static_cast<double>(number);
    tensor.elements.push_back(tape == nullptr ? Scalar(value) : Scalar(*tape, value));
  }
  return tensor;
}

std::vector<double> numbers_of(const ScalarTensor& tensor) {
  std::vector<double> numbers;
  for (const Scalar& each : tensor.elements) numbers.push_back(each.value());
  return numbers;
}

class Step {
 public:
  Step(const Model& model, const std::vector<int64_t>& sizes, Numbers numbers)
      : model_(model), sizes_(sizes), numbers_(numbers) {}

  ReferenceResult run() {
    std::map<ValueId, ScalarTensor> kept;
    for (const ValueId id : model_.kept_values()) {
      const Value& value = model_.value(id);
      const bool trained = value.role == Role::kParameter;
      kept[id] = tensor_of<float>(value.spec.shape, kept_data(value, numbers_),
                                  trained ? &tape_ : nullptr);
      if (value.role == Role::kState) result_.states[value.name] = numbers_of(kept[id]);
    }
    Scalar loss;
    for (size_t m = 0; m < sizes_.size(); ++m) loss = loss + run(m, kept);
    const std::vector<double> gradients = tape_.gradients(loss.at());
    for (const ValueId id : model_.parameters()) {
      auto& whole = result_.gradients[model_.value(id).name];
      for (const Scalar& each : kept[id].elements)
        whole.push_back(gradients[static_cast<size_t>(each.at())]);
    }
    return std::move(result_);
  }

 private:
  // One micro-batch's loss.
  Scalar run(size_t m, const std::map<ValueId, ScalarTensor>& kept) {
    std::map<ValueId, ScalarTensor> values = kept;
    const int64_t first =
        std::accumulate(sizes_.begin(), sizes_.begin() + static_cast<int64_t>(m), int64_t{0});
    for (ValueId id = 0; id < model_.values(); ++id) {
      const Value& value = model_.value(id);
      if (value.role != Role::kInput && value.role != Role::kLabel) continue;
      const auto bytes = row_data(model_, id, first, sizes_[m], numbers_);
      const ops::Shape shape = value.spec.shape.with_batch(sizes_[m]);
      values[id] = value.spec.dtype == ops::DType::kInt64
                       ? tensor_of<int64_t>(shape, bytes, nullptr)
                       : tensor_of<float>(shape, bytes, nullptr);
    }
    for (NodeId node = 0; node < model_.nodes(); ++node) compute(node, m, values);
    const Scalar loss = values.at(model_.node(model_.loss()).outputs[0]).elements[0];
    result_.losses.push_back(loss.value());
    return loss;
  }

  void compute(NodeId id, size_t m, std::map<ValueId, ScalarTensor>& values) {
    const Node& node = model_.node(id);
    tests::ReferenceCall call{node.op, node.attributes, {}, {}, 1};
    call.normaliser =
        static_cast<double>(std::accumulate(sizes_.begin(), sizes_.end(), int64_t{0}));
    for (const ValueId input : node.inputs)
      call.inputs.push_back(input < 0 ? nullptr : &values.at(input));
    for (const ValueId output : node.outputs)
      call.outputs.push_back(model_.value(output).spec.shape.with_batch(sizes_[m]));
    auto outputs = tests::compute(call);
    KERF_CHECK(outputs.size() == node.outputs.size(), "{} has another number of outputs", node.op);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::string& name = model_.value(node.outputs[i]).name;
      result_.values[format("{} of micro-batch {}", name, m)] = numbers_of(outputs[i]);
      values[node.outputs[i]] = std::move(outputs[i]);
    }
    if (sizes_[m] == 0) return;
    for (const ops::StateUpdate& each : model_.op(id).state_updates()) {
      auto& state = result_.states.at(model_.value(node.inputs.at(at(each.input))).name);
      const auto& said = values.at(node.outputs.at(at(each.output))).elements;
      for (size_t i = 0; i < state.size(); ++i)
        state[i] = double{each.keep} * state[i] + (1 - double{each.keep}) * said[i].value();
    }
  }

  const Model& model_;
  const std::vector<int64_t>& sizes_;
  const Numbers numbers_;
  tests::Tape tape_;
  ReferenceResult result_;
};

}  // namespace

ReferenceResult reference_step(const Model& model, const std::vector<int64_t>& sizes,
                               Numbers numbers) {
  return Step(model, sizes, numbers).run();
}

}  // namespace kerf::partitioner
