// DenseNet-121 (Huang et al. 2016, "Densely connected convolutional networks").
#include <array>

#include "partitioner/zoo/image_net.h"

namespace kerf::partitioner {
namespace {

class DenseNet : public ImageNet {
 public:
  using ImageNet::ImageNet;

  ValueId activated(ValueId x, const std::string& norm, const std::string& relu_name) {
    return relu(batch_norm(x, norm), relu_name);
  }
  ValueId convolved(ValueId x, int64_t to, int64_t kernel, int64_t stride,
                    const std::string& name) {
    return plain_conv(x, to, kernel, stride, name, he_normal(channels(x), kernel));
  }
  // The `growth` channels that one layer adds to all before it.
  ValueId layer(ValueId x, int64_t growth, const std::string& name) {
    x = activated(x, name + ".norm1", name + ".relu1");
    x = convolved(x, 4 * growth, 1, 1, name + ".conv1");
    x = activated(x, name + ".norm2", name + ".relu2");
    return convolved(x, growth, 3, 1, name + ".conv2");
  }
};

}  // namespace

Model make_densenet(const std::string& name, const ZooOptions& options) {
  constexpr std::array<int, 4> kLayers{6, 12, 24, 16};
  DenseNet net(name, options);
  const int64_t growth = net.scaled(32);
  ValueId x = net.convolved(net.image(), net.scaled(64), 7, 2, "features.conv0");
  x = net.activated(x, "features.norm0", "features.relu0");
  x = net.max_pool(x, {.kernel = 3, .stride = 2, .pad = 1}, "features.pool0");
  for (size_t block = 0; block < kLayers.size(); ++block) {
    std::vector<ValueId> parts{x};
    for (int i = 1; i <= kLayers[block]; ++i) {
      const std::string layer = format("features.denseblock{}.denselayer{}", block + 1, i);
      parts.push_back(net.layer(x, growth, layer));
      x = net.concat(parts, layer + ".cat");
    }
    if (block + 1 == kLayers.size()) break;
    const std::string between = format("features.transition{}", block + 1);
    x = net.activated(x, between + ".norm", between + ".relu");
    x = net.convolved(x, std::max<int64_t>(1, net.channels(x) / 2), 1, 1, between + ".conv");
    x = net.average_pool(x, {2, 2}, between + ".pool");
  }
  x = net.activated(x, "features.norm5", "relu");
  return net.classify(net.global_average(x, "avgpool"), "classifier",
                      {.bias = ops::Initializer{ops::Initializer::Kind::kZero}});
}

}  // namespace kerf::partitioner
