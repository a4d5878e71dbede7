// Convolutions, pools and normalisations over any number of axes of space.
#include <limits>

#include "tests/conformance/reference_loops.h"

namespace kerf::ops {
namespace {

using namespace reference;  // NOLINT(google-build-using-namespace)
using Ints = std::vector<int64_t>;

// Windows as ONNX describes them, for one axis of space.
struct Slide {
  int64_t kernel, stride, dilation, pad, extent, pad_end;

  int64_t place(int64_t output, int64_t entry) const {
    return output * stride - pad + entry * dilation;
  }
  bool inside(int64_t place) const { return place >= 0 && place < extent; }
  bool in_padding(int64_t place) const { return place < extent + pad_end; }
};

std::vector<Slide> slides(const OperatorCase& scene, const Shape& x, const Shape& y,
                          const Ints& kernel) {
  const size_t axes = kernel.size();
  const Ints strides = attribute_ints(scene.attributes, "strides", Ints(axes, 1));
  const Ints dilations = attribute_ints(scene.attributes, "dilations", Ints(axes, 1));
  const Ints pads = attribute_ints(scene.attributes, "pads", Ints(2 * axes, 0));
  std::vector<Slide> result;
  for (size_t i = 0; i < axes; ++i) {
    const int axis = static_cast<int>(i) + 2;
    Slide s{kernel[i], strides[i], dilations[i], pads[i], x[axis], pads[axes + i]};
    if (scene.attributes.contains("auto_pad"))  // the cases have SAME_UPPER only
      s.pad = ((y[axis] - 1) * s.stride + (s.kernel - 1) * s.dilation + 1 - s.extent) / 2;
    result.push_back(s);
  }
  return result;
}

// Calls visit(entry) for all of these extents.
void for_entries(const Ints& extents, const std::function<void(const Index&)>& visit) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  Index entry(extents.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t left = i;
    for (size_t axis = extents.size(); axis-- > 0; left /= extents[axis])
      entry[axis] = left % extents[axis];
    visit(entry);
  }
}

// Where entry `entry` of output `i`'s window lies in channel `channel`, and whether that is on the
// input, or at least in its padding.
struct Under {
  Index at;
  bool inside = true;
  bool padded = true;
};

Under under(const std::vector<Slide>& slides, const Index& i, int64_t channel, const Index& entry) {
  Under result{{i[0], channel}};
  for (size_t axis = 0; axis < slides.size(); ++axis) {
    const int64_t place = slides[axis].place(i[axis + 2], entry[axis]);
    result.at.push_back(place);
    result.inside = result.inside && slides[axis].inside(place);
    result.padded = result.padded && slides[axis].in_padding(place);
  }
  return result;
}

bool is_given(const OperatorCase& scene, size_t input) {
  return input < scene.inputs.size() && scene.inputs[input].present;
}

// What a FusedConv makes of the sum for element `i`.
void end_of_fused(const OperatorCase& scene, const std::vector<HostTensor>& in, const Index& i,
                  Sum& sum) {
  const auto of = [&](size_t input) { return double{in[input].floats[static_cast<size_t>(i[1])]}; };
  if (is_given(scene, 3)) {
    sum.add(-of(5));
    sum.scale(of(3) / std::sqrt(of(6) + attribute_float(scene.attributes, "epsilon", 1e-5)));
    sum.add(of(4));
  }
  if (is_given(scene, 7)) sum.add(at(in[7], i));
  const bool relu = scene.attributes.contains("activation");
  sum.become(relu ? std::max(sum.value(), 0.0) : sum.value(), 8);
}

Reference conv(const OperatorCase& scene, const std::vector<HostTensor>& in, const Shape& y) {
  const HostTensor& x = in[0];
  const HostTensor& w = in[1];
  const bool biased = scene.inputs.size() > 2 && scene.inputs[2].present;
  const int64_t filters = y[1] * w.shape[1] / x.shape[1];  // of a group
  const Ints kernel(w.shape.begin() + 2, w.shape.end());
  const auto windows = slides(scene, x.shape, y, kernel);
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    if (biased) sum.add(double{in[2].floats[static_cast<size_t>(i[1])]});
    for (int64_t c = 0; c < w.shape[1]; ++c)
      for_entries(kernel, [&](const Index& entry) {
        const Under place = under(windows, i, i[1] / filters * w.shape[1] + c, entry);
        Index of_w{i[1], c};
        of_w.insert(of_w.end(), entry.begin(), entry.end());
        if (place.inside) sum.add(at(x, place.at) * at(w, of_w));
      });
    if (scene.op == "FusedConv") end_of_fused(scene, in, i, sum);
    return sum;
  });
}

