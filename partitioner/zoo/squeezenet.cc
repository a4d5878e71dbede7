// SqueezeNet 1.1 (Iandola et al. 2016, "SqueezeNet: AlexNet-level accuracy with 50x fewer
// parameters"): its classifier is a convolution.
#include <cmath>

#include "partitioner/zoo/image_net.h"

namespace kerf::partitioner {
namespace {

class SqueezeNet : public ImageNet {
 public:
  using ImageNet::ImageNet;

  ValueId activated(ValueId x, int64_t to, int64_t kernel, int64_t stride, int64_t pad,
                    const std::string& name) {
    const auto fan_in = static_cast<double>(channels(x) * kernel * kernel);
    const Start start{
        .weight = ops::Initializer{ops::Initializer::Kind::kUniform, std::sqrt(6 / fan_in)},
        .bias = ops::Initializer{ops::Initializer::Kind::kZero}};
    return relu(conv(x,
                     {.channels = to,
                      .kernel = {kernel, kernel},
                      .stride = stride,
                      .pad = {pad, pad},
                      .start = start},
                     name),
                name + "_activation");
  }
  ValueId fire(ValueId x, int64_t squeeze, int64_t expand, int number) {
    const std::string name = format("features.{}", number);
    x = activated(x, scaled(squeeze), 1, 1, 0, name + ".squeeze");
    const ValueId narrow = activated(x, scaled(expand), 1, 1, 0, name + ".expand1x1");
    const ValueId wide = activated(x, scaled(expand), 3, 1, 1, name + ".expand3x3");
    return concat({narrow, wide}, name);
  }
  ValueId pool(ValueId x, int number) {
    return max_pool(x, {.kernel = 3, .stride = 2, .ceil = true}, format("features.{}", number));
  }
};

}  // namespace

Model make_squeezenet(const std::string& name, const ZooOptions& options) {
  SqueezeNet net(name, options);
  ValueId x = net.activated(net.image(), net.scaled(64), 3, 2, 0, "features.0");
  x = net.pool(x, 2);
  x = net.fire(net.fire(x, 16, 64, 3), 16, 64, 4);
  x = net.pool(x, 5);
  x = net.fire(net.fire(x, 32, 128, 6), 32, 128, 7);
  x = net.pool(x, 8);
  x = net.fire(net.fire(x, 48, 192, 9), 48, 192, 10);
  x = net.fire(net.fire(x, 64, 256, 11), 64, 256, 12);
  x = net.dropout(x, 0.5, "classifier.0");
  x = net.conv(x, {.channels = net.classes(), .start = normal_start(0.01)}, "classifier.1");
  net.loss(net.global_average(net.relu(x, "classifier.2"), "classifier.3"));
  return net.build();
}

}  // namespace kerf::partitioner
