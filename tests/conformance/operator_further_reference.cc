// Outputs behind the first, by plain loops: parts, and places of what was chosen.
#include "tests/conformance/operator_reference.h"
#include "tests/conformance/reference_loops.h"

namespace kerf::ops {
namespace {

using namespace reference;  // NOLINT(google-build-using-namespace)
using Ints = std::vector<int64_t>;

Sum exactly(int64_t number) {
  Sum sum;
  sum.add(static_cast<double>(number));
  return sum;
}

Reference later_part(const OperatorCase& scene, const HostTensor& whole, const Shape& part,
                     int which) {
  const int64_t said = attribute_int(scene.attributes, "axis", 0);
  const auto axis = static_cast<size_t>(said < 0 ? said + part.rank() : said);
  const auto op = bind(scene);
  int64_t before = 0;
  for (int k = 0; k < which; ++k)
    before += op->outputs()[static_cast<size_t>(k)].shape[static_cast<int>(axis)];
  return for_each_element(part, [&](const Index& i) {
    Index from = i;
    from[axis] += before;
    Sum sum;
    sum.add(at(whole, from));
    return sum;
  });
}

// Those of equal numbers in the order of their places.
Reference places_of_top(const OperatorCase& scene, const HostTensor& x, const Shape& output) {
  const int64_t said = attribute_int(scene.attributes, "axis", -1);
  const auto axis = static_cast<size_t>(said < 0 ? said + output.rank() : said);
  const bool largest = attribute_int(scene.attributes, "largest", 1) != 0;
  return for_each_element(output, [&](const Index& i) {
    std::vector<std::pair<double, int64_t>> line;
    Index own = i;
    for (own[axis] = 0; own[axis] < x.shape[static_cast<int>(axis)]; ++own[axis])
      line.emplace_back(largest ? -at(x, own) : at(x, own), own[axis]);
    std::sort(line.begin(), line.end(), [&](const auto& a, const auto& b) {
      const bool no_a = std::isnan(a.first);
      const bool no_b = std::isnan(b.first);  // the greatest of all
      if (no_a != no_b) return largest ? no_a : no_b;
      return no_a || a.first == b.first ? a.second < b.second : a.first < b.first;
    });
    return exactly(line[static_cast<size_t>(i[axis])].second);
  });
}

// Of windows without padding over images; of several NaN the last, as PyTorch has it.
Reference places_of_largest(const OperatorCase& scene, const HostTensor& x, const Shape& output) {
  const Ints kernel = attribute_ints(scene.attributes, "kernel_shape", {});
  const Ints strides = attribute_ints(scene.attributes, "strides", {1, 1});
  return for_each_element(output, [&](const Index& i) {
    Index largest;
    for (int64_t row = 0; row < kernel[0]; ++row)
      for (int64_t column = 0; column < kernel[1]; ++column) {
        const Index entry{i[0], i[1], i[2] * strides[0] + row, i[3] * strides[1] + column};
        if (largest.empty() || at(x, entry) > at(x, largest) || std::isnan(at(x, entry)))
          largest = entry;
      }
    return exactly(flat(largest, x.shape));
  });
}

}  // namespace

std::optional<Reference> further_reference(const OperatorCase& scene,
                                           const std::vector<HostTensor>& in, const Shape& output,
                                           int which) {
  if (scene.op == "Split") return later_part(scene, in[0], output, which);
  if (scene.op == "TopK") return places_of_top(scene, in[0], output);
  const bool plain = !scene.attributes.contains("pads") && output.rank() == 4;
  if (scene.op == "MaxPool" && plain) return places_of_largest(scene, in[0], output);
  if (auto statistics = statistics_reference(scene, in, output, which)) return statistics;
  if (auto rows = row_reference(scene, in, which)) return rows;
  return recurrent_reference(scene, in, output, which);
}

}  // namespace kerf::ops
