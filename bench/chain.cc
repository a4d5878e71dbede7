#include "bench/chain.h"

#include <algorithm>
#include <array>

#include "ops/image_format.h"
#include "ops/random.h"
#include "runtime/time.h"

namespace kerf::bench {

using ops::Call;
using ops::DType;
using ops::GradientTarget;
using ops::Shape;
using ops::Tensor;
using ops::TensorView;

namespace {

constexpr size_t kPhases = 4;
constexpr std::array<const char*, kPhases> kPhaseNames{"forward", "input gradient",
                                                       "weight gradient", "update"};

std::vector<int64_t> ints(std::initializer_list<int64_t> list) { return list; }

const std::pair<const std::string, ops::Attribute> kLast{ops::kChannelsLastAttribute, int64_t{1}};

Link fully_connected(int64_t inputs, int64_t outputs) {
  return {"Gemm", {{"transB", int64_t{1}}}, {{outputs, inputs}, {outputs}}};
}

Link max_pool() {
  return {"MaxPool", {{"kernel_shape", ints({2, 2})}, {"strides", ints({2, 2})}, kLast}, {}};
}

void fill(const Tensor& tensor, uint32_t purpose, float scale) {
  const auto view = tensor.view();
  for (int64_t i = 0; i < view.elements(); ++i)
    view.f32()[i] = scale * (2 * ops::uniform({1, purpose, 0, 0}, i) - 1);
}

Tensor zero_tensor(runtime::Device& device, const Shape& shape) {
  Tensor tensor(device, DType::kFloat32, shape);
  std::fill_n(tensor.view().f32(), tensor.view().elements(), 0.0F);
  return tensor;
}

// Adds what the block took to a total.
class Timer {
 public:
  explicit Timer(double& total) : total_(total), begin_(runtime::now_ns()) {}
  ~Timer() { total_ += static_cast<double>(runtime::now_ns() - begin_) * 1e-9; }

 private:
  double& total_;
  int64_t begin_;
};

}  // namespace

struct Chain::Node {
  std::shared_ptr<const ops::BoundOperator> op;
  std::unique_ptr<ops::Kernel> kernel;
  std::vector<Tensor> parameters, gradients, velocities;
  runtime::Buffer reserve, workspace, packed;
  std::array<double, kPhases> seconds{};
};

std::vector<Link> lenet5_links() {
  return {{"Conv", {{"pads", ints({2, 2, 2, 2})}, kLast}, {{6, 1, 5, 5}, {6}}},
          {"Relu", {}, {}},
          max_pool(),
          {"Conv", {kLast}, {{16, 6, 5, 5}, {16}}},
          {"Relu", {}, {}},
          max_pool(),
          {"Transpose", {{"perm", ints({0, 3, 1, 2})}}, {}},
          {"Flatten", {}, {}},
          fully_connected(400, 120),
          {"Relu", {}, {}},
          fully_connected(120, 84),
          {"Relu", {}, {}},
          fully_connected(84, 10)};
}

std::vector<Link> mlp_links(const std::vector<int64_t>& widths) {
  std::vector<Link> links;
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) links.push_back({"Relu", {}, {}});
    links.push_back(fully_connected(widths[i], widths[i + 1]));
  }
  return links;
}

Chain::Chain(runtime::Device& device, const std::vector<Link>& links, const Shape& input,
             int64_t classes)
    : device_(device),
      stream_(device.make_stream()),
      bench_(ops::make_workbench(device, *stream_)),
      labels_(device, DType::kInt64, {input[0]}),
      optimizer_(ops::OptimizerOptions{.name = "sgd", .learning_rate = 0.01, .momentum = 0.9}) {
  values_.emplace_back(device, DType::kFloat32, input);
  gradients_.emplace_back(device, DType::kFloat32, input);
  fill(values_[0], 0, 1);
  for (int64_t i = 0; i < input[0]; ++i) labels_.view().i64()[i] = i * 7 % classes;
  for (const auto& link : links) add(link, false);
  add({"SoftmaxCrossEntropyLoss", {}, {}}, true);
  *gradients_.back().view().f32() = 1;
}

Chain::~Chain() = default;

std::shared_ptr<const ops::BoundOperator> bind(const Link& link, const Shape& input,
                                               const Shape& labels) {
  ops::NodeFacts facts{link.attributes, {}, 1};
  facts.inputs.push_back({{DType::kFloat32, input}, ops::Role::kActivation, true});
  for (const auto& shape : link.parameters)
    facts.inputs.push_back({{DType::kFloat32, shape}, ops::Role::kParameter, true});
  const ops::OperatorDefinition& definition = ops::find_operator(link.op);
  if (definition.inputs.size() > facts.inputs.size() && labels.rank() > 0)
    facts.inputs.push_back({{DType::kInt64, labels}, ops::Role::kLabel});
  return ops::bind_operator(definition, facts);
}

