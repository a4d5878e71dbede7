#include "tests/partitioner/random_cut.h"

#include <algorithm>
#include <numeric>

#include "partitioner/builder.h"

namespace kerf::partitioner {
namespace {

using ops::IndexSet;
using ops::Layout;

bool flip(Random& random) { return draw(random, 2) == 0; }

// Disjoint sets that cover an axis, `most` at most and none of them empty: even, scattered, or
// ranges of random lengths.
std::vector<IndexSet> random_sets(const ops::IterationAxis& axis, int64_t extent, int most,
                                  Random& random) {
  const int64_t units = extent / axis.unit;
  std::vector<std::vector<ops::Range>> ranges(static_cast<size_t>(most));
  const auto even = ops::split_evenly(units, most);
  const bool evenly = flip(random);
  std::vector<size_t> owners;  // of each unit
  for (int64_t unit = 0; unit < units; ++unit) {
    const auto in_even = std::find_if(even.begin(), even.end(),
                                      [&](const IndexSet& set) { return set.contains(unit); });
    owners.push_back(evenly ? static_cast<size_t>(in_even - even.begin())
                            : static_cast<size_t>(draw(random, most)));
  }
  if (axis.contiguous || draw(random, 4) == 0) std::sort(owners.begin(), owners.end());
  for (int64_t unit = 0; unit < units; ++unit)
    ranges[owners[static_cast<size_t>(unit)]].push_back({unit * axis.unit, (unit + 1) * axis.unit});
  std::vector<IndexSet> sets;
  for (auto& each : ranges)
    if (!each.empty()) sets.push_back(IndexSet(std::move(each)).normalized(extent));
  return sets;
}

// The axes along which a node may be divided here, in random order.
std::vector<int> random_axes(const Model& model, NodeId node, Random& random, const Kinds& kinds) {
  const ops::IterationSpace& space = model.op(node).space();
  std::vector<int> axes;
  for (int axis = 0; axis < static_cast<int>(space.axes.size()); ++axis) {
    const ops::IterationAxis& each = space.axes[static_cast<size_t>(axis)];
    const bool summed = !ops::has_axis(space.outputs[0], axis);
    const bool wanted = node == model.loss() || kinds.partial_sums || !summed;
    if (each.undivided.empty() && wanted) axes.push_back(axis);
  }
  std::shuffle(axes.begin(), axes.end(), random);
  return axes;
}

// The boxes of a grid along none to two axes.
std::vector<ops::Box> random_grid(const Model& model, NodeId node, int parts, int64_t largest,
                                  Random& random, const Kinds& kinds) {
  const ops::IterationSpace& space = model.op(node).space();
  const ops::Shape extents = space.extents().with_batch(largest);
  std::vector<ops::Box> boxes{ops::Box::whole(extents.rank())};
  auto axes = random_axes(model, node, random, kinds);
  const int wanted = draw(random, 4);  // one axis twice as often
  axes.resize(std::min(axes.size(), static_cast<size_t>(wanted == 3 ? 1 : wanted)));
  for (const int axis : axes) {
    const int rest = axis == axes.back() ? 1 : 2;  // leaves room for the other axis
    const int room = std::max(1, parts / static_cast<int>(boxes.size()) / rest);
    const auto sets = random_sets(space.axes[static_cast<size_t>(axis)], extents[axis],
                                  1 + draw(random, room), random);
    std::vector<ops::Box> finer;
    for (const ops::Box& box : boxes)
      for (const IndexSet& set : sets) {
        finer.push_back(box);
        finer.back().axes[static_cast<size_t>(axis)] = set;
      }
    boxes = std::move(finer);
  }
  return boxes;
}

}  // namespace

Model random_model(Random& random) {
  struct Tensor {
    ValueId id = -1;
    int64_t width = 0;
    bool used = false;
  };
  Builder b("random");
  const ValueId x = b.input("x", {ops::kBatch, 5});
  std::vector<Tensor> tensors{{b.gemm(x, 10), 10, false}};
  for (int left = 3 + draw(random, 5); left > 0; --left) {
    Tensor& from = tensors[static_cast<size_t>(draw(random, static_cast<int>(tensors.size())))];
    from.used = true;
    const auto partner = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) {
      return t.width == from.width && t.id != from.id;
    });
    const int64_t width = draw(random, 2) == 0 ? 10 : 1 + draw(random, 12);
    Tensor to{-1, from.width, false};
    switch (draw(random, 3)) {
      case 0:
        to.id = b.relu(from.id);
        break;
      case 1:
        if (partner != tensors.end()) {
          partner->used = true;
          to.id = b.add(from.id, partner->id);
          break;
        }
        [[fallthrough]];
      default:
        to = {b.gemm(from.id, width), width, false};
    }
    tensors.push_back(to);
  }
  ValueId scores = -1;  // a Gemm of everything that nobody reads yet
  for (const Tensor& tensor : tensors) {
    if (tensor.used) continue;
    const ValueId end = b.gemm(tensor.id, 4);
    scores = scores < 0 ? end : b.add(scores, end);
  }
  b.loss(scores);
  return b.build();
}

// The boxes to random parts; half the time each part that is left may repeat one of them.
Layout random_layout(const Model& model, NodeId node, std::vector<int> owners, int64_t largest,
                     Random& random, const Kinds& kinds) {
  const auto boxes =
      random_grid(model, node, static_cast<int>(owners.size()), largest, random, kinds);
  std::shuffle(owners.begin(), owners.end(), random);
  Layout layout;
  for (size_t i = 0; i < boxes.size(); ++i) layout.shares.push_back({owners[i], boxes[i]});
  if (flip(random)) return layout;
  for (size_t i = boxes.size(); i < owners.size(); ++i)
    if (flip(random))
      layout.shares.push_back(
          {owners[i], boxes[static_cast<size_t>(draw(random, static_cast<int>(boxes.size())))]});
  return layout;
}

Division random_division(const Model& model, int parts, int64_t largest, Random& random,
                         const Kinds& kinds) {
  Division division{.nodes = {}, .largest = largest};
  std::vector<int> all(static_cast<size_t>(parts));
  std::iota(all.begin(), all.end(), 0);
  for (NodeId node = 0; node < model.nodes(); ++node)
    division.nodes.push_back(random_layout(model, node, all, largest, random, kinds));
  return division;
}

std::vector<float> random_numbers(size_t count, Random& random) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(draw(random, 9) - 4);
  return numbers;
}

}  // namespace kerf::partitioner
