// VGG (Simonyan, Zisserman 2014, "Very deep convolutional networks for large-scale image
// recognition"), configurations D and E.
#include "partitioner/zoo/image_net.h"

namespace kerf::partitioner {

Model make_vgg(const std::string& name, const ZooOptions& options) {
  constexpr int64_t kChannels[] = {64, 128, 256, 512, 512};
  ImageNet net(name, options);
  const int deep = name == "vgg19" ? 4 : 3;  // convolutions of the last three blocks
  int number = 0;                            // of the layer, as torchvision counts
  ValueId x = net.image();
  for (size_t block = 0; block < std::size(kChannels); ++block) {
    for (int i = 0; i < (block < 2 ? 2 : deep); ++i) {
      const int64_t channels = net.scaled(kChannels[block]);
      const ConvOptions convolution{
          .channels = channels, .kernel = {3, 3}, .pad = {1, 1}, .start = he_normal(channels, 3)};
      x = net.conv(x, convolution, format("features.{}", number++));
      x = net.relu(x, format("features.{}", number++));
    }
    x = net.max_pool(x, {2, 2}, format("features.{}", number++));
  }
  x = net.flatten(net.adaptive_average_pool(x, 7, "avgpool"), "flatten");
  for (const int layer : {0, 3}) {
    x = net.gemm(x, net.scaled(4096), format("classifier.{}", layer), normal_start(0.01));
    x = net.relu(x, format("classifier.{}", layer + 1));
    x = net.dropout(x, 0.5, format("classifier.{}", layer + 2));
  }
  return net.classify(x, "classifier.6", normal_start(0.01));
}

}  // namespace kerf::partitioner