void Chain::add(const Link& link, bool loss) {
  auto node = std::make_unique<Node>();
  const int64_t samples = values_[0].shape()[0];
  node->op = bind(link, values_.back().shape(), loss ? labels_.shape() : Shape{});
  const ops::Box whole = ops::Box::whole(static_cast<int>(node->op->space().axes.size()));
  node->kernel = ops::make_kernel({*node->op, whole, samples, *bench_});
  for (const auto& shape : link.parameters) {
    const auto purpose = static_cast<uint32_t>(nodes_.size() * 10 + node->parameters.size() + 1);
    node->parameters.emplace_back(device_, DType::kFloat32, shape);
    fill(node->parameters.back(), purpose, 0.05F);
    node->gradients.push_back(zero_tensor(device_, shape));
    node->velocities.push_back(zero_tensor(device_, shape));
  }
  const ops::LocalSpecs local = ops::local_specs(*node->op, whole, samples, samples);
  node->reserve = device_.allocate(node->op->reserve_bytes(local));
  node->workspace = device_.allocate(ops::workspace_bytes(*node->op, device_.kind(), local, 1));
  node->packed = device_.allocate(ops::packed_bytes(*node->op, device_.kind(), local, 1, true));
  const Shape output = node->op->outputs()[0].shape;
  values_.emplace_back(device_, DType::kFloat32, output);
  gradients_.emplace_back(device_, DType::kFloat32, output);
  nodes_.push_back(std::move(node));
}

float Chain::step() {
  forward();
  backward();
  update();
  return *values_.back().view().f32();
}

Call Chain::call_of(const Node& node) const {
  Call call;
  call.reserve = {node.reserve.data(), node.reserve.bytes()};
  call.workspace = {node.workspace.data(), node.workspace.bytes()};
  call.packed = {node.packed.data(), node.packed.bytes()};
  call.version = version_;
  call.samples = values_[0].shape()[0];
  call.normaliser = static_cast<double>(call.samples);
  return call;
}

void Chain::forward() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = *nodes_[i];
    const Timer timer(node.seconds[0]);
    std::vector<TensorView> inputs{values_[i].view()};
    for (const auto& parameter : node.parameters) inputs.push_back(parameter.view());
    if (node.op->is_loss()) inputs.push_back(labels_.view());
    const std::vector<TensorView> outputs{values_[i + 1].view()};
    Call call = call_of(node);
    call.inputs = inputs;
    call.outputs = outputs;
    node.kernel->forward(call);
  }
}

void Chain::backward() {
  for (size_t i = nodes_.size(); i-- > 0;) {
    Node& node = *nodes_[i];
    std::vector<TensorView> inputs{values_[i].view()};
    for (const auto& parameter : node.parameters) inputs.push_back(parameter.view());
    if (node.op->is_loss()) inputs.push_back(labels_.view());
    const std::vector<TensorView> outputs{values_[i + 1].view()};
    const std::vector<TensorView> upstream{gradients_[i + 1].view()};
    Call call = call_of(node);
    call.inputs = inputs;
    call.outputs = outputs;
    call.output_gradients = upstream;
    if (i > 0) {
      const Timer timer(node.seconds[1]);
      const GradientTarget target{0, gradients_[i].view(), false};
      node.kernel->input_gradient(call, {&target, 1});
    }
    if (node.parameters.empty()) continue;
    const Timer timer(node.seconds[2]);
    std::vector<GradientTarget> targets;
    for (size_t p = 0; p < node.parameters.size(); ++p)
      targets.push_back({static_cast<int>(p) + 1, node.gradients[p].view(), false});
    node.kernel->weight_gradient(call, targets);
  }
}

void Chain::update() {
  const ops::UpdateRule rule = optimizer_.rule({optimizer_.options().learning_rate, 1}, true);
  ++version_;
  for (const auto& node : nodes_)
    for (size_t p = 0; p < node->parameters.size(); ++p) {
      const Timer timer(node->seconds[3]);
      const TensorView velocity = node->velocities[p].view();
      ops::update(rule, 1, node->parameters[p].view(), node->gradients[p].view(), {&velocity, 1});
    }
}

std::string Chain::profile() const {
  std::string text;
  for (size_t i = 0; i < nodes_.size(); ++i)
    for (size_t phase = 0; phase < kPhases; ++phase)
      if (nodes_[i]->seconds[phase] > 0)
        text += format("{:2} {} {}: {:.3f} ms\n", i, nodes_[i]->op->name(), kPhaseNames[phase],
                       nodes_[i]->seconds[phase] * 1e3);
  return text;
}

}  // namespace kerf::bench
