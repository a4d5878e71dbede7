#include "partitioner/zoo/image_net.h"

#include <cmath>
#include <cstring>

namespace kerf::partitioner {
namespace {

using Ints = std::vector<int64_t>;
using Fill = ops::Initializer::Kind;

ops::Attributes window_attributes(const Pool& pool) {
  ops::Attributes attributes{{"kernel_shape", Ints{pool.kernel, pool.kernel}},
                             {"strides", Ints{pool.stride, pool.stride}}};
  if (pool.pad != 0) attributes.emplace("pads", Ints(4, pool.pad));
  if (pool.ceil) attributes.emplace("ceil_mode", int64_t{1});
  return attributes;
}

}  // namespace

Start normal_start(double deviation) {
  return {.weight = ops::Initializer{Fill::kNormal, deviation},
          .bias = ops::Initializer{Fill::kZero}};
}

Start he_normal(int64_t channels, int64_t kernel) {
  return normal_start(std::sqrt(2.0 / static_cast<double>(channels * kernel * kernel)));
}

ImageNet::ImageNet(const std::string& name, const ZooOptions& options, int64_t image)
    : Builder(name),
      width_(options.width),
      image_(options.image.value_or(image)),
      classes_(options.classes.value_or(1000)) {}

ValueId ImageNet::image() { return input("image", {ops::kBatch, 3, image_, image_}); }

int64_t ImageNet::scaled(int64_t channels, int64_t unit) const {
  return scaled_units(width_, channels, unit);
}

ValueId ImageNet::plain_conv(ValueId x, int64_t channels, int64_t kernel, int64_t stride,
                             const std::string& name, const Start& start, int64_t groups) {
  const int64_t pad = kernel / 2;
  return conv(x,
              {.channels = channels,
               .kernel = {kernel, kernel},
               .stride = stride,
               .pad = {pad, pad},
               .groups = groups,
               .bias = false,
               .start = start},
              name);
}

ValueId ImageNet::max_pool(ValueId x, const Pool& pool, const std::string& name) {
  return node("MaxPool", {x}, window_attributes(pool), name);
}

ValueId ImageNet::average_pool(ValueId x, const Pool& pool, const std::string& name) {
  auto attributes = window_attributes(pool);
  if (pool.counts_padding) attributes.emplace("count_include_pad", int64_t{1});
  return node("AveragePool", {x}, attributes, name);
}

ValueId ImageNet::local_response_norm(ValueId x, const std::string& name) {
  return node("LRN", {x}, {{"size", int64_t{5}}, {"alpha", 1e-4}, {"beta", 0.75}, {"bias", 1.0}},
              name);
}

ValueId ImageNet::concat(const std::vector<ValueId>& parts, const std::string& name) {
  return node("Concat", parts, {{"axis", int64_t{1}}}, name);
}

// By a product with a constant [to, from] matrix of weights: from the left of the columns for rows,
// its transpose from the right of the rows for columns.
ValueId ImageNet::averages(ValueId x, int64_t from, int64_t to, bool rows,
                           const std::string& name) {
  std::vector<float> weights(static_cast<size_t>(from * to));
  for (int64_t i = 0; i < to; ++i) {
    const int64_t begin = i * from / to;
    const int64_t end = ((i + 1) * from + to - 1) / to;
    for (int64_t j = begin; j < end; ++j)
      weights[static_cast<size_t>(rows ? i * from + j : j * to + i)] =
          1.0F / static_cast<float>(end - begin);
  }
  ops::TensorLiteral literal{ops::DType::kFloat32,
                             rows ? ops::Shape{to, from} : ops::Shape{from, to},
                             std::string(weights.size() * sizeof(float), '\0')};
  std::memcpy(literal.bytes.data(), weights.data(), literal.bytes.size());
  const ValueId matrix = constant(name + ".weights", std::move(literal));
  return rows ? matmul(matrix, x, name) : matmul(x, matrix, name);
}

ValueId ImageNet::adaptive_average_pool(ValueId x, int64_t extent, const std::string& name) {
  const int64_t rows = shape(x)[2];
  if (rows == extent) return x;
  if (rows % extent == 0)
    return average_pool(x, {.kernel = rows / extent, .stride = rows / extent}, name);
  return averages(averages(x, rows, extent, true, name + ".rows"), rows, extent, false, name);
}

ValueId ImageNet::global_average(ValueId x, const std::string& name) {
  return flatten(node("GlobalAveragePool", {x}, {}, name), name + ".flatten");
}

Model ImageNet::classify(ValueId features, const std::string& name, const Start& start) {
  loss(gemm(features, classes_, name, start));
  return build();
}

}  // namespace kerf::partitioner
