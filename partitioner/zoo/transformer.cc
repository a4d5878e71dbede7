// Transformers: gpt, a decoder that scores every token's successor, and vit, which classifies
// images.
#include <array>
#include <cmath>

#include "partitioner/zoo/image_net.h"
#include "runtime/error.h"

namespace kerf::partitioner {
namespace {

using Ints = std::vector<int64_t>;
using Fill = ops::Initializer::Kind;

constexpr ops::Initializer kZeroStart{Fill::kZero};

// How a transformer's layers begin, and what they are called.
struct Style {
  std::string norm1, packed, packed_weight, packed_bias, output, norm2, widen, narrow;
  Start packed_start, output_start, widen_start, narrow_start;
  double epsilon;
  bool causal;
};

void check_heads(int64_t features, int64_t heads, const std::string& name) {
  if (features % heads != 0)
    throw Error(ErrorCode::kUsage,
                format("{} features are not divisible by {} heads", features, heads), name);
}

// Queries, keys and values [N, T, 3 features], whose parameters are called as no layer's are.
ValueId packed_product(Builder& b, ValueId x, const Style& style, const std::string& name) {
  const int64_t tokens = b.shape(x)[1];
  const int64_t features = b.shape(x)[2];
  const std::string as = name + style.packed;
  const ValueId weight = b.parameter(name + style.packed_weight, {3 * features, features},
                                     style.packed_start.weight.value());
  const ValueId bias =
      b.parameter(name + style.packed_bias, {3 * features}, style.packed_start.bias.value());
  const ValueId rows = b.reshape(x, {-1, features}, as + ".rows");
  const ValueId y = b.node("Gemm", {rows, weight, bias}, {{"transB", int64_t{1}}}, as);
  return b.reshape(y, {-1, tokens, 3 * features}, as + ".sequences");
}

// x + attention(norm(x)): queries, keys and values from one product (Vaswani et al. 2017).
ValueId attend(Builder& b, ValueId x, int64_t heads, const Style& style, const std::string& name) {
  const int64_t features = b.shape(x)[2];
  ValueId h = b.layer_norm(x, name + style.norm1, style.epsilon);
  h = packed_product(b, h, style, name);
  const auto parts =
      b.nodes("Split", {h}, {{"axis", int64_t{2}}}, 3, name + style.packed + ".split");
  h = b.node("Attention", parts,
             {{"q_num_heads", heads},
              {"kv_num_heads", heads},
              {"is_causal", int64_t{style.causal ? 1 : 0}}},
             name + ".attention");
  h = b.linear(h, features, name + style.output, style.output_start);
  return b.add(x, h, name + ".attended");
}

// x + narrow(gelu(widen(norm(x)))), four times as wide in between.
ValueId feed_forward(Builder& b, ValueId x, const Style& style, const std::string& name) {
  const int64_t features = b.shape(x)[2];
  ValueId h = b.layer_norm(x, name + style.norm2, style.epsilon);
  h = b.linear(h, 4 * features, name + style.widen, style.widen_start);
  h = b.node("Gelu", {h}, {}, name + ".gelu");
  h = b.linear(h, features, name + style.narrow, style.narrow_start);
  return b.add(x, h, name + ".fed");
}

Start xavier(int64_t from, int64_t to, const ops::Initializer& bias) {
  const double bound = std::sqrt(6.0 / static_cast<double>(from + to));
  return {.weight = ops::Initializer{Fill::kUniform, bound}, .bias = bias};
}

// As torchvision's EncoderBlock begins.
Style vit_style(int64_t features) {
  const ops::Initializer tiny{Fill::kNormal, 1e-6};
  return {.norm1 = ".ln_1",
          .packed = ".self_attention.in_proj",
          .packed_weight = ".self_attention.in_proj_weight",
          .packed_bias = ".self_attention.in_proj_bias",
          .output = ".self_attention.out_proj",
          .norm2 = ".ln_2",
          .widen = ".mlp.0",
          .narrow = ".mlp.3",
          .packed_start = xavier(features, 3 * features, kZeroStart),
          .output_start = {.bias = kZeroStart},
          .widen_start = xavier(features, 4 * features, tiny),
          .narrow_start = xavier(4 * features, features, tiny),
          .epsilon = 1e-6,
          .causal = false};
}

Style gpt_style() {
  const Start start = normal_start(0.02);
  return {.norm1 = ".ln_1",
          .packed = ".attn.c_attn",
          .packed_weight = ".attn.c_attn.weight",
          .packed_bias = ".attn.c_attn.bias",
          .output = ".attn.c_proj",
          .norm2 = ".ln_2",
          .widen = ".mlp.c_fc",
          .narrow = ".mlp.c_proj",
          .packed_start = start,
          .output_start = start,
          .widen_start = start,
          .narrow_start = start,
          .epsilon = 1e-5,
          .causal = true};
}

// Patches of the image as tokens [N, T, features].
ValueId patches(ImageNet& net, int64_t patch, int64_t features) {
  const ops::Initializer weight{Fill::kNormal,
                                std::sqrt(1.0 / static_cast<double>(3 * patch * patch))};
  const ValueId x = net.conv(net.image(),
                             {.channels = features,
                              .kernel = {patch, patch},
                              .stride = patch,
                              .start = {.weight = weight, .bias = kZeroStart}},
                             "conv_proj");
  const int64_t tokens = net.shape(x)[2] * net.shape(x)[3];
  const ValueId rows = net.reshape(x, {0, features, tokens}, "tokens.by_feature");
  return net.node("Transpose", {rows}, {{"perm", Ints{0, 2, 1}}}, "tokens");
}

// A row for the class before the tokens, and each token's place. The class's row is a row of
// padding, which every sample has, and to which its parameter is added.
ValueId placed(ImageNet& net, ValueId tokens) {
  const int64_t features = net.shape(tokens)[2];
  ValueId row = net.node("Pad", {tokens}, {{"pads", Ints{0, 1, 0, 0, 0, 0}}}, "class_token.padded");
  row = net.node("Slice", {row}, {{"starts", Ints{0}}, {"ends", Ints{1}}, {"axes", Ints{1}}},
                 "class_token.empty");
  row = net.add(row, net.parameter("class_token", {1, 1, features}, kZeroStart), "class_token.row");
  const ValueId x = net.node("Concat", {row, tokens}, {{"axis", int64_t{1}}}, "encoder.rows");
  const ValueId places =
      net.parameter("encoder.pos_embedding", {1, net.shape(x)[1], features}, {Fill::kNormal, 0.02});
  return net.add(x, places, "encoder.input");
}

}  // namespace

// Positions are learned and the scores' weights are not the embedding's.
Model make_gpt(const std::string& name, const ZooOptions& options) {
  const auto sizes = sizes_or(options, {4, 512, 8, 128, 96}, name);
  const auto [layers, heads, tokens, vocabulary] =
      std::array{sizes[0], sizes[2], sizes[3], sizes[4]};
  check_layers(layers, name);
  check_heads(sizes[1], heads, name);
  const int64_t features = scaled_units(options.width, sizes[1], heads);
  Builder b(name);
  const ValueId input = b.input("tokens", {ops::kBatch, tokens}, ops::DType::kInt64);
  const ValueId places = b.parameter("wpe.weight", {tokens, features}, {Fill::kNormal, 0.02});
  ValueId x = b.add(b.embedding(input, vocabulary, features, "wte", 0.02), places, "placed");
  const Style style = gpt_style();
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string as = format("h.{}", layer);
    x = feed_forward(b, attend(b, x, heads, style, as), style, as);
  }
  x = b.linear(b.layer_norm(x, "ln_f"), vocabulary, "lm_head", normal_start(0.02));
  b.loss(b.node("Transpose", {x}, {{"perm", Ints{0, 2, 1}}}, "by_token"));
  return b.build();
}

Model make_vit(const std::string& name, const ZooOptions& options) {
  const auto sizes = sizes_or(options, {12, 768, 12, 16}, name);
  check_layers(sizes[0], name);
  ImageNet net(name, options);
  const int64_t heads = sizes[2];
  check_heads(sizes[1], heads, name);
  const int64_t features = net.scaled(sizes[1], heads);
  ValueId x = placed(net, patches(net, sizes[3], features));
  const Style style = vit_style(features);
  for (int64_t layer = 0; layer < sizes[0]; ++layer) {
    const std::string as = format("encoder.layers.encoder_layer_{}", layer);
    x = feed_forward(net, attend(net, x, heads, style, as), style, as);
  }
  x = net.layer_norm(x, "encoder.ln", style.epsilon);
  x = net.node("Slice", {x}, {{"starts", Ints{0}}, {"ends", Ints{1}}, {"axes", Ints{1}}},
               "class_row");
  x = net.reshape(x, {0, features}, "class_features");
  return net.classify(x, "heads.head", {.weight = kZeroStart, .bias = kZeroStart});
}

}  // namespace kerf::partitioner
