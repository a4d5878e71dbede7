// ShuffleNet v2, 1x (Ma et al. 2018, "ShuffleNet V2: practical guidelines for efficient CNN
// architecture design").
#include "partitioner/zoo/image_net.h"

namespace kerf::partitioner {
namespace {

using Ints = std::vector<int64_t>;

class ShuffleNet : public ImageNet {
 public:
  using ImageNet::ImageNet;

  // Layers `number` and `number` + 1 of a branch.
  ValueId normalized(ValueId x, int64_t to, int64_t kernel, int64_t stride, int64_t groups,
                     const std::string& branch, int number) {
    x = plain_conv(x, to, kernel, stride, format("{}.{}", branch, number), {}, groups);
    return batch_norm(x, format("{}.{}", branch, number + 1));
  }
  ValueId activated(ValueId x, int64_t to, int64_t kernel, int64_t stride,
                    const std::string& branch, int number) {
    return relu(normalized(x, to, kernel, stride, 1, branch, number),
                format("{}.{}", branch, number + 2));
  }
  // Channels of both halves by turns.
  ValueId shuffled(ValueId x, const std::string& name) {
    const int64_t all = channels(x);
    const int64_t rows = shape(x)[2];
    const int64_t columns = shape(x)[3];
    x = reshape(x, {0, 2, all / 2, rows, columns}, name + ".halves");
    x = node("Transpose", {x}, {{"perm", Ints{0, 2, 1, 3, 4}}}, name + ".shuffle");
    return reshape(x, {0, all, rows, columns}, name);
  }
  ValueId unit(ValueId x, int64_t to, int64_t stride, const std::string& name) {
    ValueId kept = x;
    ValueId worked = x;
    if (stride == 1) {
      const auto halves = nodes("Split", {x}, {{"axis", int64_t{1}}}, 2, name + ".split");
      kept = halves[0];
      worked = halves[1];
    } else {
      kept = normalized(x, channels(x), 3, stride, channels(x), name + ".branch1", 0);
      kept = activated(kept, to / 2, 1, 1, name + ".branch1", 2);
    }
    const std::string branch = name + ".branch2";
    worked = activated(worked, to / 2, 1, 1, branch, 0);
    worked = normalized(worked, to / 2, 3, stride, to / 2, branch, 3);
    worked = activated(worked, to / 2, 1, 1, branch, 5);
    return shuffled(concat({kept, worked}, name + ".cat"), name);
  }
};

}  // namespace

Model make_shufflenet(const std::string& name, const ZooOptions& options) {
  struct UnitsOf {
    int number;
    int64_t channels;
    int units;
  };
  constexpr UnitsOf kStages[] = {{2, 116, 4}, {3, 232, 8}, {4, 464, 4}};
  ShuffleNet net(name, options);
  ValueId x = net.activated(net.image(), net.scaled(24), 3, 2, "conv1", 0);
  x = net.max_pool(x, {.kernel = 3, .stride = 2, .pad = 1}, "maxpool");
  for (const UnitsOf& stage : kStages)
    for (int i = 0; i < stage.units; ++i)
      x = net.unit(x, net.scaled(stage.channels, 2), i == 0 ? 2 : 1,
                   format("stage{}.{}", stage.number, i));
  x = net.activated(x, net.scaled(1024), 1, 1, "conv5", 0);
  return net.classify(net.global_average(x, "mean"), "fc");
}

}  // namespace kerf::partitioner
