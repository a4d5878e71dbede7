// Runs one operator on one device with values that live on the host.
//
// One thread. Every tensor is copied to the device and back through a stream, so the suite is right
// for asynchronous devices too. Every call is held to what the operator says of its scratch memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ops/operator.h"

namespace kerf::ops {

// A tensor on the host.
struct HostTensor {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<float> floats;
  std::vector<int64_t> integers;
};

HostTensor zeros(const Shape& shape);
// Flat indices, ascending, of the elements that the box holds.
std::vector<int64_t> elements_of(const Box& box, const Shape& shape);
HostTensor cut(const HostTensor& whole, const Box& box);
void paste(const HostTensor& piece, const Box& box, HostTensor& whole, bool add);

// What a call says beside its tensors.
struct Where {
  Box box;
  Shape shape;  // global output, concrete
  int64_t first_sample = 0;
  bool training = true;
  double normaliser = 1;
};

struct Asked {
  int input = 0;
  bool accumulate = false;
  HostTensor before;  // what the target holds
};

class OperatorRunner {
 public:
  OperatorRunner(const Operator& op, Attributes attributes, runtime::Device& device);

  HostTensor forward(const std::vector<HostTensor>& inputs, const Where& where);
  // Forward with `inputs`, then the gradients; views that keeps() does not list are null.
  std::vector<HostTensor> gradient(const std::vector<HostTensor>& inputs, const Where& where,
                                   const HostTensor& output_gradient,
                                   const std::vector<Asked>& asked, bool for_weights);

 private:
  struct Placed;
  Placed place(const std::vector<HostTensor>& inputs, const Where& where);
  // Calls the kernel; an Error if it takes more memory than workspace_bytes() or keeps any.
  void run(const std::vector<HostTensor>& inputs, const std::function<void()>& call);

  const Operator& op_;
  Attributes attributes_;
  runtime::Device& device_;
  std::unique_ptr<runtime::Stream> stream_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace kerf::ops
