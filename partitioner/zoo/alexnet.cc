// AlexNet, in torchvision's form and in Caffe's (bvlc_alexnet).
#include "partitioner/zoo/image_net.h"

namespace kerf::partitioner {
namespace {

// Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks".
ValueId alexnet_features(ImageNet& net) {
  struct Layer {
    int number;
    int64_t channels, kernel, stride, pad;
    int pool;  // after it; 0: none
  };
  constexpr Layer kLayers[] = {{0, 64, 11, 4, 2, 2},
                               {3, 192, 5, 1, 2, 5},
                               {6, 384, 3, 1, 1, 0},
                               {8, 256, 3, 1, 1, 0},
                               {10, 256, 3, 1, 1, 12}};
  ValueId x = net.image();
  for (const Layer& layer : kLayers) {
    x = net.conv(x, net.scaled(layer.channels), layer.kernel, layer.stride, layer.pad,
                 format("features.{}", layer.number));
    x = net.relu(x, format("features.{}", layer.number + 1));
    if (layer.pool != 0) x = net.max_pool(x, {3, 2}, format("features.{}", layer.pool));
  }
  return x;
}

}  // namespace

Model make_alexnet(const std::string& name, const ZooOptions& options) {
  ImageNet net(name, options);
  ValueId x = net.adaptive_average_pool(alexnet_features(net), 6, "avgpool");
  x = net.dropout(net.flatten(x, "flatten"), 0.5, "classifier.0");
  x = net.relu(net.gemm(x, net.scaled(4096), "classifier.1"), "classifier.2");
  x = net.dropout(x, 0.5, "classifier.3");
  x = net.relu(net.gemm(x, net.scaled(4096), "classifier.4"), "classifier.5");
  return net.classify(x, "classifier.6");
}

// Two towers as groups of the second, fourth and fifth convolution; of the last pooling the window
// at the edge hangs over. Weights are normal, of a deviation of 0.01 (0.005 in the hidden layers),
// as the published training has them.
Model make_bvlc_alexnet(const std::string& name, const ZooOptions& options) {
  ImageNet net(name, options);
  const auto conv = [&](ValueId x, int number, int64_t channels, int64_t kernel, int64_t groups) {
    const std::string as = format("conv{}", number);
    const ConvOptions convolution{
        .channels = net.scaled(channels, 2),
        .kernel = {kernel, kernel},
        .stride = number == 1 ? 4 : 1,
        .pad = {number == 1 ? 0 : kernel / 2, number == 1 ? 0 : kernel / 2},
        .groups = groups,
        .start = normal_start(0.01)};
    return net.relu(net.conv(x, convolution, as), format("relu{}", number));
  };
  ValueId x = conv(net.image(), 1, 96, 11, 1);
  x = net.max_pool(net.local_response_norm(x, "norm1"), {3, 2}, "pool1");
  x = conv(x, 2, 256, 5, 2);
  x = net.max_pool(net.local_response_norm(x, "norm2"), {3, 2}, "pool2");
  x = conv(conv(conv(x, 3, 384, 3, 1), 4, 384, 3, 2), 5, 256, 3, 2);
  x = net.flatten(net.max_pool(x, {.kernel = 3, .stride = 2, .ceil = true}, "pool5"), "flatten");
  for (const int number : {6, 7}) {
    x = net.gemm(x, net.scaled(4096), format("fc{}", number), normal_start(0.005));
    x = net.dropout(net.relu(x, format("relu{}", number)), 0.5, format("drop{}", number));
  }
  return net.classify(x, "fc8", normal_start(0.01));
}

}  // namespace kerf::partitioner
