// Operators: one class says all there is to know of one kind of node.
//
//   infer        shapes of outputs from shapes of inputs
//   split        which box of each input a wanted box of the output needs     (layouts)
//   cost         FLOPs and bytes                                              (planner)
//   keeps        what must stay from the forward pass for the gradients       (memory)
//   make_kernel  arithmetic on local dense tensors, on a device               (execution)
//
// An Operator is stateless and shared by all threads. A Kernel belongs to one part and one thread;
// it caches prepared primitives by shape. Names, inputs and attributes are ONNX's. Kernels are
// pure: what they compute depends on the Call only, never on neighbours, earlier calls or the
// clock.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ops/layout.h"
#include "ops/random.h"
#include "ops/tensor.h"

namespace kerf::ops {

using Attribute =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;
using Attributes = std::map<std::string, Attribute>;

// The attribute or `otherwise`. Throws Error{kUsage} if it has another type.
int64_t attribute_int(const Attributes& attributes, const std::string& name, int64_t otherwise);
double attribute_float(const Attributes& attributes, const std::string& name, double otherwise);
std::string attribute_string(const Attributes& attributes, const std::string& name,
                             std::string otherwise);
std::vector<int64_t> attribute_ints(const Attributes& attributes, const std::string& name,
                                    std::vector<int64_t> otherwise);

// Floating-point operations and bytes touched, for concrete local shapes.
struct Cost {
  double forward_flops = 0;
  double input_gradient_flops = 0;
  double weight_gradient_flops = 0;
  double forward_bytes = 0;
  double input_gradient_bytes = 0;
  double weight_gradient_bytes = 0;
};

// The answer to "what does a wanted box of output 0 need?"
struct SplitRule {
  enum class Kind {
    kBoxes,   // `inputs` says it
    kGather,  // this operator needs `axis` of its output (and input) whole: gather it first
    kRefuse,  // cannot honour it; `reason` says why
  };
  struct Input {
    Box box;
    // The gradient that this box's computation gives for the input is a partial sum over the other
    // output boxes (true), or complete (false).
    bool gradient_partial = false;
  };
  Kind kind = Kind::kBoxes;
  std::vector<Input> inputs;
  int axis = -1;
  std::string reason;
};

// Which forward values the gradients read, by index into inputs and outputs.
struct Keeps {
  std::vector<int> inputs_for_input_gradient;
  std::vector<int> inputs_for_weight_gradient;
  std::vector<int> outputs_for_input_gradient;
};

// One execution for one micro-batch on local tensors. In gradient() the data of views that keeps()
// does not list may be null; their shapes hold. Shapes are concrete; axis 0 may be 0 (an empty
// micro-batch). A loss's output gradient may be absent: it is 1.
struct Call {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  std::span<const TensorView> output_gradients;  // gradient() only
  std::byte* saved = nullptr;         // saved_bytes() of memory, kept from forward to the gradients
  const Box* output_box = nullptr;    // of output 0 within the global tensor
  Shape output_shape;                 // global, concrete in this micro-batch
  RandomKey key;                      // seed, node, step, micro-batch
  int64_t first_sample = 0;           // of this micro-batch within its step
  bool training = true;               // false: evaluation (dropout passes through)
  double normaliser = 1;              // samples of the whole step: divides the loss
  runtime::Stream* stream = nullptr;  // orders the work on a device that has streams
};

struct GradientTarget {
  int input = 0;
  TensorView to;
  bool accumulate = false;  // add to `to` instead of overwriting it
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void forward(const Call& call) = 0;
  // Gradients of the listed inputs: all activations' (the I part) or all parameters' (the W part).
  virtual void gradient(const Call& call, std::span<const GradientTarget> targets) = 0;
};

class Operator {
 public:
  virtual ~Operator() = default;
  virtual std::string_view name() const = 0;
  virtual std::vector<std::string> input_names() const = 0;  // in order; optional ones last
  virtual int required_inputs() const = 0;
  // Attribute names it understands; any other is refused by check_node.
  virtual std::vector<std::string> attribute_names() const { return {}; }
  // Throws Error{kUsage} on wrong ranks, extents, types or attribute values.
  virtual std::vector<ValueSpec> infer(const Attributes& attributes,
                                       std::span<const ValueSpec> inputs) const = 0;
  virtual SplitRule split(const Attributes& attributes, std::span<const ValueSpec> inputs,
                          const ValueSpec& output, const Box& wanted) const = 0;
  // True if output box follows input 0's box one to one (Relu, Add, Flatten ...): a cut lets it
  // inherit its input's layout. False for one-to-all (Gemm, Conv).
  virtual bool follows_input() const = 0;
  // The axis of output 0 that a feature cut divides; -1 if none.
  virtual int feature_axis() const { return 1; }
  virtual Cost cost(const Attributes& attributes, std::span<const ValueSpec> inputs,
                    std::span<const ValueSpec> outputs) const = 0;
  virtual Keeps keeps() const = 0;
  // Output 0 is input 0 with another shape: no arithmetic, shared memory.
  virtual bool aliases() const { return false; }
  // A scalar sum over samples that training starts from.
  virtual bool is_loss() const { return false; }
  virtual size_t saved_bytes(const Attributes&,
                             std::span<const ValueSpec> /*concrete inputs*/) const {
    return 0;
  }
  // Scratch memory that its kernel takes from the device while it runs, at most.
  virtual size_t workspace_bytes(const Attributes&, std::span<const ValueSpec> /*concrete inputs*/,
                                 int /*threads*/) const {
    return 0;
  }
  // For this device. Throws Error{kUnavailable} naming operator and device where there is none.
  virtual std::unique_ptr<Kernel> make_kernel(const Attributes& attributes,
                                              runtime::Device& device) const = 0;
};

// All operators there are, by ONNX name. Throws Error{kUsage} that names the operator and lists the
// known ones. The reference lives as long as the program.
const Operator& find_operator(const std::string& name);
std::vector<std::string> operator_names();
// Input count and attribute names; throws Error{kUsage}.
void check_node(const Operator& op, const Attributes& attributes, size_t inputs);
// What make_kernel does for a device that the operator has no kernel for: Error{kUnavailable}.
[[noreturn]] void throw_no_kernel(std::string_view op, const runtime::Device& device);

// A box of the output that the operator computes from these boxes of its inputs.
SplitRule boxes(std::vector<SplitRule::Input> inputs);
SplitRule gather(int axis, std::string reason);
SplitRule refuse(std::string reason);

}  // namespace kerf::ops
