// Reductions, one result after another, and what picks the greatest by looking at all.
#include <limits>
#include <map>

#include "tests/conformance/operator_reference.h"
#include "tests/conformance/reference_loops.h"

namespace kerf::ops {
namespace {

using namespace reference;  // NOLINT(google-build-using-namespace)

// Puts the numbers together, and makes the result of them.
struct ByHand {
  double begin;
  double (*join)(double, double);
  double (*finish)(double value, double count);
};

double as_it_is(double value, double) { return value; }

const std::map<std::string, ByHand>& by_hand() {
  static const std::map<std::string, ByHand> kAll{
      {"ReduceSum", {0, [](double a, double x) { return a + x; }, as_it_is}},
      {"ReduceMean",
       {0, [](double a, double x) { return a + x; }, [](double a, double n) { return a / n; }}},
      {"ReduceMax",
       {-std::numeric_limits<double>::infinity(), [](double a, double x) { return std::max(a, x); },
        as_it_is}},
      {"ReduceMin",
       {std::numeric_limits<double>::infinity(), [](double a, double x) { return std::min(a, x); },
        as_it_is}},
      {"ReduceProd", {1, [](double a, double x) { return a * x; }, as_it_is}},
      {"ReduceL1", {0, [](double a, double x) { return a + std::abs(x); }, as_it_is}},
      {"ReduceL2",
       {0, [](double a, double x) { return a + x * x; },
        [](double a, double) { return std::sqrt(a); }}},
      {"ReduceLogSum",
       {0, [](double a, double x) { return a + x; }, [](double a, double) { return std::log(a); }}},
      {"ReduceLogSumExp",
       {0, [](double a, double x) { return a + std::exp(x); },
        [](double a, double) { return std::log(a); }}},
      {"ReduceSumSquare", {0, [](double a, double x) { return a + x * x; }, as_it_is}}};
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
    double value = rule.begin;
    double magnitude = 0;
    int64_t count = 0;
    for_each_element(x.shape, [&](const Index& own) {
      Index to;
      for (size_t a = 0; a < own.size(); ++a)
        if (!reduced[a] || keep) to.push_back(reduced[a] ? 0 : own[a]);
      if (to != i) return Sum();
      value = rule.join(value, at(x, own));
      magnitude += std::abs(at(x, own)) + 1;
      ++count;
      return Sum();
    });
    double result = rule.finish(value, static_cast<double>(count));
    if (!is_floating(x.dtype)) result = std::trunc(result);
    Sum sum;
    sum.add(std::max(magnitude, std::abs(value)));
    sum.become(result, count);
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
        if (a == b ? (last ? other > place : other < place) : (largest ? a > b : a < b)) ++better;
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
