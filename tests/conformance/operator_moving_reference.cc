// Element by element, where each comes from: every operator that computes nothing.
#include "tests/conformance/operator_reference.h"
#include "tests/conformance/reference_loops.h"

namespace kerf::ops {
namespace {

using namespace reference;  // NOLINT(google-build-using-namespace)
using Ints = std::vector<int64_t>;
using Inputs = std::vector<HostTensor>;

Sum only(double value) {
  Sum sum;
  sum.become(value, 1);
  return sum;
}

int64_t integer(const OperatorCase& scene, const char* name, int64_t otherwise) {
  return attribute_int(scene.attributes, name, otherwise);
}

Ints list(const OperatorCase& scene, const char* name) {
  return attribute_ints(scene.attributes, name, {});
}

size_t axis_of(const OperatorCase& scene, const Shape& shape, int64_t otherwise) {
  const int64_t axis = integer(scene, "axis", otherwise);
  return static_cast<size_t>(axis < 0 ? axis + shape.rank() : axis);
}

// The axes that attribute `axes` names, or the first ones.
std::vector<size_t> named_axes(const OperatorCase& scene, const Shape& shape, size_t count) {
  std::vector<size_t> axes;
  for (const int64_t axis : list(scene, "axes"))
    axes.push_back(static_cast<size_t>(axis < 0 ? axis + shape.rank() : axis));
  for (size_t i = 0; axes.size() < count; ++i) axes.push_back(i);
  return axes;
}

int64_t extent(const Shape& shape, size_t axis) { return shape[static_cast<int>(axis)]; }

int64_t picked(const HostTensor& indices, const Index& index, int64_t extent) {
  const auto i = static_cast<int64_t>(at(indices, index));
  return i < 0 ? i + extent : i;
}

// Calls `from`, which turns an output's index into the input's; false: there is none.
template <class From>
Reference moved(const HostTensor& x, const Shape& y, double otherwise, const From& from) {
  Reference reference = for_each_element(y, [&](const Index& i) {
    Index own = i;
    return only(from(own) ? at(x, own) : otherwise);
  });
  reference.keeps_sign = true;
  return reference;
}

Reference slice(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  const Ints starts = list(scene, "starts");
  const Ints steps = list(scene, "steps");
  const auto axes = named_axes(scene, x.shape, starts.size());
  return moved(x, y, 0, [&](Index& i) {
    for (size_t a = 0; a < axes.size(); ++a) {
      const int64_t length = extent(x.shape, axes[a]);
      const int64_t step = steps.empty() ? 1 : steps[a];
      int64_t start = starts[a] < 0 ? starts[a] + length : starts[a];
      start = std::clamp<int64_t>(start, 0, step < 0 ? length - 1 : length);
      i[axes[a]] = start + i[axes[a]] * step;
    }
    return true;
  });
}

// Goes step by step, as a person would.
int64_t unpadded(const std::string& mode, int64_t place, int64_t length) {
  if (mode == "edge") return std::clamp<int64_t>(place, 0, length - 1);
  while (place < 0 || place >= length) {
    if (mode == "wrap")
      place += place < 0 ? length : -length;
    else
      place = place < 0 ? -place : 2 * (length - 1) - place;
  }
  return place;
}

Reference pad(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  const Ints pads = list(scene, "pads");
  const std::string mode = attribute_string(scene.attributes, "mode", "constant");
  const auto axes = named_axes(scene, x.shape, pads.size() / 2);
  return moved(x, y, attribute_float(scene.attributes, "value", 0), [&](Index& i) {
    for (size_t a = 0; a < axes.size(); ++a) {
      const int64_t length = extent(x.shape, axes[a]);
      i[axes[a]] -= pads[a];
      const bool inside = i[axes[a]] >= 0 && i[axes[a]] < length;
      if (!inside && mode == "constant") return false;
      i[axes[a]] = unpadded(mode, i[axes[a]], length);
    }
    return true;
  });
}

Reference compress(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  const size_t axis = axis_of(scene, x.shape, 0);
  Ints kept;
  const Ints condition = list(scene, "condition");
  for (size_t i = 0; i < condition.size(); ++i)
    if (condition[i] != 0) kept.push_back(static_cast<int64_t>(i));
  return moved(x, y, 0, [&](Index& i) {
    i[axis] = kept[static_cast<size_t>(i[axis])];
    return true;
  });
}

Reference repeated(const HostTensor& x, const Shape& y) {
  return for_each_element(y, [&](const Index& i) {
    Index own(i.end() - x.shape.rank(), i.end());
    for (size_t a = 0; a < own.size(); ++a) own[a] %= extent(x.shape, a);
    return only(at(x, own));
  });
}

Reference transposed(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  Ints perm = list(scene, "perm");
  for (int64_t i = x.shape.rank(); perm.size() < static_cast<size_t>(x.shape.rank());)
    perm.push_back(--i);
  return moved(x, y, 0, [&](Index& i) {
    const Index out = i;
    for (size_t a = 0; a < perm.size(); ++a) i[static_cast<size_t>(perm[a])] = out[a];
    return true;
  });
}

// Blocks of b by b pixels: the channel that pixel (row, column) of the larger image has.
Reference blocks(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  const int64_t b = integer(scene, "blocksize", 1);
  const bool faster = attribute_string(scene.attributes, "mode", "DCR") == "CRD";
  const bool to_space = scene.op == "DepthToSpace";
  const int64_t channels = to_space ? y[1] : x.shape[1];  // of the larger image
  return moved(x, y, 0, [&](Index& i) {
    if (to_space) {
      const int64_t place = i[2] % b * b + i[3] % b;
      i = {i[0], faster ? i[1] * b * b + place : place * channels + i[1], i[2] / b, i[3] / b};
    } else {
      const int64_t place = faster ? i[1] % (b * b) : i[1] / channels;
      const int64_t channel = faster ? i[1] / (b * b) : i[1] % channels;
      i = {i[0], channel, i[2] * b + place / b, i[3] * b + place % b};
    }
    return true;
  });
}

Reference concatenated(const OperatorCase& scene, const Inputs& in, const Shape& y) {
  const size_t axis = axis_of(scene, y, 0);
  return for_each_element(y, [&](const Index& i) {
    Index own = i;
    size_t part = 0;
    while (own[axis] >= extent(in[part].shape, axis)) own[axis] -= extent(in[part++].shape, axis);
    return only(at(in[part], own));
  });
}

Reference gathered(const OperatorCase& scene, const Inputs& in, const Shape& y) {
  const auto axis = static_cast<std::ptrdiff_t>(axis_of(scene, in[0].shape, 0));
  const int64_t length = in[0].shape[static_cast<int>(axis)];
  return for_each_element(y, [&](const Index& i) {
    const Index pick(i.begin() + axis, i.begin() + axis + in[1].shape.rank());
    Index own(i.begin(), i.begin() + axis);
    own.push_back(picked(in[1], pick, length));
    own.insert(own.end(), i.begin() + axis + in[1].shape.rank(), i.end());
    return only(at(in[0], own));
  });
}

Reference gathered_elements(const OperatorCase& scene, const Inputs& in, const Shape& y) {
  const size_t axis = axis_of(scene, in[0].shape, 0);
  return moved(in[0], y, 0, [&](Index& i) {
    i[axis] = picked(in[1], i, extent(in[0].shape, axis));
    return true;
  });
}

Reference gathered_tuples(const OperatorCase& scene, const Inputs& in, const Shape& y) {
  const auto batch = static_cast<std::ptrdiff_t>(integer(scene, "batch_dims", 0));
  const int lead = in[1].shape.rank() - 1;
  return for_each_element(y, [&](const Index& i) {
    Index own(i.begin(), i.begin() + batch);
    Index tuple(i.begin(), i.begin() + lead);
    tuple.push_back(0);
    for (; tuple.back() < in[1].shape[lead]; ++tuple.back())
      own.push_back(picked(in[1], tuple, extent(in[0].shape, own.size())));
    own.insert(own.end(), i.begin() + lead, i.end());
    return only(at(in[0], own));
  });
}

// Looks for the updates of every element, first to last.
Reference scattered(const OperatorCase& scene, const Inputs& in, const Shape& y) {
  const bool tuples = scene.op == "ScatterND";
  const std::string rule = attribute_string(scene.attributes, "reduction", "none");
  const size_t axis = tuples ? 0 : axis_of(scene, y, 0);
  return for_each_element(y, [&](const Index& i) {
    double value = at(in[0], i);
    double magnitude = std::abs(value);
    for_each_element(in[2].shape, [&](const Index& u) {
      Index to = u;
      if (tuples) {
        const auto lead = static_cast<std::ptrdiff_t>(in[1].shape.rank()) - 1;
        Index tuple(u.begin(), u.begin() + lead);
        to.clear();
        tuple.push_back(0);
        for (; tuple.back() < in[1].shape[static_cast<int>(lead)]; ++tuple.back())
          to.push_back(picked(in[1], tuple, extent(y, to.size())));
        to.insert(to.end(), u.begin() + lead, u.end());
      } else {
        to[axis] = picked(in[1], u, extent(y, axis));
      }
      if (to != i) return Sum();
      const double update = at(in[2], u);
      if (rule == "add" || rule == "mul") magnitude += std::abs(update);
      value = rule == "none"  ? update
              : rule == "add" ? value + update
              : rule == "mul" ? value * update
              : rule == "max" ? larger(value, update)
                              : smaller(value, update);
      return Sum();
    });
    Sum sum = only(magnitude);
    sum.become(value, 4);
    return sum;
  });
}

Reference one_hot(const OperatorCase& scene, const HostTensor& indices, const Shape& y) {
  const size_t axis = axis_of(scene, y, -1);
  const auto& literal = std::get<TensorLiteral>(scene.attributes.at("values"));
  const auto* values = reinterpret_cast<const float*>(literal.bytes.data());
  return for_each_element(y, [&](const Index& i) {
    Index own = i;
    own.erase(own.begin() + static_cast<std::ptrdiff_t>(axis));
    return only(double{values[picked(indices, own, extent(y, axis)) == i[axis] ? 1 : 0]});
  });
}

Reference triangle(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  const int64_t k = integer(scene, "k", 0);
  const bool upper = integer(scene, "upper", 1) != 0;
  return moved(x, y, 0, [&](Index& i) {
    const int64_t right = i.back() - i[i.size() - 2] - k;  // of the diagonal
    return scene.op == "EyeLike" ? right == 0 : upper ? right >= 0 : right <= 0;
  });
}

Reference cumulated(const OperatorCase& scene, const HostTensor& x, const Shape& y) {
  const size_t axis = axis_of(scene, x.shape, 0);
  const bool reverse = integer(scene, "reverse", 0) != 0;
  const bool exclusive = integer(scene, "exclusive", 0) != 0;
  return for_each_element(y, [&](const Index& i) {
    Sum sum;
    Index own = i;
    for (own[axis] = 0; own[axis] < extent(y, axis); ++own[axis]) {
      const int64_t before = reverse ? own[axis] - i[axis] : i[axis] - own[axis];
      if (before > 0 || (before == 0 && !exclusive)) sum.add(at(x, own));
    }
    return sum;
  });
}

Reference reversed(const OperatorCase& scene, const Inputs& in, const Shape& y) {
  const auto time = static_cast<size_t>(integer(scene, "time_axis", 0));
  return moved(in[0], y, 0, [&](Index& i) {
    const auto length = static_cast<int64_t>(at(in[1], {i[1 - time]}));
    if (i[time] < length) i[time] = length - 1 - i[time];
    return true;
  });
}

Reference same_elements(const HostTensor& x, const Shape& y) {
  HostTensor read = x;
  read.shape = y;
  return for_each_element(y, [&](const Index& i) { return only(at(read, i)); });
}

}  // namespace

std::optional<Reference> moving_reference(const OperatorCase& scene, const Inputs& in,
                                          const Shape& output) {
  const std::string& op = scene.op;
  for (const char* alias : {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
    if (op == alias) return same_elements(in[0], output);
  if (op == "Slice") return slice(scene, in[0], output);
  if (op == "Pad") return pad(scene, in[0], output);
  if (op == "Compress") return compress(scene, in[0], output);
  if (op == "Expand" || op == "Tile") return repeated(in[0], output);
  if (op == "Split") return moved(in[0], output, 0, [](Index&) { return true; });
  if (op == "Transpose") return transposed(scene, in[0], output);
  if (op == "DepthToSpace" || op == "SpaceToDepth") return blocks(scene, in[0], output);
  if (op == "Concat") return concatenated(scene, in, output);
  if (op == "Gather") return gathered(scene, in, output);
  if (op == "GatherElements") return gathered_elements(scene, in, output);
  if (op == "GatherND") return gathered_tuples(scene, in, output);
  if (op == "ScatterElements" || op == "ScatterND") return scattered(scene, in, output);
  if (op == "OneHot") return one_hot(scene, in[0], output);
  if (op == "Trilu") return triangle(scene, in[0], output);
  if (op == "CumSum") return cumulated(scene, in[0], output);
  if (op == "ReverseSequence") return reversed(scene, in, output);
  if (op != "EyeLike") return std::nullopt;
  HostTensor ones = in[0];
  std::fill(ones.integers.begin(), ones.integers.end(), 1);
  return triangle(scene, ones, output);
}

}  // namespace kerf::ops
