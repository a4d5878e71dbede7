// Means, variances and sums over channels and rows, and what is normalised by them, by plain loops.
#include "ops/image_format.h"
#include "tests/conformance/operator_reference.h"
#include "tests/conformance/reference_loops.h"

namespace kerf::ops {
namespace {

using namespace reference;  // NOLINT(google-build-using-namespace)

// Of some numbers: the mean, the mean square distance from it, and the mean absolute number.
struct Spread {
  double mean = 0;
  double square = 0;
  double size = 0;
  int64_t count = 0;
};

Spread spread_of(const std::vector<double>& numbers) {
  Spread spread;
  spread.count = static_cast<int64_t>(numbers.size());
  const auto count = static_cast<double>(numbers.size());
  for (const double x : numbers) spread.mean += x / count;
  for (const double x : numbers) spread.size += std::abs(x) / count;
  for (const double x : numbers) spread.square += (x - spread.mean) * (x - spread.mean) / count;
  return spread;
}

Sum result(double value, double magnitude, int64_t roundings) {
  Sum sum;
  sum.add(magnitude);
  sum.become(value, roundings);
  return sum;
}

// Output 0, 1 or 2: what is normalised, the mean, what was divided by or the variance.
Sum normalised_by(const Spread& s, double x, double epsilon, double scale, double shift) {
  const double root = std::sqrt(s.square + epsilon);
  return result((x - s.mean) / root * scale + shift,
                (std::abs(x) + s.size) / root * std::abs(scale) + std::abs(shift), s.count + 40);
}

size_t channel_axis(const OperatorCase& scene, const Shape& x) {
  return image_format(scene.attributes) == ImageFormat::kChannelsLast
             ? static_cast<size_t>(x.rank()) - 1
             : 1;
}

std::vector<double> numbers_of_channel(const HostTensor& x, size_t axis, int64_t channel) {
  std::vector<double> numbers;
  for_each_element(x.shape, [&](const Index& i) {
    if (i[axis] == channel) numbers.push_back(at(x, i));
    return Sum();
  });
  return numbers;
}

double number_at(const HostTensor& list, int64_t i) {
  return double{list.floats[static_cast<size_t>(i)]};
}

Reference batch_normalization(const OperatorCase& scene, const std::vector<HostTensor>& in,
                              const Shape& output, int which) {
  const size_t axis = channel_axis(scene, in[0].shape);
  const bool training = attribute_int(scene.attributes, "training_mode", 0) != 0;
  const double epsilon = attribute_float(scene.attributes, "epsilon", 1e-5);
  std::vector<Spread> spreads;
  for (int64_t c = 0; c < in[1].shape[0]; ++c) {
    spreads.push_back(spread_of(numbers_of_channel(in[0], axis, c)));
    if (!training) spreads.back().mean = number_at(in[3], c);
    if (!training) spreads.back().square = number_at(in[4], c);
  }
  return for_each_element(output, [&](const Index& i) {
    const int64_t c = i[which == 0 ? axis : 0];
    const Spread& s = spreads[static_cast<size_t>(c)];
    if (which == 1) return result(s.mean, s.size, s.count + 3);
    if (which == 2) return result(s.square, s.square + s.size * s.size, s.count + 10);
    return normalised_by(s, at(in[0], i), epsilon, number_at(in[1], c), number_at(in[2], c));
  });
}

Reference layer_normalization(const OperatorCase& scene, const std::vector<HostTensor>& in,
                              const Shape& output, int which) {
  const double epsilon = attribute_float(scene.attributes, "epsilon", 1e-5);
  const int64_t length = in[1].shape.elements();
  const auto spread_at = [&](int64_t row) {
    const auto first = in[0].floats.begin() + row * length;
    return spread_of({first, first + length});
  };
  return for_each_element(output, [&](const Index& i) {
    const int64_t place = flat(i, output);
    if (which == 0) {
      const double shift = in.size() > 2 ? number_at(in[2], place % length) : 0;
      return normalised_by(spread_at(place / length), at(in[0], i), epsilon,
                           number_at(in[1], place % length), shift);
    }
    const Spread s = spread_at(place);
    const double inverse = 1 / std::sqrt(s.square + epsilon);
    return which == 1 ? result(s.mean, s.size, length + 3)
                      : result(inverse, inverse * (1 + s.size * s.size / s.square), length + 10);
  });
}

Reference channel_sums(const OperatorCase& scene, const std::vector<HostTensor>& in,
                       const Shape& output) {
  const size_t axis = channel_axis(scene, in[0].shape);
  const bool squares = scene.op == "CenteredSquareSum";
  return for_each_element(output, [&](const Index& i) {
    Sum sum;
    for (const double x : numbers_of_channel(in[0], axis, i.back())) {
      const double mean = squares ? at(in[1], {0, i[0]}) / at(in[1], {1, i[0]}) : 0;
      sum.add(squares ? (x - mean) * (x - mean) : i[0] == 0 ? x : 1);
    }
    sum.become(sum.value(), 10);
    return sum;
  });
}

// Of a row the sum, or that of squares of the distance from the mean that `in[1]` says, else from 0.
Reference row_sums(const OperatorCase& scene, const std::vector<HostTensor>& in,
                   const Shape& output) {
  const int64_t length = in[0].shape.elements() / output.elements();
  const auto count = static_cast<double>(length);
  return for_each_element(output, [&](const Index& i) {
    const int64_t row = flat(i, output);
    const double mean = in.size() > 1 ? number_at(in[1], row) / count : 0;
    Sum sum;
    for (int64_t at = row * length; at < (row + 1) * length; ++at) {
      const double x = number_at(in[0], at);
      sum.add(scene.op == "RowSum" ? x : (x - mean) * (x - mean));
    }
    sum.become(sum.value(), 10);
    return sum;
  });
}

// X, Scale, squares, B, sums, of which the last two may be absent.
Reference row_normalization(const OperatorCase& scene, const std::vector<HostTensor>& in,
                            const Shape& output) {
  const double epsilon = attribute_float(scene.attributes, "epsilon", 1e-5);
  const int64_t length = in[1].shape.elements();
  const auto count = static_cast<double>(length);
  const auto given = [&](size_t k) { return in.size() > k && !in[k].floats.empty(); };
  return for_each_element(output, [&](const Index& i) {
    const int64_t place = flat(i, output);
    const int64_t row = place / length;
    Spread s;
    s.mean = given(4) ? number_at(in[4], row) / count : 0;
    s.size = std::abs(s.mean);
    s.square = number_at(in[2], row) / count;
    return normalised_by(s, at(in[0], i), epsilon, number_at(in[1], place % length),
                         given(3) ? number_at(in[3], place % length) : 0);
  });
}

Reference channel_statistics(const std::vector<HostTensor>& in, const Shape& output, int which) {
  return for_each_element(output, [&](const Index& i) {
    const double value = (which == 0 ? at(in[0], {0, i[0]}) : at(in[1], i)) / at(in[0], {1, i[0]});
    return result(value, std::abs(value), 3);
  });
}

// The suite's normaliser is 4.
Reference sum_loss(const std::vector<HostTensor>& in) {
  return for_each_element({}, [&](const Index&) {
    Sum sum;
    for_each_element(in[0].shape, [&](const Index& i) {
      sum.add(at(in[0], i) * (in.size() > 1 ? repeated_at(in[1], i) : 1) / 4);
      return Sum();
    });
    return sum;
  });
}

}  // namespace

std::optional<Reference> statistics_reference(const OperatorCase& scene,
                                              const std::vector<HostTensor>& in,
                                              const Shape& output, int which) {
  if (scene.op == "BatchNormalization") return batch_normalization(scene, in, output, which);
  if (scene.op == "LayerNormalization") return layer_normalization(scene, in, output, which);
  if (scene.op == "ChannelSum" || scene.op == "CenteredSquareSum")
    return channel_sums(scene, in, output);
  if (scene.op == "RowSum" || scene.op == "RowSquareSum") return row_sums(scene, in, output);
  if (scene.op == "RowNormalization") return row_normalization(scene, in, output);
  if (scene.op == "ChannelStatistics") return channel_statistics(in, output, which);
  if (scene.op == "SumLoss") return sum_loss(in);
  return std::nullopt;
}

}  // namespace kerf::ops
