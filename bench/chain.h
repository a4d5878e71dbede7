// A chain of operators trained by hand, without planner, scheduler or channels: what the kernels
// alone can do. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/workbench.h"

namespace kerf::bench {

// One operator; its first input is the output of the one before.
struct Link {
  std::string op;
  ops::Attributes attributes;
  std::vector<ops::Shape> parameters;
};

std::vector<Link> lenet5_links();
// {784, 4096, 4096, 10}: fully connected layers with Relu between.
std::vector<Link> mlp_links(const std::vector<int64_t>& widths);

class Chain {
 public:
  // Random parameters, input and labels; the loss is SoftmaxCrossEntropyLoss over `classes`.
  Chain(runtime::Device& device, const std::vector<Link>& links, const ops::Shape& input,
        int64_t classes);

  ~Chain();

  // Forward, input and weight gradients, SGD with momentum. The loss.
  float step();
  // Seconds spent so far, per operator: "conv 0 forward".
  std::string profile() const;

 private:
  struct Node;
  void add(const Link& link, bool loss);
  ops::Call call_of(const Node& node) const;
  void forward();
  void backward();
  void update();

  runtime::Device& device_;
  std::unique_ptr<runtime::Stream> stream_;
  std::unique_ptr<ops::Workbench> bench_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<ops::Tensor> values_;     // values_[i] enters node i
  std::vector<ops::Tensor> gradients_;  // of values_
  ops::Tensor labels_;
  ops::Optimizer optimizer_;
  int64_t version_ = 1;  // of the parameters
};

}  // namespace kerf::bench
