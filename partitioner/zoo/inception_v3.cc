// Inception v3 (Szegedy et al. 2015, "Rethinking the Inception architecture for computer vision")
// as torchvision has it, for images of 299 rows and columns.
#include "partitioner/zoo/image_net.h"

namespace kerf::partitioner {
namespace {

constexpr Start kSmall{.weight = ops::Initializer{ops::Initializer::Kind::kNormal, 0.1}};

class InceptionV3 : public ImageNet {
 public:
  InceptionV3(const std::string& name, const ZooOptions& options) : ImageNet(name, options, 299) {}

  // One of a branch's convolutions, with its normalisation and ReLU.
  struct Layer {
    const char* name;
    int64_t channels;  // as published
    std::array<int64_t, 2> kernel{1, 1};
    std::array<int64_t, 2> pad{0, 0};
    int64_t stride = 1;
  };
  ValueId activated(ValueId x, const Layer& layer, const std::string& module) {
    const std::string as = module.empty() ? layer.name : module + "." + layer.name;
    const ConvOptions convolution{.channels = scaled(layer.channels),
                                  .kernel = layer.kernel,
                                  .stride = layer.stride,
                                  .pad = layer.pad,
                                  .bias = false,
                                  .start = kSmall};
    return relu(batch_norm(conv(x, convolution, as + ".conv"), as + ".bn", 1e-3), as + ".relu");
  }
  ValueId branch(ValueId x, const std::string& module, const std::vector<Layer>& layers) {
    for (const Layer& layer : layers) x = activated(x, layer, module);
    return x;
  }
  ValueId averaged(ValueId x, int64_t published, const std::string& module) {
    x = average_pool(x, {.kernel = 3, .stride = 1, .pad = 1, .counts_padding = true},
                     module + ".average");
    return activated(x, {"branch_pool", published}, module);
  }
  ValueId halved(ValueId x, const std::string& module) {
    return max_pool(x, {3, 2}, module + ".maximum");
  }

  ValueId module_a(ValueId x, int64_t pooled, const std::string& m) {
    return concat({branch(x, m, {{"branch1x1", 64}}),
                   branch(x, m, {{"branch5x5_1", 48}, {"branch5x5_2", 64, {5, 5}, {2, 2}}}),
                   branch(x, m,
                          {{"branch3x3dbl_1", 64},
                           {"branch3x3dbl_2", 96, {3, 3}, {1, 1}},
                           {"branch3x3dbl_3", 96, {3, 3}, {1, 1}}}),
                   averaged(x, pooled, m)},
                  m);
  }
  ValueId module_b(ValueId x, const std::string& m) {
    return concat({branch(x, m, {{"branch3x3", 384, {3, 3}, {0, 0}, 2}}),
                   branch(x, m,
                          {{"branch3x3dbl_1", 64},
                           {"branch3x3dbl_2", 96, {3, 3}, {1, 1}},
                           {"branch3x3dbl_3", 96, {3, 3}, {0, 0}, 2}}),
                   halved(x, m)},
                  m);
  }
  ValueId module_c(ValueId x, int64_t c, const std::string& m) {
    return concat({branch(x, m, {{"branch1x1", 192}}),
                   branch(x, m,
                          {{"branch7x7_1", c},
                           {"branch7x7_2", c, {1, 7}, {0, 3}},
                           {"branch7x7_3", 192, {7, 1}, {3, 0}}}),
                   branch(x, m,
                          {{"branch7x7dbl_1", c},
                           {"branch7x7dbl_2", c, {7, 1}, {3, 0}},
                           {"branch7x7dbl_3", c, {1, 7}, {0, 3}},
                           {"branch7x7dbl_4", c, {7, 1}, {3, 0}},
                           {"branch7x7dbl_5", 192, {1, 7}, {0, 3}}}),
                   averaged(x, 192, m)},
                  m);
  }
  ValueId module_d(ValueId x, const std::string& m) {
    return concat({branch(x, m, {{"branch3x3_1", 192}, {"branch3x3_2", 320, {3, 3}, {0, 0}, 2}}),
                   branch(x, m,
                          {{"branch7x7x3_1", 192},
                           {"branch7x7x3_2", 192, {1, 7}, {0, 3}},
                           {"branch7x7x3_3", 192, {7, 1}, {3, 0}},
                           {"branch7x7x3_4", 192, {3, 3}, {0, 0}, 2}}),
                   halved(x, m)},
                  m);
  }
  ValueId module_e(ValueId x, const std::string& m) {
    const ValueId three = branch(x, m, {{"branch3x3_1", 384}});
    const ValueId twice =
        branch(x, m, {{"branch3x3dbl_1", 448}, {"branch3x3dbl_2", 384, {3, 3}, {1, 1}}});
    return concat(
        {branch(x, m, {{"branch1x1", 320}}),
         branch(three, m, {{"branch3x3_2a", 384, {1, 3}, {0, 1}}}),
         branch(three, m, {{"branch3x3_2b", 384, {3, 1}, {1, 0}}}),
         branch(twice, m, {{"branch3x3dbl_3a", 384, {1, 3}, {0, 1}}}),
         branch(twice, m, {{"branch3x3dbl_3b", 384, {3, 1}, {1, 0}}}), averaged(x, 192, m)},
        m);
  }
};

}  // namespace

Model make_inception_v3(const std::string& name, const ZooOptions& options) {
  InceptionV3 net(name, options);
  ValueId x = net.branch(net.image(), "",
                         {{"Conv2d_1a_3x3", 32, {3, 3}, {0, 0}, 2},
                          {"Conv2d_2a_3x3", 32, {3, 3}},
                          {"Conv2d_2b_3x3", 64, {3, 3}, {1, 1}}});
  x = net.max_pool(x, {3, 2}, "maxpool1");
  x = net.branch(x, "", {{"Conv2d_3b_1x1", 80}, {"Conv2d_4a_3x3", 192, {3, 3}}});
  x = net.max_pool(x, {3, 2}, "maxpool2");
  x = net.module_a(x, 32, "Mixed_5b");
  x = net.module_a(x, 64, "Mixed_5c");
  x = net.module_a(x, 64, "Mixed_5d");
  x = net.module_b(x, "Mixed_6a");
  x = net.module_c(x, 128, "Mixed_6b");
  x = net.module_c(x, 160, "Mixed_6c");
  x = net.module_c(x, 160, "Mixed_6d");
  x = net.module_c(x, 192, "Mixed_6e");
  x = net.module_d(x, "Mixed_7a");
  x = net.module_e(x, "Mixed_7b");
  x = net.module_e(x, "Mixed_7c");
  x = net.dropout(net.global_average(x, "avgpool"), 0.5, "dropout");
  return net.classify(x, "fc", kSmall);
}

}  // namespace kerf::partitioner
