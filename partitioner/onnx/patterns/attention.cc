// Attention as exporters of opsets before 23 write it, and as models do that write it themselves:
//
//   scores = MatMul(Q, K turned over)     either or both times a number, or divided by one; and
//                                         the scores, too: together the scale
//   Add(scores, mask), or Where(seen, scores, very low), or Where(hidden, very low, scores)
//   weights = Softmax over the keys       Where(IsNaN(weights), 0, weights)
//   MatMul(weights, V)
//
// What is constant and hides the keys behind each query is `is_causal`. A mask that is added, any
// that has no gradient, is an input; one that chooses must be known, and leave every query a key:
// one without would see all of them, where Attention gives 0.
#include <algorithm>
#include <cmath>
#include <span>

#include "partitioner/onnx/fuse.h"

namespace kerf::partitioner::onnx {
namespace {

constexpr float kVeryLow = -1e9F;                 // no score is as low
constexpr size_t kMostOfAMask = size_t{1} << 25;  // numbers
constexpr size_t kMostMade = size_t{1} << 20;     // bytes of a constant that every part repeats

// For each pair of query and key, repeated in front: whether it counts.
struct SeenPairs {
  ops::Shape shape;
  std::vector<bool> seen;

  // Of queries x keys: each sees those before it and itself.
  bool is_causal(int64_t queries, int64_t keys) const {
    if (shape.rank() < 2 || shape.elements() != queries * keys || shape[shape.rank() - 1] != keys ||
        shape[shape.rank() - 2] != queries)
      return false;
    for (int64_t t = 0; t < queries; ++t)
      for (int64_t s = 0; s < keys; ++s)
        if (seen[static_cast<size_t>(t * keys + s)] != (s <= t)) return false;
    return true;
  }

  bool is_none_blind() const {
    const auto keys = static_cast<size_t>(shape.rank() == 0 ? 1 : shape[shape.rank() - 1]);
    for (size_t row = 0; row < seen.size(); row += keys)
      if (std::find(seen.begin() + static_cast<std::ptrdiff_t>(row),
                    seen.begin() + static_cast<std::ptrdiff_t>(row + keys),
                    true) == seen.begin() + static_cast<std::ptrdiff_t>(row + keys))
        return false;
    return true;
  }
};

// Of a mask of zeros and numbers as low as none; nothing where it has others.
std::optional<SeenPairs> pairs_of_sum(const Value& mask) {
  const auto numbers = numbers_in(mask, kMostOfAMask);
  if (!numbers) return std::nullopt;
  SeenPairs pairs{mask.spec.shape, {}};
  for (const float number : *numbers) {
    if (number != 0 && !(number <= kVeryLow)) return std::nullopt;
    pairs.seen.push_back(number == 0);
  }
  return pairs;
}

// Of a constant of truth values.
std::optional<SeenPairs> pairs_of_choice(const Value& choice, bool seen) {
  if (!ops::is_kept(choice.role) || choice.spec.dtype != ops::DType::kBool ||
      choice.spec.bytes(0) > kMostOfAMask)
    return std::nullopt;
  std::string bytes(choice.spec.bytes(0), '\0');
  if (choice.literal != nullptr)
    bytes = choice.literal->bytes;
  else if (choice.contents != nullptr)
    choice.contents->read(0, std::as_writable_bytes(std::span(bytes)));
  else
    return std::nullopt;
  SeenPairs pairs{choice.spec.shape, {}};
  for (const char byte : bytes) pairs.seen.push_back((byte != 0) == seen);
  return pairs;
}

ops::Shape swapped(ops::Shape shape) {
  std::swap(shape[shape.rank() - 1], shape[shape.rank() - 2]);
  return shape;
}

// Collects the nodes from the last to the first.
class FoundAttention {
 public:
  explicit FoundAttention(const Model& model) : model_(model) {}