Reference pool(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  const bool global = scene.op.starts_with("Global");
  const auto kernel = global ? Ints(x.shape.begin() + 2, x.shape.end())
                             : std::get<Ints>(scene.attributes.at("kernel_shape"));
  const auto windows = slides(scene, x.shape, y, kernel);
  const bool largest = scene.op.ends_with("MaxPool");
  const bool average = scene.op.ends_with("AveragePool");
  const auto p = static_cast<double>(attribute_int(scene.attributes, "p", 2));
  const bool padding = scene.attributes.contains("count_include_pad");
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    int64_t counted = 0;
    for_entries(kernel, [&](const Index& entry) {
      const Under place = under(windows, i, i[1], entry);
      if (place.inside || (padding && place.padded)) ++counted;
      if (!place.inside) return;
      const double value = at(x, place.at);
      if (largest)
        sum.take_larger(value);
      else
        sum.add(average ? value : std::pow(std::abs(value), p));
    });
    if (average) sum.scale(1 / static_cast<double>(counted));
    if (!average && !largest) sum.become(std::pow(sum.value(), 1 / p), 16);
    return sum;
  });
}

Reference lrn(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  const int64_t size = attribute_int(scene.attributes, "size", 0);
  const double alpha = attribute_float(scene.attributes, "alpha", 1e-4);
  const double beta = attribute_float(scene.attributes, "beta", 0.75);
  const double bias = attribute_float(scene.attributes, "bias", 1);
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    sum.add(bias);
    for (int64_t c = i[1] - (size - 1) / 2; c <= i[1] + size / 2; ++c) {
      if (c < 0 || c >= x.shape[1]) continue;
      Index neighbour = i;
      neighbour[1] = c;
      sum.add(alpha / static_cast<double>(size) * at(x, neighbour) * at(x, neighbour));
    }
    sum.become(at(x, i) * std::pow(sum.value(), -beta), 8);
    return sum;
  });
}

// Every output element gathers the inputs whose windows reach it.
Reference conv_transpose(const OperatorCase& scene, const std::vector<HostTensor>& in,
                         const Shape& y) {
  const HostTensor& x = in[0];
  const HostTensor& w = in[1];
  const bool biased = scene.inputs.size() > 2 && scene.inputs[2].present;
  const int64_t groups = attribute_int(scene.attributes, "group", 1);
  const Ints kernel(w.shape.begin() + 2, w.shape.end());
  auto windows = slides(scene, y, x.shape, kernel);  // of the mirror, from Y to X
  const Ints behind = attribute_ints(scene.attributes, "output_padding", Ints(kernel.size(), 0));
  for (size_t i = 0; i < kernel.size(); ++i) {
    Slide& s = windows[i];
    const int64_t total = (x.shape[static_cast<int>(i) + 2] - 1) * s.stride + behind[i] +
                          (s.kernel - 1) * s.dilation + 1 - s.extent;
    if (scene.attributes.contains("output_shape")) s.pad = total - total / 2;
    if (scene.attributes.contains("auto_pad")) s.pad = total / 2;
  }
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    if (biased) sum.add(double{in[2].floats[static_cast<size_t>(i[1])]});
    const int64_t inputs = x.shape[1] / groups;
    for (int64_t c = 0; c < inputs; ++c)
      for_entries(kernel, [&](const Index& entry) {
        const int64_t channel = i[1] / w.shape[1] * inputs + c;
        Index of_x{i[0], channel};
        Index of_w{channel, i[1] % w.shape[1]};
        bool there = true;
        for (size_t axis = 0; axis < kernel.size(); ++axis) {
          const Slide& s = windows[axis];
          const int64_t from = i[axis + 2] + s.pad - entry[axis] * s.dilation;
          there = there && from >= 0 && from % s.stride == 0 &&
                  from / s.stride < x.shape[static_cast<int>(axis) + 2];
          of_x.push_back(from / s.stride);
          of_w.push_back(entry[axis]);
        }
        if (there) sum.add(at(x, of_x) * at(w, of_w));
      });
    return sum;
  });
}

