#include "tests/partitioner/random_cut.h"

#include <algorithm>
#include <numeric>

#include "partitioner/builder.h"

namespace kerf::partitioner {
namespace {

using ops::IndexSet;
using ops::Layout;

int draw(Random& random, int below) {
  return std::uniform_int_distribution<int>(0, below - 1)(random);
}

// One to all of the parts, in random order.
std::vector<int> some_parts(int parts, Random& random) {
  std::vector<int> all(static_cast<size_t>(parts));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  all.resize(1 + static_cast<size_t>(draw(random, parts)));
  return all;
}

// Every index of the feature axis to a random part.
Layout scattered(int parts, const ops::Shape& shape, Random& random) {
  const auto owners = some_parts(parts, random);
  std::vector<std::vector<int64_t>> indices(owners.size());
  for (int64_t i = 0; i < shape[1]; ++i)
    indices[static_cast<size_t>(draw(random, static_cast<int>(owners.size())))].push_back(i);
  std::vector<IndexSet> sets;
  for (const auto& set : indices) sets.push_back(IndexSet::of(set));
  return Layout::split(owners, shape.rank(), 1, sets);
}

// Scattered, and each part without a share may repeat another's.
Layout with_replicas(int parts, const ops::Shape& shape, Random& random) {
  Layout layout = scattered(parts, shape, random);
  const auto boxes = layout.shares;
  for (int part = 0; part < parts; ++part)
    if (layout.find(part) == nullptr && draw(random, 2) == 0)
      layout.shares.push_back(
          {part, boxes[static_cast<size_t>(draw(random, static_cast<int>(boxes.size())))].box,
           false});
  return layout;
}

// Boxes of which some are held as partial sums by two parts.
Layout with_partial_sums(int parts, const ops::Shape& shape, Random& random) {
  Layout layout = scattered(parts, shape, random);
  for (int part = 0; part < parts; ++part) {
    if (layout.find(part) != nullptr) continue;
    auto& share =
        layout.shares[static_cast<size_t>(draw(random, static_cast<int>(layout.shares.size())))];
    share.partial = true;
    layout.shares.push_back({part, share.box, true});
  }
  return layout;
}

Layout random_layout(int parts, const ops::Shape& shape, Random& random, const LayoutKinds& kinds) {
  switch (draw(random, kinds.partial_sums ? 6 : 5)) {
    case 0:
      return Layout::whole(draw(random, parts), shape.rank());
    case 1:
      return Layout::replicated(some_parts(parts, random), shape.rank());
    case 2: {
      const auto owners = some_parts(parts, random);
      return Layout::split(owners, shape.rank(), 1,
                           ops::split_evenly(shape[1], static_cast<int>(owners.size())));
    }
    case 3:
      return scattered(parts, shape, random);
    case 4:
      return with_replicas(parts, shape, random);
    default:
      return with_partial_sums(parts, shape, random);
  }
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

std::vector<Layout> random_layouts(const Model& model, int parts, Random& random,
                                   const LayoutKinds& kinds) {
  std::vector<Layout> layouts(static_cast<size_t>(model.values()));
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const ValueId output = model.node(node).outputs[0];
    const ops::Shape& shape = model.value(output).spec.shape;
    layouts[static_cast<size_t>(output)] = node == model.loss()
                                               ? Layout::whole(draw(random, parts), shape.rank())
                                               : random_layout(parts, shape, random, kinds);
  }
  return layouts;
}

std::vector<float> random_numbers(size_t count, Random& random) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(draw(random, 9) - 4);
  return numbers;
}

}  // namespace kerf::partitioner
