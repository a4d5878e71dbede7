// ResNet (He et al. 2015, "Deep residual learning for image recognition"), strides of bottlenecks
// in their 3x3 convolutions.
#include <array>

#include "partitioner/zoo/image_net.h"

namespace kerf::partitioner {
namespace {

struct Depth {
  std::array<int, 4> blocks;
  bool bottleneck;
};

Depth depth_of(const std::string& name) {
  if (name == "resnet18") return {{2, 2, 2, 2}, false};
  if (name == "resnet50") return {{3, 4, 6, 3}, true};
  return {{3, 4, 23, 3}, true};
}

class ResNet : public ImageNet {
 public:
  using ImageNet::ImageNet;

  // A convolution and its normalisation, `conv` and `norm` by name.
  ValueId normalized(ValueId x, int64_t channels, int64_t kernel, int64_t stride,
                     const std::string& conv, const std::string& norm) {
    const Start start = he_normal(channels, kernel);
    return batch_norm(plain_conv(x, channels, kernel, stride, conv, start), norm);
  }

  // Of `channels` inside; a bottleneck gives four times as many.
  ValueId block(ValueId x, int64_t inside, int64_t stride, bool bottleneck,
                const std::string& name) {
    const int64_t outside = bottleneck ? 4 * inside : inside;
    const auto conv = [&](ValueId value, int number, int64_t to, int64_t kernel, int64_t by) {
      return normalized(value, to, kernel, by, format("{}.conv{}", name, number),
                        format("{}.bn{}", name, number));
    };
    ValueId y = x;
    if (bottleneck) {
      y = relu(conv(y, 1, inside, 1, 1), name + ".relu1");
      y = relu(conv(y, 2, inside, 3, stride), name + ".relu2");
      y = conv(y, 3, outside, 1, 1);
    } else {
      y = relu(conv(y, 1, inside, 3, stride), name + ".relu1");
      y = conv(y, 2, outside, 3, 1);
    }
    ValueId skip = x;
    if (stride != 1 || channels(x) != outside)
      skip = normalized(x, outside, 1, stride, name + ".downsample.0", name + ".downsample.1");
    return relu(add(y, skip, name + ".add"), name + ".relu");
  }
};

}  // namespace

Model make_resnet(const std::string& name, const ZooOptions& options) {
  const Depth depth = depth_of(name);
  ResNet net(name, options);
  ValueId x = net.normalized(net.image(), net.scaled(64), 7, 2, "conv1", "bn1");
  x = net.max_pool(net.relu(x, "relu"), {.kernel = 3, .stride = 2, .pad = 1}, "maxpool");
  for (size_t stage = 0; stage < depth.blocks.size(); ++stage) {
    const int64_t inside = net.scaled(int64_t{64} << stage);
    for (int i = 0; i < depth.blocks[stage]; ++i)
      x = net.block(x, inside, i == 0 && stage > 0 ? 2 : 1, depth.bottleneck,
                    format("layer{}.{}", stage + 1, i));
  }
  return net.classify(net.global_average(x, "avgpool"), "fc");
}

}  // namespace kerf::partitioner