// The mean and the mean square distance from it (or from 0) of the elements that visit() gives.
struct Moments {
  double mean = 0;
  double square = 0;
};
Moments moments(const std::vector<double>& values, bool centred) {
  Moments result;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) result.mean += centred ? value / count : 0;
  for (const double value : values)
    result.square += (value - result.mean) * (value - result.mean) / count;
  return result;
}

// (value - mean) * scale / root + shift, as large as its parts may be.
Sum normalised(double value, const Moments& m, double epsilon, double scale, double shift) {
  const double root = std::sqrt(m.square + epsilon);
  Sum sum;
  sum.add(std::abs(value * scale / root) + std::abs(m.mean * scale / root) + std::abs(shift));
  sum.become((value - m.mean) / root * scale + shift, 40);
  return sum;
}

Reference group_normalization(const OperatorCase& scene, const std::vector<HostTensor>& in,
                              const Shape& y) {
  const HostTensor& x = in[0];
  const int64_t groups = attribute_int(scene.attributes, "num_groups", y[1]);
  const double epsilon = attribute_float(scene.attributes, "epsilon", 1e-5);
  const int64_t length = y.elements() / (y[0] * groups);
  return for_each_element(y, [&](const Index& i) {
    const int64_t group = i[0] * groups + i[1] / (y[1] / groups);
    const auto first = x.floats.begin() + group * length;
    const Moments m = moments({first, first + length}, true);
    const auto c = static_cast<size_t>(i[1]);
    return normalised(at(x, i), m, epsilon, double{in[1].floats[c]}, double{in[2].floats[c]});
  });
}

Reference rms_normalization(const OperatorCase& scene, const std::vector<HostTensor>& in,
                            const Shape& y) {
  const double epsilon = attribute_float(scene.attributes, "epsilon", 1e-5);
  const int64_t length = in[1].shape.elements();
  return for_each_element(y, [&](const Index& i) {
    const int64_t place = flat(i, y);
    const auto first = in[0].floats.begin() + place / length * length;
    const Moments m = moments({first, first + length}, false);
    return normalised(at(in[0], i), m, epsilon,
                      double{in[1].floats[static_cast<size_t>(place % length)]}, 0);
  });
}

// Over the numbers that differ from element `i` in these axes only.
Reference axis_normalization(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  const bool centred = scene.op == "MeanVarianceNormalization";
  const Ints axes = centred ? attribute_ints(scene.attributes, "axes", {0, 2, 3})
                            : Ints{attribute_int(scene.attributes, "axis", -1)};
  const bool absolute = attribute_int(scene.attributes, "p", 2) == 1;
  return for_each_element(y, [&](const Index& i) {
    std::vector<double> values;
    Ints extents;
    for (const int64_t axis : axes)
      extents.push_back(y[static_cast<int>((axis + y.rank()) % y.rank())]);
    for_entries(extents, [&](const Index& entry) {
      Index at_entry = i;
      for (size_t k = 0; k < axes.size(); ++k)
        at_entry[static_cast<size_t>((axes[k] + y.rank()) % y.rank())] = entry[k];
      values.push_back(at(x, at_entry));
    });
    Moments m = moments(values, centred);
    double norm = 0;
    for (const double value : values) norm += absolute ? std::abs(value) : value * value;
    if (!centred) m.square = absolute ? norm * norm : norm;
    return normalised(at(x, i), m, 0, 1, 0);
  });
}

