// Operators: a definition per kind of node, and an operator bound to each node.
//
//   OperatorDefinition   what ONNX's schema says: names, optional operands, attributes, opsets
//        | bind          attributes parsed and checked, operands known
//   BoundOperator        shapes, iterations, costs, what the gradients read, memory
//        | make_kernel   arithmetic on local dense tensors, on a device   (ops/kernel.h)
//   Kernel
//
// A definition is one file in operators/ and names no device; CMake makes the registry from the
// folder. A BoundOperator is immutable and shared by all threads. Names, inputs and attributes are
// ONNX's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/attributes.h"
#include "ops/iteration.h"
#include "ops/tensor.h"

namespace kerf::ops {

// What a value is to its model.
enum class Role : uint8_t {
  kInput,      // rows of a data set
  kLabel,      // likewise
  kParameter,  // trained
  kActivation,
  kFrozen,    // a parameter that is not trained
  kConstant,  // of the model
  kState,     // changed by running it (running statistics): once per step, in micro-batch order
};
// Whether a worker keeps it from step to step.
inline bool is_kept(Role role) {
  return role == Role::kParameter || role == Role::kFrozen || role == Role::kConstant ||
         role == Role::kState;
}
std::string_view to_string(Role role);

// An input of a node, as its operator is told of it.
struct Operand {
  ValueSpec spec;
  Role role = Role::kActivation;
  bool wants_gradient = false;
  bool present = true;
  // Its gradient is one of I's, not of W's.
  bool in_input_gradient() const { return wants_gradient && role == Role::kActivation; }
  bool in_weight_gradient() const { return wants_gradient && role == Role::kParameter; }
};

// What a node says to its operator.
struct NodeFacts {
  Attributes attributes;
  std::vector<Operand> inputs;
  int outputs = 1;  // that it names
};

// Floating-point operations and bytes touched, for concrete local shapes.
struct Cost {
  double forward_flops = 0;
  double input_gradient_flops = 0;
  double weight_gradient_flops = 0;
  double forward_bytes = 0;
  double input_gradient_bytes = 0;
  double weight_gradient_bytes = 0;
};

// Which forward values I and W read, by index into inputs and outputs; whether W reads the output
// gradients and what forward reserved (I may always).
struct BackwardReads {
  std::vector<int> inputs_for_input_gradient;
  std::vector<int> outputs_for_input_gradient;
  std::vector<int> inputs_for_weight_gradient;
  std::vector<int> outputs_for_weight_gradient;
  bool reserve_for_weight_gradient = false;
  bool output_gradients_for_weight_gradient = true;
};

// Concrete local shapes of one call; absent operands have an empty spec.
struct LocalSpecs {
  Box iterations;  // that it computes
  std::vector<ValueSpec> inputs;
  std::vector<ValueSpec> outputs;
  bool accumulates = true;  // whether gradients of parameters may be added to what is there
};

// What right answers are counted from, of a loss.
enum class Answers : uint8_t {
  kNone,          // it has no notion of them
  kLargestScore,  // input 0 scores, input 1 labels: the label's score is the largest
  kPicked,        // input 0 greatest scores by segment, input 2 the label's score
};

// A state input that is changed by what the forward pass gave as an output: per micro-batch that
// is not empty, in order, state = keep * state + (1 - keep) * output.
struct StateUpdate {
  int input = -1;
  int output = -1;
  float keep = 0;
};

struct OperatorDefinition;

class BoundOperator {
 public:
  BoundOperator(std::string_view name, const NodeFacts& facts)
      : name_(name), inputs_(facts.inputs) {}
  virtual ~BoundOperator() = default;

  const std::string& name() const { return name_; }
  const std::vector<Operand>& inputs() const { return inputs_; }
  bool has(int input) const {
    return static_cast<size_t>(input) < inputs_.size() &&
           inputs_[static_cast<size_t>(input)].present;
  }
  const std::vector<ValueSpec>& outputs() const { return outputs_; }
  const IterationSpace& space() const { return space_; }

