#include "bench/onednn_peers.h"

#include <algorithm>

#include "ops/folded.h"
#include "ops/operators/batch_normalization.h"
#include "ops/operators/layer_normalization.h"
#include "ops/operators/pool.h"
#include "ops/operators/softmax.h"
#include "ops/operators/transpose.h"

namespace kerf::bench {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

memory::desc dense(const memory::dims& extents, memory::format_tag tag) {
  return {extents, memory::data_type::f32, tag};
}

memory::desc flat(int64_t elements) { return dense({elements}, memory::format_tag::a); }

// oneDNN names extents as ONNX does, wherever they lie.
memory::desc image(ops::ImageFormat format, const ops::Shape& stored) {
  const ops::Shape x = ops::onnx_shape(format, stored);
  return dense({x[0], x[1], x[2], x[3]}, format == ops::ImageFormat::kChannelsLast
                                             ? memory::format_tag::nhwc
                                             : memory::format_tag::nchw);
}

template <class Op>
const Op& as(const ops::BoundOperator& op) {
  return static_cast<const Op&>(op);
}

algorithm elementwise(const std::string& op, bool forward) {
  if (op == "Relu")
    return forward ? algorithm::eltwise_relu : algorithm::eltwise_relu_use_dst_for_bwd;
  if (op == "Sigmoid")
    return forward ? algorithm::eltwise_logistic : algorithm::eltwise_logistic_use_dst_for_bwd;
  KERF_CHECK(op == "Tanh", "no peer of {}", op);
  return forward ? algorithm::eltwise_tanh : algorithm::eltwise_tanh_use_dst_for_bwd;
}

constexpr std::array<std::string_view, 10> kPeers{"Relu",
                                                  "Sigmoid",
                                                  "Tanh",
                                                  "Add",
                                                  "Transpose",
                                                  "Softmax",
                                                  "MaxPool",
                                                  "AveragePool",
                                                  "LayerNormalization",
                                                  "BatchNormalization"};

}  // namespace

bool OnednnPeer::has(std::string_view op) {
  return std::find(kPeers.begin(), kPeers.end(), op) != kPeers.end();
}

OnednnPeer::OnednnPeer(const ops::BoundOperator& op, const ops::Call& call) : call_(call) {
  const std::string& name = op.name();
  if (name == "Add")
    make_add();
  else if (name == "Transpose")
    make_transpose(op);
  else if (name == "Softmax")
    make_softmax(op);
  else if (name == "MaxPool" || name == "AveragePool")
    make_pool(op);
  else if (name == "LayerNormalization")
    make_layer_normalization(op);
  else if (name == "BatchNormalization")
    make_batch_normalization(op);
  else
    make_elementwise(name);
}

void OnednnPeer::run(Phase phase) {
  step(phase).primitive.execute(stream_, step(phase).arguments);
  stream_.wait();
}

std::span<const float> OnednnPeer::result(Phase phase) const {
  const memory& to = step(phase).arguments.at(step(phase).result);
  return {static_cast<const float*>(to.get_data_handle()),
          to.get_desc().get_size() / sizeof(float)};
}

memory OnednnPeer::at(const memory::desc& desc, const ops::TensorView& tensor) const {
  return memory(desc, engine_, tensor.data);
}

// Of an operator whose gradient follows from its output.
void OnednnPeer::set_steps(const dnnl::primitive& forward, const dnnl::primitive& backward,
                           const memory::desc& desc) {
  const memory y = room(desc);
  step(Phase::kForward) = {
      forward, {{DNNL_ARG_SRC, at(desc, call_.inputs[0])}, {DNNL_ARG_DST, y}}, DNNL_ARG_DST};
  step(Phase::kInputGradient) = {backward,
                                 {{DNNL_ARG_DST, y},
                                  {DNNL_ARG_DIFF_DST, at(desc, call_.output_gradients[0])},
                                  {DNNL_ARG_DIFF_SRC, room(desc)}},
                                 DNNL_ARG_DIFF_SRC};
}

void OnednnPeer::make_elementwise(const std::string& op) {
  using Forward = dnnl::eltwise_forward;
  using Backward = dnnl::eltwise_backward;
  const auto desc = flat(call_.inputs[0].elements());
  const Forward::primitive_desc forward(
      {prop_kind::forward_training, elementwise(op, true), desc, 0.0F}, engine_);
  const Backward::primitive_desc backward({elementwise(op, false), desc, desc, 0.0F}, engine_,
                                          forward);
  set_steps(Forward(forward), Backward(backward), desc);
}

