#include "ops/operators/attention.h"

#include <algorithm>
#include <cmath>

#include "ops/samples_axis.h"

namespace kerf::ops {
namespace {

enum AttentionInput : int { kQ, kK, kV, kMask, kPastKey, kPastValue, kKeyLengths };

}  // namespace

Attention::Attention(const NodeFacts& facts)
    : BoundOperator("Attention", facts),
      causal_(attribute_int(facts.attributes, "is_causal", 0) != 0),
      left_(attribute_int(facts.attributes, "left_window_size", -1)),
      right_(attribute_int(facts.attributes, "right_window_size", -1)),
      softcap_(static_cast<float>(attribute_float(facts.attributes, "softcap", 0))) {
  refuse(facts);
  check_shapes(facts);
  const double usual = 1 / std::sqrt(static_cast<double>(width_));
  scale_ = static_cast<float>(attribute_float(facts.attributes, "scale", usual));
  set_space();
}

void Attention::refuse(const NodeFacts& facts) const {
  for (const auto& [i, name] :
       {std::pair{kPastKey, "past_key"}, std::pair{kPastValue, "past_value"},
        std::pair{kKeyLengths, "nonpad_kv_seqlen"}})
    if (has(i))
      throw Error(
          ErrorCode::kUsage,
          format("Attention with input {} is not supported: concatenate the keys and values "
                 "beforehand, or mask them",
                 name));
  if (facts.outputs > 1)
    throw Error(ErrorCode::kUsage,
                "Attention gives Y only: its scores and present keys and values "
                "are not kept");
  if (const int64_t type = attribute_int(facts.attributes, "softmax_precision", 1); type != 1)
    throw Error(ErrorCode::kUsage,
                format("Attention computes in float32: softmax_precision must be 1, not {}", type));
  for (const int i : {kQ, kK, kV}) {
    want_float32("Attention", input(i), "Q, K and V");
    if (input(i).in_weight_gradient())
      throw Error(ErrorCode::kUsage, "Attention has gradients of Q, K and V only as activations");
  }
  if (has(kMask) && input(kMask).wants_gradient)
    throw Error(ErrorCode::kUsage,
                "Attention has no gradient of attn_mask: make it a constant, an "
                "input or frozen");
}

void Attention::check_shapes(const NodeFacts& facts) {
  const Shape& q = shape(kQ);
  const Shape& k = shape(kK);
  const Shape& v = shape(kV);
  side_by_side_ = q.rank() == 3;
  const int64_t query_heads = side_by_side_   ? attribute_int(facts.attributes, "q_num_heads", 0)
                              : q.rank() == 4 ? q[1]
                                              : 0;
  const int64_t key_heads = side_by_side_   ? attribute_int(facts.attributes, "kv_num_heads", 0)
                            : k.rank() == 4 ? k[1]
                                            : 0;
  bool fits = query_heads >= 1 && key_heads >= 1 && query_heads % key_heads == 0 &&
              k.rank() == q.rank() && v.rank() == q.rank() && q[0] == k[0] && q[0] == v[0];
  if (fits) {
    const int space = side_by_side_ ? 1 : 2;
    const int last = q.rank() - 1;
    const int64_t folded = side_by_side_ ? query_heads : 1;
    const int64_t folded_keys = side_by_side_ ? key_heads : 1;
    width_ = q[last] / folded;
    value_width_ = v[last] / folded_keys;
    whole_ = {q[0], query_heads, key_heads, q[space], k[space]};
    fits = width_ >= 1 && value_width_ >= 1 && q[last] == width_ * folded &&
           k[last] == width_ * folded_keys && v[last] == value_width_ * folded_keys &&
           k[space] == v[space] && (side_by_side_ || v[1] == key_heads) && whole_.queries >= 1 &&
           whole_.keys >= 1;
  }
  if (!fits)
    throw Error(ErrorCode::kUsage,
                format("Attention wants Q [N, Hq, T, d], K [N, Hk, S, d] and V [N, Hk, S, e], or "
                       "[N, T, Hq * d], [N, S, Hk * d] and [N, S, Hk * e] with q_num_heads Hq and "
                       "kv_num_heads Hk that divides it; not {}, {} and {} with {} and {} heads",
                       to_string(q), to_string(k), to_string(v), query_heads, key_heads));
  if (!(softcap_ >= 0) || left_ < -1 || right_ < -1)
    throw Error(
        ErrorCode::kUsage,
        format("Attention: softcap {} must not be negative, nor the windows' sizes {} and {} "
               "less than -1",
               softcap_, left_, right_));
  right_ = std::min(right_, whole_.keys);  // no query has more behind it
}

Attention::Extents Attention::extents(const Shape& q, const Shape& k) const {
  if (side_by_side_) return {q[0], q[2] / width_, k[2] / width_, q[1], k[1]};
  return {q[0], q[1], k[1], q[2], k[2]};
}

Attention::Keys Attention::seen_by(int64_t t, int64_t keys) const {
  Keys seen{0, keys};
  if (causal_) seen.end = std::min(seen.end, t + 1);
  if (right_ >= 0) seen.end = std::min(seen.end, t + right_ + 1);
  if (left_ >= 0) seen.begin = std::max<int64_t>(0, t - left_);
  return seen;
}

// The ends of what queries see ascend from the first's by one until all keys are seen; their begins
// ascend from the first that has left something behind. Beyond the keys nothing is seen.
double Attention::seen_before(int64_t t, int64_t keys) const {
  const auto ramp = [](int64_t count) {  // 1 + 2 + ... + count
    const auto n = static_cast<double>(std::max<int64_t>(0, count));
    return n * (n + 1) / 2;
  };
  const int64_t ahead = causal_ ? 0 : right_;
  if (left_ >= 0 && left_ < t - keys) t = keys + left_;
  double ends = static_cast<double>(t) * static_cast<double>(keys);
  if (causal_ || right_ >= 0) {
    const int64_t last = std::min(ahead + t, keys);  // where the ramp ends
    ends = last <= ahead ? ends
                         : ramp(last) - ramp(ahead) +
                               static_cast<double>(t - (last - ahead)) * static_cast<double>(keys);
  }
  return left_ < 0 ? ends : ends - ramp(t - 1 - left_);
}

void Attention::set_space() {
  const auto add = [&](IterationAxis axis) {
    space_.axes.push_back(std::move(axis));
    return static_cast<int>(space_.axes.size()) - 1;
  };
  const auto whole = [&](const char* name, int64_t extent, const char* why) {
    return add({AxisKind::kOther, name, extent, 1, false, why});
  };
  const int samples = add(samples_axis(whole_.samples));
  const int heads = add({AxisKind::kFeature, "heads", whole_.key_heads});
  std::vector<int> of_query{heads};
  if (whole_.sharing() > 1)
    of_query.push_back(add({AxisKind::kOther, "heads of a key head", whole_.sharing()}));
  queries_axis_ = add({AxisKind::kSpace, "queries", whole_.queries, 1, true});
  const int keys = whole("keys", whole_.keys, "a query's weights of all keys sum up to 1");
  const int width = whole("width", width_, "a score is a product of whole heads");
  const int values = whole("value width", value_width_, "a head stays together");
  const auto map = [&](std::vector<int> of_heads, int of_space, int of_width) {
    if (!side_by_side_) return operand_axes({{samples}, of_heads, {of_space}, {of_width}});
    of_heads.push_back(of_width);
    return operand_axes({{samples}, {of_space}, of_heads});
  };
  space_.inputs = {map(of_query, queries_axis_, width), map({heads}, keys, width),
                   map({heads}, keys, values)};
  space_.outputs = {map(of_query, queries_axis_, values)};
  if (inputs().size() > 3) space_.inputs.push_back(mask_axes(of_query, keys));
  space_.inputs.resize(inputs().size());
  Shape y = shape(kQ);
  y[y.rank() - 1] = side_by_side_ ? value_width_ * whole_.query_heads : value_width_;
  outputs_ = {{DType::kFloat32, y}};
}

OperandMap Attention::mask_axes(const std::vector<int>& heads, int keys) const {
  if (!has(kMask)) return {};
  const ValueSpec& mask = input(kMask).spec;
  if (mask.dtype != DType::kFloat32 && mask.dtype != DType::kBool)
    throw Error(ErrorCode::kUsage, format("Attention wants float32 or bool for attn_mask, not {}",
                                          to_string(mask.dtype)));
  const std::vector<std::vector<int>> axes{{0}, heads, {queries_axis_}, {keys}};
  const Shape scores{whole_.samples, whole_.query_heads, whole_.queries, whole_.keys};
  const int missing = 4 - mask.shape.rank();
  std::vector<std::vector<int>> of_mask;
  bool fits = missing >= 0 && mask.shape.rank() >= 1;
  for (int i = 0; fits && i < mask.shape.rank(); ++i) {
    const int axis = i + missing;
    const bool repeated = mask.shape[i] == 1 && scores[axis] != 1;
    fits = repeated || mask.shape[i] == scores[axis];
    of_mask.push_back(repeated ? std::vector<int>{} : axes[static_cast<size_t>(axis)]);
  }
  if (!fits)
    throw Error(ErrorCode::kUsage,
                format("Attention cannot repeat attn_mask {} over scores {}: one of fewer keys is "
                       "to be padded to {}, with -inf or false",
                       to_string(mask.shape), to_string(scores), whole_.keys));
  return operand_axes(of_mask);
}

Cost Attention::cost(const LocalSpecs& local) const {
  const Extents e = extents(local.inputs[kQ].shape, local.inputs[kK].shape);
  int64_t first = 0;
  const IndexSet& queries = local.iterations.axes[static_cast<size_t>(queries_axis_)];
  if (!queries.empty()) first = queries.ranges(whole_.queries).front().begin;
  const double seen = seen_before(first + e.queries, e.keys) - seen_before(first, e.keys);
  const double pairs = seen * static_cast<double>(e.samples * e.query_heads);
  const double by_key = 2 * pairs * static_cast<double>(width_);
  const double by_value = 2 * pairs * static_cast<double>(value_width_);
  double bytes = 4 * static_cast<double>(local.outputs[0].shape.elements());
  for (const int i : {kQ, kK, kV})
    bytes += 4 * static_cast<double>(local.inputs[static_cast<size_t>(i)].shape.elements());
  return {by_key + by_value + 5 * pairs,
          3 * by_key + 2 * by_value + 10 * pairs,
          0,
          bytes,
          2 * bytes,
          0};
}

BackwardReads Attention::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {kQ, kK, kV};
  if (has(kMask)) reads.inputs_for_input_gradient.push_back(kMask);
  return reads;
}

size_t Attention::reserve_bytes(const LocalSpecs& local) const {
  const int64_t queries = local.outputs[0].shape.elements() / value_width_;
  return static_cast<size_t>(queries) * 2 * sizeof(float);
}

OperatorDefinitions define_attention() {
  constexpr auto kOptional = FormalOperand::Count::kOptional;
  return {{.name = "Attention",
           .inputs = {{"Q"},
                      {"K"},
                      {"V"},
                      {"attn_mask", kOptional},
                      {"past_key", kOptional},
                      {"past_value", kOptional},
                      {"nonpad_kv_seqlen", kOptional}},
           .outputs = {{"Y"}, {"present_key"}, {"present_value"}, {"qk_matmul_output"}},
           .attributes = {{"is_causal"},
                          {"kv_num_heads"},
                          {"left_window_size"},
                          {"q_num_heads"},
                          {"qk_matmul_output_mode"},
                          {"right_window_size"},
                          {"scale", AttributeType::kFloat},
                          {"softcap", AttributeType::kFloat},
                          {"softmax_precision"}},
           .bind = bind_as<Attention>,
           .first_opset = 23}};
}

}  // namespace kerf::ops
