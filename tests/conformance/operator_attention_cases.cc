// Cases of attention and of what stands around it.
#include <limits>

#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

CaseInput given(const Shape& shape, Draw draw = Draw::kUniform) {
  CaseInput input = activation(shape, draw);
  input.role = Role::kInput;
  return input;
}

CaseInput allowed(const Shape& shape) {
  return {{DType::kBool, shape}, Role::kInput, Draw::kClass, 2};
}

struct Heads {
  int64_t query_heads = 2;
  int64_t key_heads = 2;
  int64_t queries = 5;
  int64_t keys = 5;
  int64_t width = 3;
  int64_t value_width = 3;
};

OperatorCase attention(std::string name, const Heads& h, bool side_by_side, Attributes attributes,
                       std::vector<CaseInput> masks = {}) {
  OperatorCase scene{.name = std::move(name),
                     .op = "Attention",
                     .attributes = std::move(attributes),
                     .samples = 2,
                     .epsilon = 0.02,
                     .whole_axes = {"keys", "width", "value width"}};
  if (side_by_side) {
    scene.attributes["q_num_heads"] = h.query_heads;
    scene.attributes["kv_num_heads"] = h.key_heads;
    scene.inputs = {activation({kBatch, h.queries, h.query_heads * h.width}),
                    activation({kBatch, h.keys, h.key_heads * h.width}),
                    activation({kBatch, h.keys, h.key_heads * h.value_width})};
  } else {
    scene.inputs = {activation({kBatch, h.query_heads, h.queries, h.width}),
                    activation({kBatch, h.key_heads, h.keys, h.width}),
                    activation({kBatch, h.key_heads, h.keys, h.value_width})};
  }
  scene.inputs.insert(scene.inputs.end(), masks.begin(), masks.end());
  return scene;
}

// So many pairs of a query and a key that it sees; going back, the scores are computed again.
OperatorCase counted(OperatorCase scene, double pairs, double width) {
  const double product = 2 * pairs * width;
  scene.flops = {2 * product + 5 * pairs, 5 * product + 10 * pairs, 0};
  return scene;
}

OperatorCase rotary(const std::string& name, bool side_by_side, bool by_position,
                    Attributes attributes) {
  const int64_t turned = attribute_int(attributes, "rotary_embedding_dim", 6);
  OperatorCase scene{.name = "RotaryEmbedding_" + name,
                     .op = "RotaryEmbedding",
                     .attributes = std::move(attributes),
                     .samples = 2,
                     .whole_axes = {"width"}};
  if (side_by_side) scene.attributes["num_heads"] = int64_t{3};
  const Shape cache = by_position ? Shape{9, turned / 2} : Shape{kBatch, 5, turned / 2};
  scene.inputs = {activation(side_by_side ? Shape{kBatch, 5, 18} : Shape{kBatch, 3, 5, 6}),
                  given(cache), given(cache)};
  if (by_position) scene.inputs.push_back(classes({kBatch, 5}, 9));
  return scene;
}

}  // namespace

std::vector<OperatorCase> attention_cases() {
  const Attributes causal{{"is_causal", int64_t{1}}};
  return {
      counted(attention("Attention", {}, false, {}), 50, 3),
      counted(attention("Attention_causal_side_by_side", {.query_heads = 3, .key_heads = 3}, true,
                        causal),
              45, 3),
      attention("Attention_of_several_blocks_of_queries", {.queries = 70, .keys = 70}, true,
                causal),
      attention("Attention_of_other_keys", {.queries = 4, .keys = 7, .width = 5, .value_width = 2},
                false, {{"scale", 0.3}}),
      attention("Attention_of_shared_heads", {.query_heads = 6, .key_heads = 2}, true, causal),
      attention("Attention_of_shared_heads_apart", {.query_heads = 4, .key_heads = 2}, false, {}),
      attention("Attention_in_a_window", {}, false,
                {{"left_window_size", int64_t{1}}, {"right_window_size", int64_t{2}}}),
      attention("Attention_in_a_window_without_an_end", {}, false,
                {{"left_window_size", int64_t{2}},
                 {"right_window_size", std::numeric_limits<int64_t>::max()}}),
      attention("Attention_with_a_mask_for_all", {}, false, {}, {given({5, 5})}),
      attention("Attention_with_a_mask_for_each_sample", {}, true, {{"softcap", 1.5}},
                {given({kBatch, 1, 1, 5})}),
      attention("Attention_with_a_mask_of_heads", {.query_heads = 4, .key_heads = 2}, false, causal,
                {given({4, 5, 1})}),
      attention("Attention_of_what_is_allowed", {}, false, causal, {allowed({kBatch, 2, 5, 5})}),
      attention("Attention_of_fewer_keys_than_queries", {.queries = 6, .keys = 3}, false,
                {{"left_window_size", int64_t{1}}}),
      rotary("of_halves", false, false, {}),
      rotary("of_neighbours_by_position", true, true, {{"interleaved", int64_t{1}}}),
      rotary("of_a_part", true, false, {{"rotary_embedding_dim", int64_t{4}}}),
  };
}

}  // namespace kerf::ops