// Of a bias, over rows. The first input's gradient is a copy.
void OnednnPeer::make_add() {
  const int64_t columns = call_.inputs[1].elements();
  const auto full = dense({call_.inputs[0].elements() / columns, columns}, memory::format_tag::ab);
  const auto row = dense({1, columns}, memory::format_tag::ab);
  const memory dy = at(full, call_.output_gradients[0]);
  const memory dx = room(full);
  step(Phase::kForward) = {
      dnnl::binary(dnnl::binary::primitive_desc({algorithm::binary_add, full, row, full}, engine_)),
      {{DNNL_ARG_SRC_0, at(full, call_.inputs[0])},
       {DNNL_ARG_SRC_1, at(row, call_.inputs[1])},
       {DNNL_ARG_DST, room(full)}},
      DNNL_ARG_DST};
  step(Phase::kInputGradient) = {
      dnnl::reorder(dy, dx), {{DNNL_ARG_FROM, dy}, {DNNL_ARG_TO, dx}}, DNNL_ARG_TO};
  step(Phase::kWeightGradient) = {dnnl::reduction(dnnl::reduction::primitive_desc(
                                      {algorithm::reduction_sum, full, row, 0, 0}, engine_)),
                                  {{DNNL_ARG_SRC, dy}, {DNNL_ARG_DST, room(row)}},
                                  DNNL_ARG_DST};
}

void OnednnPeer::make_transpose(const ops::BoundOperator& op) {
  const ops::Shape& y = call_.outputs[0].shape;
  const ops::Shape& x = call_.inputs[0].shape;
  const std::vector<int>& permutation = as<ops::Transpose>(op).perm();
  // Both by the output's axes: the one dense, the other as the input's strides have it.
  memory::dims extents, strides_x, strides_y;
  const auto stride = [](const ops::Shape& shape, int axis) {
    int64_t product = 1;
    for (int i = axis + 1; i < shape.rank(); ++i) product *= shape[i];
    return product;
  };
  for (int i = 0; i < y.rank(); ++i) {
    extents.push_back(y[i]);
    strides_y.push_back(stride(y, i));
    strides_x.push_back(stride(x, permutation[static_cast<size_t>(i)]));
  }
  const memory::desc of_x(extents, memory::data_type::f32, strides_x);
  const memory::desc of_y(extents, memory::data_type::f32, strides_y);
  const auto copy = [&](const memory& from, const memory& to) {
    return Step{dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, DNNL_ARG_TO};
  };
  step(Phase::kForward) = copy(at(of_x, call_.inputs[0]), room(of_y));
  step(Phase::kInputGradient) = copy(at(of_y, call_.output_gradients[0]), room(of_x));
}

void OnednnPeer::make_softmax(const ops::BoundOperator& op) {
  using Forward = dnnl::softmax_v2_forward;
  using Backward = dnnl::softmax_v2_backward;
  const ops::Folded f = ops::fold(call_.inputs[0].shape, as<ops::Softmax>(op).axis());
  const auto desc = dense({f.outer, f.length, f.inner}, memory::format_tag::abc);
  const auto way = algorithm::softmax_accurate;
  const Forward::primitive_desc forward({prop_kind::forward_training, way, desc, desc, 1}, engine_);
  const Backward::primitive_desc backward({way, desc, desc, desc, 1}, engine_, forward);
  set_steps(Forward(forward), Backward(backward), desc);
}

