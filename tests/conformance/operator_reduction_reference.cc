// Reductions, one result after another, and what picks the greatest by looking at all.
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "tests/conformance/operator_reference.h"
#include "tests/conformance/reference_loops.h"

namespace kerf::ops {
namespace {

using namespace reference;  // NOLINT(google-build-using-namespace)

double plain_sum(const std::vector<double>& x) { return std::accumulate(x.begin(), x.end(), 0.0); }

template <class Term>
double plain_sum_of(const std::vector<double>& x, const Term& term) {
  double sum = 0;
  for (const double each : x) sum += term(each);
  return sum;
}

double log_of_exponentials(const std::vector<double>& x) {
  const double most = largest(x);
  if (!std::isfinite(most)) return most;
  return most + std::log(plain_sum_of(x, [&](double each) { return std::exp(each - most); }));
}

// The result of the numbers that become one.
using ByHand = std::function<double(const std::vector<double>&)>;

const std::map<std::string, ByHand>& by_hand() {
  const auto square = [](double x) { return x * x; };
  static const std::map<std::string, ByHand> kAll{
      {"ReduceSum", plain_sum},
      {"ReduceMean", [](const auto& x) { return plain_sum(x) / static_cast<double>(x.size()); }},
      {"ReduceMax", largest},
      {"ReduceMin",
       [](const auto& x) { return std::accumulate(x.begin(), x.end(), x[0], smaller); }},
      {"ReduceProd",
       [](const auto& x) { return std::accumulate(x.begin(), x.end(), 1.0, std::multiplies()); }},
      {"ReduceL1",
       [](const auto& x) { return plain_sum_of(x, [](double each) { return std::abs(each); }); }},
      {"ReduceL2", [=](const auto& x) { return std::sqrt(plain_sum_of(x, square)); }},
      {"ReduceLogSum", [](const auto& x) { return std::log(plain_sum(x)); }},
      {"ReduceLogSumExp", log_of_exponentials},
      {"ReduceSumSquare", [=](const auto& x) { return plain_sum_of(x, square); }}};
  return kAll;
}

std::vector<bool> reduced_axes_of(const OperatorCase& scene, const Shape& x) {
  const auto axes = attribute_ints(scene.attributes, "axes", {});
  const bool none = attribute_int(scene.attributes, "noop_with_empty_axes", 0) != 0;
  std::vector<bool> reduced(static_cast<size_t>(x.rank()), axes.empty() && !none);
  for (const int64_t axis : axes)
    reduced[static_cast<size_t>(axis < 0 ? axis + x.rank() : axis)] = true;
  return reduced;
}

Reference reduced_by_hand(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  const ByHand& rule = by_hand().at(scene.op);
  const std::vector<bool> reduced = reduced_axes_of(scene, x.shape);
  const bool keep = attribute_int(scene.attributes, "keepdims", 1) != 0;
  return for_each_element(y, [&](const Index& i) {
    std::vector<double> together;
    double magnitude = 0;
    for_each_element(x.shape, [&](const Index& own) {
      Index to;
      for (size_t a = 0; a < own.size(); ++a)
        if (!reduced[a] || keep) to.push_back(reduced[a] ? 0 : own[a]);
      if (to != i) return Sum();
      together.push_back(at(x, own));
      if (std::isfinite(together.back())) magnitude += std::abs(together.back()) + 1;
      return Sum();
    });
    Sum sum;
    sum.add(scene.op == "ReduceMax" || scene.op == "ReduceMin" ? 0 : magnitude);
    sum.become(rule(together), std::ssize(together));
    return sum;
  });
}

// The n-th of the places along the axis, the best first, of equals the first (or the last).
Reference ranked(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  const bool picks = scene.op != "TopK";
  const int64_t wanted = attribute_int(scene.attributes, "axis", picks ? 0 : -1);
  const auto axis = static_cast<size_t>(wanted < 0 ? wanted + x.shape.rank() : wanted);
  const bool keep = !picks || attribute_int(scene.attributes, "keepdims", 1) != 0;
  const bool last = attribute_int(scene.attributes, "select_last_index", 0) != 0;
  const bool largest =
      picks ? scene.op == "ArgMax" : attribute_int(scene.attributes, "largest", 1) != 0;
  // NaN is the first that is picked, and the greatest of a line.
  const auto ahead = [&](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(picks || largest ? a : b);
    return largest ? a > b : a < b;
  };
  return for_each_element(y, [&](const Index& i) {
    Index own = i;
    if (!keep) own.insert(own.begin() + static_cast<std::ptrdiff_t>(axis), 0);
    const int64_t rank = picks ? 0 : own[axis];
    const int64_t extent = x.shape[static_cast<int>(axis)];
    const auto value = [&](int64_t place) {
      own[axis] = place;
      return at(x, own);
    };
    Sum sum;
    for (int64_t place = 0; place < extent; ++place) {
      int64_t better = 0;
      for (int64_t other = 0; other < extent; ++other) {
        const double a = value(other);
        const double b = value(place);
        const bool equal = a == b || (std::isnan(a) && std::isnan(b));
        if (equal ? (last ? other > place : other < place) : ahead(a, b)) ++better;
      }
      if (better == rank) sum.add(picks ? static_cast<double>(place) : value(place));
    }
    return sum;
  });
}

}  // namespace

std::optional<Reference> reduction_reference(const OperatorCase& scene,
                                             const std::vector<HostTensor>& in,
                                             const Shape& output) {
  if (by_hand().contains(scene.op)) return reduced_by_hand(scene, in[0], output);
  if (scene.op == "ArgMax" || scene.op == "ArgMin" || scene.op == "TopK")
    return ranked(scene, in[0], output);
  return std::nullopt;
}

}  // namespace kerf::ops