  std::optional<Fusion> find(NodeId last) {
    const Node& node = model_.node(last);
    if (node.op != "MatMul") return std::nullopt;
    take(last);
    const ValueId weights = behind_guard(node.inputs[0]);
    const NodeId softmax = maker(model_, weights, "Softmax");
    if (softmax < 0) return std::nullopt;
    take(softmax);
    scores_ = shape_of(weights);
    const int64_t axis = ops::attribute_int(model_.node(softmax).attributes, "axis", -1);
    const int rank = scores_.rank();
    if ((rank != 3 && rank != 4) || (axis != -1 && axis != rank - 1)) return std::nullopt;
    const ValueId masked = model_.node(softmax).inputs[0];
    const NodeId product = behind_mask(masked);
    if (product < 0 || !(shape_of(model_.node(product).outputs[0]) == scores_)) return std::nullopt;
    take(product);
    fusion_.op = "Attention";
    fusion_.inputs = {behind_scale(model_.node(product).inputs[0]),
                      behind_scale(behind_turn(behind_scale(model_.node(product).inputs[1]))),
                      node.inputs[1]};
    if (!(scale_ > 0) || !std::isfinite(scale_) || !fits()) return std::nullopt;
    fusion_.attributes["scale"] = scale_;
    set_mask();
    set_heads(shape_of(node.outputs[0]));
    std::reverse(fusion_.nodes.begin(), fusion_.nodes.end());
    return fusion_;
  }

 private:
  void take(NodeId node) { fusion_.nodes.push_back(node); }
  const ops::Shape& shape_of(ValueId id) const { return model_.value(id).spec.shape; }
  int64_t queries() const { return scores_[scores_.rank() - 2]; }
  int64_t keys() const { return scores_[scores_.rank() - 1]; }

  // What is 0 instead of NaN, of queries that see nothing.
  ValueId behind_guard(ValueId weights) {
    const NodeId where = maker(model_, weights, "Where");
    if (where < 0) return weights;
    const Node& node = model_.node(where);
    const NodeId asked = maker(model_, node.inputs[0], "IsNaN");
    if (asked < 0 || model_.node(asked).inputs[0] != node.inputs[2] ||
        one_number(model_, node.inputs[1]) != 0.0)
      return weights;
    take(where);
    take(asked);
    return node.inputs[2];
  }

  // What a number is multiplied with, or divided by one, without it, which is noted.
  ValueId behind_scale(ValueId value) {
    for (;;) {
      const Scaled found = scaled(value);
      if (found.node < 0) return value;
      take(found.node);
      scale_ *= found.by;
      value = found.of;
    }
  }

  struct Scaled {
    NodeId node = -1;
    ValueId of = -1;
    double by = 1;
  };
  Scaled scaled(ValueId value) const {
    const auto same = [&](ValueId of) { return shape_of(of) == shape_of(value); };
    if (const NodeId div = only_maker(model_, value, "Div"); div >= 0) {
      const Node& node = model_.node(div);
      const auto by = one_number(model_, node.inputs[1]);
      return by && same(node.inputs[0]) ? Scaled{div, node.inputs[0], 1 / *by} : Scaled{};
    }
    const NodeId mul = only_maker(model_, value, "Mul");
    if (mul < 0) return {};
    for (const ValueId of : model_.node(mul).inputs)
      if (const auto by = one_number(model_, other_input(model_.node(mul), of)); by && same(of))
        return {mul, of, *by};
    return {};
  }

  // The product that gives these scores, behind their scale; -1 if none does. Notes nothing.
  NodeId product_of(ValueId scores) const {
    for (;;) {
      const Scaled found = scaled(scores);
      if (found.node < 0) return only_maker(model_, scores, "MatMul");
      scores = found.of;
    }
  }
  NodeId take_scores(ValueId scores) { return maker(model_, behind_scale(scores), "MatMul"); }