void OnednnPeer::make_pool(const ops::BoundOperator& op) {
  using Forward = dnnl::pooling_v2_forward;
  using Backward = dnnl::pooling_v2_backward;
  const auto& pool = as<ops::Pool>(op);
  const ops::Window& w = pool.window();
  const auto x = image(pool.images(), call_.inputs[0].shape);
  const auto y = image(pool.images(), call_.outputs[0].shape);
  const auto dims = [](const ops::Extent2& extents) {
    return memory::dims{extents[0], extents[1]};
  };
  const memory::dims dilation{w.dilations[0] - 1, w.dilations[1] - 1};
  memory::dims pads_end;
  for (size_t i = 0; i < 2; ++i)  // exact, as oneDNN wants it
    pads_end.push_back((w.output[i] - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] + 1 -
                       w.input[i] - w.pads_begin[i]);
  const bool max = op.name() == "MaxPool";
  const auto way = max                     ? algorithm::pooling_max
                   : pool.counts_padding() ? algorithm::pooling_avg_include_padding
                                           : algorithm::pooling_avg_exclude_padding;
  const Forward::primitive_desc forward({prop_kind::forward_training, way, x, y, dims(w.strides),
                                         dims(w.kernel), dilation, dims(w.pads_begin), pads_end},
                                        engine_);
  const Backward::primitive_desc backward(
      {way, x, y, dims(w.strides), dims(w.kernel), dilation, dims(w.pads_begin), pads_end}, engine_,
      forward);
  Step& there = step(Phase::kForward);
  Step& back = step(Phase::kInputGradient);
  there = {Forward(forward),
           {{DNNL_ARG_SRC, at(x, call_.inputs[0])}, {DNNL_ARG_DST, room(y)}},
           DNNL_ARG_DST};
  back = {Backward(backward),
          {{DNNL_ARG_DIFF_DST, at(y, call_.output_gradients[0])}, {DNNL_ARG_DIFF_SRC, room(x)}},
          DNNL_ARG_DIFF_SRC};
  if (!max) return;
  const memory taken = room(forward.workspace_desc());
  there.arguments.emplace(DNNL_ARG_WORKSPACE, taken);
  back.arguments.emplace(DNNL_ARG_WORKSPACE, taken);
}

const auto kScaleAndShift =
    dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;

void OnednnPeer::make_layer_normalization(const ops::BoundOperator& op) {
  using Forward = dnnl::layer_normalization_forward;
  using Backward = dnnl::layer_normalization_backward;
  const int64_t length = call_.inputs[1].elements();
  const auto data = dense({call_.inputs[0].elements() / length, length}, memory::format_tag::ab);
  const float epsilon = as<ops::LayerNormalization>(op).epsilon();
  make_normalization<Forward, Backward>(
      {prop_kind::forward_training, data, epsilon, kScaleAndShift},
      {prop_kind::backward, data, data, epsilon, kScaleAndShift}, data);
}

void OnednnPeer::make_batch_normalization(const ops::BoundOperator& op) {
  using Forward = dnnl::batch_normalization_forward;
  using Backward = dnnl::batch_normalization_backward;
  const auto& batch = as<ops::BatchNormalization>(op);
  const auto data = image(batch.images(), call_.inputs[0].shape);
  make_normalization<Forward, Backward>(
      {prop_kind::forward_training, data, batch.epsilon(), kScaleAndShift},
      {prop_kind::backward, data, data, batch.epsilon(), kScaleAndShift}, data);
}

template <class Forward, class Backward>
void OnednnPeer::make_normalization(const typename Forward::desc& forward,
                                    const typename Backward::desc& backward,
                                    const memory::desc& data) {
  const typename Forward::primitive_desc there(forward, engine_);
  const typename Backward::primitive_desc back(backward, engine_, there);
  const auto parameter = flat(call_.inputs[1].elements());
  const memory x = at(data, call_.inputs[0]);
  const memory scale = at(parameter, call_.inputs[1]);
  const memory mean = room(there.mean_desc());
  const memory variance = room(there.variance_desc());
  step(Phase::kForward) = {Forward(there),
                           {{DNNL_ARG_SRC, x},
                            {DNNL_ARG_SCALE, scale},
                            {DNNL_ARG_SHIFT, at(parameter, call_.inputs[2])},
                            {DNNL_ARG_MEAN, mean},
                            {DNNL_ARG_VARIANCE, variance},
                            {DNNL_ARG_DST, room(data)}},
                           DNNL_ARG_DST};
  step(Phase::kInputGradient) = {Backward(back),
                                 {{DNNL_ARG_SRC, x},
                                  {DNNL_ARG_SCALE, scale},
                                  {DNNL_ARG_SHIFT, at(parameter, call_.inputs[2])},
                                  {DNNL_ARG_MEAN, mean},
                                  {DNNL_ARG_VARIANCE, variance},
                                  {DNNL_ARG_DIFF_DST, at(data, call_.output_gradients[0])},
                                  {DNNL_ARG_DIFF_SCALE, room(parameter)},
                                  {DNNL_ARG_DIFF_SHIFT, room(parameter)},
                                  {DNNL_ARG_DIFF_SRC, room(data)}},
                                 DNNL_ARG_DIFF_SRC};
}

}  // namespace kerf::bench
