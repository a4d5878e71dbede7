// Attention by plain loops.
#include <limits>

#include "tests/conformance/reference_loops.h"

namespace kerf::ops {
namespace {

using namespace reference;  // NOLINT(google-build-using-namespace)

// Element (n, head, t, j) of a tensor whose heads are an axis, or side by side.
struct HeadView {
  const HostTensor& tensor;
  int64_t heads;

  int64_t extent(int axis) const {  // of n, head, t, j
    if (tensor.shape.rank() == 4) return tensor.shape[axis];
    return axis == 0   ? tensor.shape[0]
           : axis == 1 ? heads
           : axis == 2 ? tensor.shape[1]
                       : tensor.shape[2] / heads;
  }
  double operator()(int64_t n, int64_t head, int64_t t, int64_t j) const {
    if (tensor.shape.rank() == 4) return at(tensor, {n, head, t, j});
    return at(tensor, {n, t, head * extent(3) + j});
  }
};

constexpr double kNothing = -std::numeric_limits<double>::infinity();

double masked(const std::vector<HostTensor>& in, Index scores) {
  if (in.size() < 4) return 0;
  const HostTensor& mask = in[3];
  scores.erase(scores.begin(), scores.end() - mask.shape.rank());
  for (int axis = 0; axis < mask.shape.rank(); ++axis)
    if (mask.shape[axis] == 1) scores[static_cast<size_t>(axis)] = 0;
  if (mask.dtype == DType::kFloat32) return at(mask, scores);
  return mask.integers[static_cast<size_t>(flat(scores, mask.shape))] != 0 ? 0 : kNothing;
}

Reference rotary(const OperatorCase& scene, const std::vector<HostTensor>& in, const Shape& y) {
  const HeadView x{in[0], attribute_int(scene.attributes, "num_heads", 0)};
  const int64_t said = attribute_int(scene.attributes, "rotary_embedding_dim", 0);
  const int64_t pairs = (said == 0 ? x.extent(3) : said) / 2;
  const bool neighbours = attribute_int(scene.attributes, "interleaved", 0) != 0;
  return for_each_element(y, [&](const Index& i) {
    const bool apart = y.rank() == 4;
    const int64_t t = apart ? i[2] : i[1];
    const int64_t head = apart ? i[1] : i[2] / x.extent(3);
    const int64_t j = apart ? i[3] : i[2] % x.extent(3);
    Sum sum;
    if (j >= 2 * pairs) {
      sum.add(x(i[0], head, t, j));
      return sum;
    }
    const bool second = neighbours ? j % 2 == 1 : j >= pairs;
    const int64_t pair = neighbours ? j / 2 : j % pairs;
    const int64_t other = neighbours ? j + (second ? -1 : 1) : j + (second ? -pairs : pairs);
    const Index of_cache =
        in.size() > 3
            ? Index{in[3].integers[static_cast<size_t>(flat({i[0], t}, in[3].shape))], pair}
            : Index{i[0], t, pair};
    sum.add(at(in[1], of_cache) * x(i[0], head, t, j));
    sum.add((second ? 1 : -1) * at(in[2], of_cache) * x(i[0], head, t, other));
    return sum;
  });
}

}  // namespace

std::optional<Reference> attention_reference(const OperatorCase& scene,
                                             const std::vector<HostTensor>& in, const Shape& y) {
  if (scene.op == "RotaryEmbedding") return rotary(scene, in, y);
  if (scene.op != "Attention") return std::nullopt;
  const auto number = [&](const char* name, int64_t otherwise) {
    return attribute_int(scene.attributes, name, otherwise);
  };
  const HeadView q{in[0], number("q_num_heads", 0)};
  const HeadView k{in[1], number("kv_num_heads", 0)};
  const HeadView v{in[2], number("kv_num_heads", 0)};
  const double scale =
      attribute_float(scene.attributes, "scale", 1 / std::sqrt(double(q.extent(3))));
  const double cap = attribute_float(scene.attributes, "softcap", 0);
  const int64_t left = number("left_window_size", -1);
  const int64_t right = number("is_causal", 0) != 0 ? 0 : number("right_window_size", -1);
  const auto score = [&](int64_t n, int64_t head, int64_t t, int64_t s) {
    if ((left >= 0 && s < t - left) || (right >= 0 && s - t > right)) return kNothing;
    double sum = 0;
    const int64_t of_keys = head / (q.extent(1) / k.extent(1));
    for (int64_t j = 0; j < q.extent(3); ++j) sum += q(n, head, t, j) * k(n, of_keys, s, j);
    sum *= scale;
    return (cap > 0 ? cap * std::tanh(sum / cap) : sum) + masked(in, {n, head, t, s});
  };
  return for_each_element(y, [&](const Index& i) {
    const bool apart = y.rank() == 4;
    const int64_t head = apart ? i[1] : i[2] / v.extent(3);
    const int64_t t = apart ? i[2] : i[1];
    double weights = 0;
    Sum sum;
    for (int64_t s = 0; s < k.extent(2); ++s) {
      const double weight = std::exp(score(i[0], head, t, s));
      weights += weight;
      sum.add(weight *
              v(i[0], head / (q.extent(1) / k.extent(1)), s, apart ? i[3] : i[2] % v.extent(3)));
    }
    if (weights > 0) sum.scale(1 / weights);
    // Errors of the scores, up to some units, and of the exponentials.
    sum.become(sum.value(), 40);
    return sum;
  });
}

}  // namespace kerf::ops
