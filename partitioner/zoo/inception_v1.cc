// GoogLeNet (Szegedy et al. 2014, "Going deeper with convolutions") as Caffe has it: with local
// response normalisation and without its auxiliary classifiers. Weights are He's.
#include "partitioner/zoo/image_net.h"

namespace kerf::partitioner {
namespace {

// Channels of a module's branches, in the order of the paper's table 1.
struct Module {
  const char* name;
  int64_t one, reduce3, three, reduce5, five, pooled;
  bool pool_after;
};
constexpr Module kModules[] = {
    {"3a", 64, 96, 128, 16, 32, 32, false},    {"3b", 128, 128, 192, 32, 96, 64, true},
    {"4a", 192, 96, 208, 16, 48, 64, false},   {"4b", 160, 112, 224, 24, 64, 64, false},
    {"4c", 128, 128, 256, 24, 64, 64, false},  {"4d", 112, 144, 288, 32, 64, 64, false},
    {"4e", 256, 160, 320, 32, 128, 128, true}, {"5a", 256, 160, 320, 32, 128, 128, false},
    {"5b", 384, 192, 384, 48, 128, 128, false}};
constexpr Pool kHalving{.kernel = 3, .stride = 2, .ceil = true};

class InceptionV1 : public ImageNet {
 public:
  using ImageNet::ImageNet;

  ValueId activated(ValueId x, int64_t published, int64_t kernel, int64_t stride,
                    const std::string& name) {
    const ConvOptions convolution{.channels = scaled(published),
                                  .kernel = {kernel, kernel},
                                  .stride = stride,
                                  .pad = {kernel / 2, kernel / 2},
                                  .start = he_normal(channels(x), kernel)};
    return relu(conv(x, convolution, name), name + ".relu");
  }
  ValueId module(ValueId x, const Module& module) {
    const std::string as = format("inception_{}", module.name);
    const ValueId one = activated(x, module.one, 1, 1, as + ".1x1");
    const ValueId three = activated(activated(x, module.reduce3, 1, 1, as + ".3x3_reduce"),
                                    module.three, 3, 1, as + ".3x3");
    const ValueId five = activated(activated(x, module.reduce5, 1, 1, as + ".5x5_reduce"),
                                   module.five, 5, 1, as + ".5x5");
    const ValueId pool = max_pool(x, {.kernel = 3, .stride = 1, .pad = 1}, as + ".pool");
    const ValueId pooled = activated(pool, module.pooled, 1, 1, as + ".pool_proj");
    return concat({one, three, five, pooled}, as);
  }
};

}  // namespace

Model make_inception_v1(const std::string& name, const ZooOptions& options) {
  InceptionV1 net(name, options);
  ValueId x = net.activated(net.image(), 64, 7, 2, "conv1");
  x = net.local_response_norm(net.max_pool(x, kHalving, "pool1"), "norm1");
  x = net.activated(net.activated(x, 64, 1, 1, "conv2.reduce"), 192, 3, 1, "conv2");
  x = net.max_pool(net.local_response_norm(x, "norm2"), kHalving, "pool2");
  for (const Module& module : kModules) {
    x = net.module(x, module);
    if (module.pool_after) x = net.max_pool(x, kHalving, format("pool_{}", module.name));
  }
  x = net.dropout(net.global_average(x, "pool5"), 0.4, "drop5");
  return net.classify(x, "classifier");
}

}  // namespace kerf::partitioner
