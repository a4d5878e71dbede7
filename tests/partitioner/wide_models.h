// Small models of the wide operators, for tests that divide them: an attention layer, a recurrence,
// an embedding tied to the scores, stretches, and images that are normalised by batch.
#pragma once

#include <string>
#include <vector>

#include "partitioner/builder.h"

namespace kerf::partitioner::testing {

using Ints = std::vector<int64_t>;

inline constexpr int64_t kVocabulary = 9;
inline constexpr int64_t kLength = 5;
inline constexpr int64_t kWidth = 8;

inline ValueId matrix(Builder& b, const std::string& name, const ops::Shape& shape) {
  return b.parameter(name, shape, {ops::Initializer::Kind::kUniform, 0.35});
}

inline ValueId by_axes(Builder& b, ValueId x, const Ints& perm, const std::string& name) {
  return b.node("Transpose", {x}, {{"perm", perm}}, name);
}

inline ValueId layer_norm(Builder& b, ValueId x, const std::string& name) {
  const ValueId scale = b.parameter(name + ".weight", {kWidth}, {ops::Initializer::Kind::kOne});
  const ValueId shift = b.parameter(name + ".bias", {kWidth}, {ops::Initializer::Kind::kZero});
  return b.node("LayerNormalization", {x, scale, shift}, {{"axis", int64_t{-1}}}, name);
}

// A score for every token at every position, from the rows of `table` [vocabulary, width].
inline void token_loss(Builder& b, ValueId h, ValueId table) {
  const ValueId rows = b.reshape(h, {-1, kWidth}, "rows");
  const ValueId scores = b.node("Gemm", {rows, table}, {{"transB", int64_t{1}}}, "scores");
  const ValueId by_row = b.reshape(scores, {-1, kLength, kVocabulary}, "by_row");
  b.loss(by_axes(b, by_row, {0, 2, 1}, "by_token"));
}

// Pre-norm attention of two heads, with a residual.
inline Model attention() {
  Builder b("attention");
  const ValueId tokens = b.input("tokens", {ops::kBatch, kLength}, ops::DType::kInt64);
  const ValueId x = b.embedding(tokens, kVocabulary, kWidth, "embedding");
  const ValueId normal = layer_norm(b, x, "norm");
  const ValueId qkv = b.matmul(normal, matrix(b, "qkv.weight", {kWidth, 3 * kWidth}), "qkv");
  const auto three = b.nodes("Split", {qkv}, {{"axis", int64_t{2}}}, 3, "split");
  const auto heads = [&](ValueId value, const Ints& perm, const std::string& name) {
    return by_axes(b, b.reshape(value, {0, 0, 2, kWidth / 2}, name + "_heads"), perm, name);
  };
  const ValueId q = heads(three[0], {0, 2, 1, 3}, "q");
  const ValueId k = heads(three[1], {0, 2, 3, 1}, "k");
  const ValueId v = heads(three[2], {0, 2, 1, 3}, "v");
  const ValueId weights = b.softmax(b.matmul(q, k, "qk"), "weights");
  const ValueId mixed = by_axes(b, b.matmul(weights, v, "mixed"), {0, 2, 1, 3}, "by_position");
  const ValueId joined = b.reshape(mixed, {0, 0, kWidth}, "joined");
  const ValueId out = b.matmul(joined, matrix(b, "out.weight", {kWidth, kWidth}), "out");
  const ValueId h = layer_norm(b, b.add(x, out, "residual"), "final_norm");
  token_loss(b, h, matrix(b, "scores.weight", {kVocabulary, kWidth}));
  return b.build();
}

inline Model recurrent() {
  Builder b("recurrent");
  const ValueId tokens = b.input("tokens", {ops::kBatch, kLength}, ops::DType::kInt64);
  const ValueId h = b.lstm(b.embedding(tokens, kVocabulary, 6, "embedding"), kWidth, "lstm");
  token_loss(b, h, matrix(b, "scores.weight", {kVocabulary, kWidth}));
  return b.build();
}

// What each token is, and what the data says of its place.
inline Model placed() {
  Builder b("placed");
  const ValueId tokens = b.input("tokens", {ops::kBatch, kLength}, ops::DType::kInt64);
  const ValueId places = b.input("places", {ops::kBatch, kLength, kWidth});
  const ValueId x = b.add(b.embedding(tokens, kVocabulary, kWidth, "embedding"), places, "placed");
  token_loss(b, x, matrix(b, "scores.weight", {kVocabulary, kWidth}));
  return b.build();
}

// The scores' weights are the embedding's rows.
inline Model tied() {
  Builder b("tied");
  const ValueId tokens = b.input("tokens", {ops::kBatch, kLength}, ops::DType::kInt64);
  const ValueId table =
      b.parameter("embedding.weight", {kVocabulary, kWidth}, {ops::Initializer::Kind::kNormal, 1});
  const ValueId x = b.node("Gather", {table, tokens}, {}, "embedding");
  const ValueId mixed =
      b.node("Tanh", {b.matmul(x, matrix(b, "mix.weight", {kWidth, kWidth}), "mix")}, {}, "tanh");
  token_loss(b, mixed, table);
  return b.build();
}

// Features cut in two stretches, one of them changed, and joined the other way round.
inline Model stretches() {
  Builder b("stretches");
  const ValueId x = b.input("x", {ops::kBatch, 12});
  const auto two = b.nodes("Split", {b.gemm(x, 12, "fc1")},
                           {{"axis", int64_t{1}}, {"split", Ints{5, 7}}}, 2, "split");
  const ValueId joined =
      b.node("Concat", {two[1], b.relu(two[0], "relu")}, {{"axis", int64_t{1}}}, "concat");
  b.loss(b.gemm(joined, 5, "fc2"));
  return b.build();
}

// Two convolutions, each followed by a batch normalisation; dropout draws random numbers.
inline Model normalized_images() {
  Builder b("normalized");
  ValueId x = b.input("x", {ops::kBatch, 3, 6, 6});
  x = b.relu(b.batch_norm(b.conv(x, 4, 3, 1, 1, "conv1"), "bn1"), "relu1");
  x = b.relu(b.batch_norm(b.conv(x, 6, 3, 1, 0, "conv2"), "bn2"), "relu2");
  b.loss(b.gemm(b.dropout(b.flatten(x, "flatten"), 0.3, "drop"), 5, "head"));
  return b.build();
}

}  // namespace kerf::partitioner::testing