Reference max_unpool(const OperatorCase& scene, const std::vector<HostTensor>& in, const Shape& y) {
  const Ints kernel = attribute_ints(scene.attributes, "kernel_shape", {});
  const Ints strides = attribute_ints(scene.attributes, "strides", {});
  Shape pooled = y;
  for (int axis = 2; axis < y.rank(); ++axis) {
    const auto k = static_cast<size_t>(axis) - 2;
    pooled[axis] = (in[0].shape[axis] - 1) * strides[k] + kernel[k];
  }
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    for (int axis = 2; axis < y.rank(); ++axis)
      if (i[static_cast<size_t>(axis)] >= pooled[axis]) return sum;
    for (size_t from = 0; from < in[1].integers.size(); ++from)
      if (in[1].integers[from] == flat(i, pooled)) sum.add(double{in[0].floats[from]});
    return sum;
  });
}

// Nearest and linear, each axis by itself, at places that the cases have.
Reference resize(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  const auto text = [&](const char* name, const char* otherwise) {
    return attribute_string(scene.attributes, name, otherwise);
  };
  const std::string places = text("coordinate_transformation_mode", "half_pixel");
  const bool linear = text("mode", "nearest") == "linear";
  const auto scales = scene.attributes.find("scales");
  const auto tap = [&](int axis, int64_t o, int64_t entry) -> std::pair<int64_t, double> {
    const double in = static_cast<double>(x.shape[axis]);
    const double out = static_cast<double>(y[axis]);
    const double scale =
        text("keep_aspect_ratio_policy", "stretch") != "stretch" ? (axis < 2 ? 1 : 0.5)  // of all
        : scales == scene.attributes.end()
            ? out / in
            : std::get<std::vector<double>>(scales->second)[static_cast<size_t>(axis)];
    double place = (static_cast<double>(o) + 0.5) / scale - 0.5;
    if (places == "asymmetric") place = static_cast<double>(o) / scale;
    if (places == "align_corners")
      place = static_cast<double>(o) * (in - 1) / std::max(out - 1, 1.0);
    const double low =
        linear || text("nearest_mode", "") == "floor" ? std::floor(place) : std::ceil(place - 0.5);
    const double weight =
        linear ? (entry == 0 ? 1 - (place - low) : place - low) : 1 - double(entry);
    const int64_t index = static_cast<int64_t>(low) + entry;
    return {std::min(std::max<int64_t>(index, 0), x.shape[axis] - 1), weight};
  };
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    for_entries(Ints(i.size(), 2), [&](const Index& entry) {
      Index from = i;
      double weight = 1;
      for (int axis = 0; axis < y.rank(); ++axis) {
        const auto k = static_cast<size_t>(axis);
        const auto [index, of_axis] = tap(axis, i[k], entry[k]);
        from[k] = index;
        weight *= of_axis;
      }
      if (weight != 0) sum.add(weight * at(x, from));
    });
    return sum;
  });
}

}  // namespace

std::optional<Reference> layer_reference(const OperatorCase& scene,
                                         const std::vector<HostTensor>& in, const Shape& output) {
  if (scene.op == "Conv" || scene.op == "FusedConv") return conv(scene, in, output);
  if (scene.op.ends_with("Pool")) return pool(scene, in[0], output);
  if (scene.op == "MaxUnpool") return max_unpool(scene, in, output);
  if (scene.op == "ConvTranspose") return conv_transpose(scene, in, output);
  if (scene.op == "GroupNormalization" || scene.op == "InstanceNormalization")
    return group_normalization(scene, in, output);
  if (scene.op == "RMSNormalization") return rms_normalization(scene, in, output);
  if (scene.op == "LpNormalization" || scene.op == "MeanVarianceNormalization")
    return axis_normalization(scene, in[0], output);
  const auto mode = attribute_string(scene.attributes, "mode", "");
  if (scene.op == "Resize" && mode != "cubic" && !scene.attributes.contains("antialias") &&
      !scene.attributes.contains("roi"))
    return resize(scene, in[0], output);
  if (scene.op == "LRN") return lrn(scene, in[0], output);
  return std::nullopt;
}

}  // namespace kerf::ops