  // The product behind what hides keys from queries.
  NodeId behind_mask(ValueId masked) {
    if (product_of(masked) >= 0) return take_scores(masked);
    if (const NodeId add = only_maker(model_, masked, "Add"); add >= 0) {
      for (const ValueId scores : model_.node(add).inputs) {
        const ValueId mask = other_input(model_.node(add), scores);
        if (product_of(scores) < 0 || mask == scores || !may_mask(mask)) continue;
        take(add);
        const auto pairs = pairs_of_sum(model_.value(mask));
        causal_ = pairs && pairs->is_causal(queries(), keys());
        if (!causal_) mask_ = mask;
        return take_scores(scores);
      }
      return -1;
    }
    const NodeId where = only_maker(model_, masked, "Where");
    return where < 0 ? -1 : behind_choice(where);
  }

  bool may_mask(ValueId mask) const {
    const Value& value = model_.value(mask);
    return !model_.needs_gradient(mask) && value.spec.dtype == ops::DType::kFloat32 &&
           value.spec.shape.rank() >= 1 && value.spec.shape.rank() <= scores_.rank();
  }

  NodeId behind_choice(NodeId where) {
    const Node& node = model_.node(where);
    for (const size_t at : {size_t{1}, size_t{2}}) {
      const ValueId scores = node.inputs[at];
      const auto low = one_number(model_, node.inputs[3 - at]);
      if (!low || !(*low <= static_cast<double>(kVeryLow)) || product_of(scores) < 0) continue;
      const Value& choice = model_.value(node.inputs[0]);
      auto pairs = pairs_of_choice(choice, at == 1);
      if (!pairs || !pairs->is_none_blind() || pairs->shape.rank() < 1 ||
          pairs->shape.rank() > scores_.rank())
        return -1;
      take(where);
      causal_ = pairs->is_causal(queries(), keys());
      if (!causal_ && at == 2 && pairs->seen.size() > kMostMade) return -1;
      if (!causal_) {
        mask_ = node.inputs[0];
        if (at == 2) hidden_ = std::move(pairs);
      }
      return take_scores(scores);
    }
    return -1;
  }

  // K of what gives K turned over.
  ValueId behind_turn(ValueId k) {
    const int rank = shape_of(k).rank();
    std::vector<int64_t> swap(static_cast<size_t>(rank));
    for (size_t i = 0; i < swap.size(); ++i) swap[i] = static_cast<int64_t>(i);
    const std::vector<int64_t> as_it_is = swap;
    std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
    if (const ValueId of = behind_rows(k); of >= 0) return of;
    if (const NodeId transpose = only_maker(model_, k, "Transpose"); transpose >= 0) {
      std::vector<int64_t> perm =
          ops::attribute_ints(model_.node(transpose).attributes, "perm", {});
      if (perm.size() == swap.size()) {
        take(transpose);
        std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
        k = model_.node(transpose).inputs[0];
        if (perm == as_it_is) return k;
        swap = perm;
      }
    }
    fusion_.before[1] = {{"Transpose", {{"perm", swap}}}};
    return k;
  }

  // Turned over with what stands before the last two axes as one: Reshape, Transpose, Reshape.
  ValueId behind_rows(ValueId k) {
    const NodeId back = only_maker(model_, k, "Reshape");
    const NodeId turn =
        back < 0 ? -1 : only_maker(model_, model_.node(back).inputs[0], "Transpose");
    const NodeId rows = turn < 0 ? -1 : only_maker(model_, model_.node(turn).inputs[0], "Reshape");
    if (rows < 0) return -1;
    const ValueId of = model_.node(rows).inputs[0];
    const ops::Shape& flat = shape_of(model_.node(rows).outputs[0]);
    const ops::Shape& turned_rows = shape_of(model_.node(turn).outputs[0]);
    const ops::Shape& whole = shape_of(k);
    const bool swaps = ops::attribute_ints(model_.node(turn).attributes, "perm", {}) ==
                       std::vector<int64_t>{0, 2, 1};
    const int rank = whole.rank();
    if (!swaps || flat.rank() != 3 || !(shape_of(of) == swapped(whole)) ||
        turned_rows[1] != whole[rank - 2] || turned_rows[2] != whole[rank - 1])
      return -1;
    take(back);
    take(turn);
    take(rows);
    return of;
  }