  virtual Cost cost(const LocalSpecs& local) const = 0;
  virtual BackwardReads backward_reads() const = 0;
  // Memory that forward fills and I, or W too, reads.
  virtual size_t reserve_bytes(const LocalSpecs& /*local*/) const { return 0; }
  // Memory that I fills and W reads. Where it is not 0, I runs even if no activation wants a
  // gradient.
  virtual size_t handed_bytes(const LocalSpecs& /*local*/) const { return 0; }
  // Output 0 is input 0 with another shape: no arithmetic, shared memory.
  virtual bool aliases() const { return false; }
  // Whether output 0 may be written over input `input`, which nobody reads later.
  virtual bool may_overwrite(int /*input*/) const { return false; }
  // A scalar sum over samples that training starts from.
  virtual bool is_loss() const { return false; }
  // How its right answers are counted.
  virtual Answers answers() const { return Answers::kNone; }
  virtual std::vector<StateUpdate> state_updates() const { return {}; }

 protected:
  const Operand& input(int index) const { return inputs_[static_cast<size_t>(index)]; }
  const Shape& shape(int index) const { return input(index).spec.shape; }

  std::vector<ValueSpec> outputs_;  // set by the constructor of each operator, as is space_
  IterationSpace space_;

 private:
  std::string name_;
  std::vector<Operand> inputs_;
};

// Of an operator bilinear in inputs 0 and 1 (products, convolutions): the gradient of one reads the
// other.
BackwardReads product_reads(const BoundOperator& op);

// ---- definitions

struct ChannelsLast;  // image_format.h

struct FormalOperand {
  enum class Count : uint8_t { kOne, kOptional, kVariadic };  // variadic: the last, one or more
  std::string name;
  Count count = Count::kOne;
};

struct FormalAttribute {
  std::string name;
  AttributeType type = AttributeType::kInt;
};

// The newest opset whose meaning is known.
inline constexpr int kNewestOpset = 28;

// An attribute that ONNX has as an input from an opset on, where Kerf wants a constant: an axis, a
// shape, a bound. ONNX files are read and written by it; a model's nodes have the attribute only.
struct InputAttribute {
  std::string name;     // of the attribute, which `attributes` lists too
  int input = 1;        // its place among ONNX's inputs
  int first_opset = 1;  // an attribute in older ones
};

struct OperatorDefinition {
  std::string name = {};
  std::vector<FormalOperand> inputs = {};
  std::vector<FormalOperand> outputs = {};
  std::vector<FormalAttribute> attributes = {};
  std::vector<InputAttribute> input_attributes = {};
  // Throws Error{kUsage} on wrong ranks, extents, types or attribute values.
  std::function<std::unique_ptr<const BoundOperator>(const NodeFacts&)> bind = {};
  // What a node of these facts is with its images' channels last; nothing where it cannot have
  // them so. Null: none can.
  std::optional<ChannelsLast> (*channels_last)(const NodeFacts&) = nullptr;
  // Opsets in which the name has this meaning.
  int first_opset = 1;
  int last_opset = kNewestOpset;
};
using OperatorDefinitions = std::vector<OperatorDefinition>;

// `bind` of an operator that is a class with a constructor from NodeFacts.
template <class Op>
std::unique_ptr<const BoundOperator> bind_as(const NodeFacts& facts) {
  return std::make_unique<Op>(facts);
}

// All operators there are, by ONNX name. Throws Error{kUsage} that names the operator and lists the
// known ones, or the opsets in which it is known. The reference lives as long as the program.
const OperatorDefinition& find_operator(const std::string& name, int opset = kNewestOpset);
std::vector<std::string> operator_names();
// Checks number and presence of operands and names and types of attributes, and binds. Throws
// Error{kUsage}.
std::shared_ptr<const BoundOperator> bind_operator(const OperatorDefinition& definition,
                                                   const NodeFacts& facts);

// Of the call that computes `iterations`, for a micro-batch of `samples` of `largest` at most.
Box input_box(const BoundOperator& op, int input, const Box& iterations, int64_t largest);
Box output_box(const BoundOperator& op, int output, const Box& iterations, int64_t largest);
LocalSpecs local_specs(const BoundOperator& op, const Box& iterations, int64_t largest,
                       int64_t samples);

// What operands must be: Error{kUsage} that names operator and operand.
void want_float32(std::string_view op, const Operand& operand, std::string_view name);
// `axis` counted from the end where it is negative. Throws Error{kUsage} where there is none.
int resolved_axis(std::string_view op, int64_t axis, int rank);

}  // namespace kerf::ops