  ops::Shape shape_of_keys() const {
    const ops::Shape k = shape_of(fusion_.inputs[1]);
    const auto before = fusion_.before.find(1);
    if (before == fusion_.before.end()) return k;
    ops::Shape as = k;
    const auto perm = ops::attribute_ints(before->second[0].attributes, "perm", {});
    for (int i = 0; i < k.rank(); ++i) as[i] = k[static_cast<int>(perm[static_cast<size_t>(i)])];
    return as;
  }

  // Whether Attention takes such operands, and repeats nothing that it would not.
  bool fits() const {
    for (const ValueId id : fusion_.inputs) {
      const Value& value = model_.value(id);
      if (value.spec.dtype != ops::DType::kFloat32 || value.role == Role::kParameter ||
          value.spec.shape.rank() != scores_.rank())
        return false;
    }
    const ops::Shape& q = shape_of(fusion_.inputs[0]);
    const ops::Shape k = shape_of_keys();
    const ops::Shape& v = shape_of(fusion_.inputs[2]);
    const int last = q.rank() - 1;
    if (std::any_of(scores_.begin() + 1, scores_.end(), [](int64_t each) { return each < 1; }))
      return false;
    const bool same_heads = last == 2 || (k[1] == v[1] && (k[1] == q[1] || k[1] == 1));
    return same_heads && q[0] == k[0] && q[0] == v[0] && q[last] == k[last] &&
           k[last - 1] == v[last - 1] && q[last - 1] == queries() && k[last - 1] == keys();
  }

  void set_mask() {
    if (causal_) fusion_.attributes["is_causal"] = int64_t{1};
    if (mask_ < 0) return;
    fusion_.inputs.push_back(mask_);
    if (!hidden_) return;
    std::string bytes;
    for (const bool seen : hidden_->seen) bytes += seen ? '\1' : '\0';
    fusion_.made.resize(fusion_.inputs.size());
    fusion_.made.back() = Fusion::Made{model_.value(mask_).name + ".seen", model_.value(mask_).spec,
                                       Role::kConstant, std::move(bytes)};
  }

  // Of three axes: samples and heads together, or one head.
  void set_heads(const ops::Shape& y) {
    if (scores_.rank() == 4) return;
    const int64_t heads = scores_[0] < -1 ? -scores_[0] : 1;
    if (heads == 1) {
      fusion_.attributes["q_num_heads"] = fusion_.attributes["kv_num_heads"] = int64_t{1};
      if (mask_ >= 0 && shape_of(mask_).rank() == 3 && shape_of(mask_)[0] != 1)
        fusion_.before[3] = {{"Unsqueeze", {{"axes", std::vector<int64_t>{1}}}}};
      return;
    }
    const auto apart = [&](size_t input, const ops::Shape& shape) {
      fusion_.before[input].push_back(
          {"Reshape", {{"shape", std::vector<int64_t>{-1, heads, shape[1], shape[2]}}}});
    };
    apart(0, shape_of(fusion_.inputs[0]));
    apart(1, shape_of_keys());
    apart(2, shape_of(fusion_.inputs[2]));
    if (mask_ >= 0 && shape_of(mask_).rank() == 3 && shape_of(mask_)[0] == scores_[0])
      apart(3, shape_of(mask_));
    fusion_.after = {{"Reshape", {{"shape", reshaped_to(y)}}}};
  }

  const Model& model_;
  Fusion fusion_;
  ops::Shape scores_;
  double scale_ = 1;
  bool causal_ = false;
  ValueId mask_ = -1;
  std::optional<SeenPairs> hidden_;  // of a choice that says what is hidden
};

}  // namespace

std::optional<Fusion> attention(const Model& model, NodeId last) {
  return FoundAttention(model).find(last);
}

}  // namespace kerf::partitioner::onnx
