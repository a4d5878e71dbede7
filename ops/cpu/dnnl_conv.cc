#include "ops/cpu/dnnl_conv.h"

namespace kerf::ops::cpu {
namespace {

using dnnl::memory;

memory::dims dims(const Extent2& extents) { return {extents[0], extents[1]}; }

// The same dimensions, plain or in whatever layout oneDNN likes best.
memory::desc tensor(const memory::dims& extents, memory::format_tag tag) {
  return {extents, memory::data_type::f32, tag};
}

struct Geometry {
  explicit Geometry(const ConvProblem& p)
      : x{p.samples, p.channels, p.window.input[0], p.window.input[1]},
        y{p.samples, p.filters, p.window.output[0], p.window.output[1]},
        w{p.filters, p.channels / p.groups, p.window.kernel[0], p.window.kernel[1]},
        strides(dims(p.window.strides)),
        dilations{p.window.dilations[0] - 1, p.window.dilations[1] - 1},
        pads_begin(dims(p.window.pads_begin)),
        pads_end(dims(p.window.pads_end)),
        grouped(p.groups > 1) {
    if (grouped)
      w = {p.groups, p.filters / p.groups, p.channels / p.groups, p.window.kernel[0],
           p.window.kernel[1]};
    // The last windows may leave some of the end's padding unused; oneDNN wants it exact.
    for (size_t i = 0; i < 2; ++i)
      pads_end[i] = (p.window.output[i] - 1) * p.window.strides[i] +
                    (p.window.kernel[i] - 1) * p.window.dilations[i] + 1 - p.window.input[i] -
                    p.window.pads_begin[i];
  }
  memory::format_tag plain_weights() const {
    return grouped ? memory::format_tag::goihw : memory::format_tag::oihw;
  }

  memory::dims x, y, w, strides, dilations, pads_begin, pads_end;
  bool grouped;
};

}  // namespace

// Holds the memory of a plan's chosen layouts while a call runs.
class DnnlConv::Running {
 public:
  Running(Plan& plan, runtime::Device& device) : plan_(plan) {
    for (Side* side : {&plan.x, &plan.w, &plan.y}) side->memory = device.allocate(side->bytes());
  }
  ~Running() {
    for (Side* side : {&plan_.x, &plan_.w, &plan_.y}) side->memory = {};
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Plan& plan_;
};

void DnnlConv::complete(Plan& plan) const {
  const auto& engine = engine_.engine();
  for (Side* side : {&plan.x, &plan.w, &plan.y}) {
    if (side->same()) continue;
    const auto& from = side->result ? side->chosen : side->plain;
    const auto& to = side->result ? side->plain : side->chosen;
    side->reorder = dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to));
  }
  plan.primitive = dnnl::primitive(plan.description.get());
}

DnnlConv::Plan DnnlConv::describe(Kind kind, const ConvProblem& p) const {
  const Geometry g(p);
  const auto any = memory::format_tag::any;
  const auto x = tensor(g.x, any);
  const auto w = tensor(g.w, any);
  const auto y = tensor(g.y, any);
  const auto b = tensor({p.filters}, memory::format_tag::a);
  const auto method = dnnl::algorithm::convolution_direct;
  const auto sides = [&](const auto& pd, const auto& in, const auto& weights, const auto& out) {
    const bool forward = kind == kForward || kind == kForwardBias;
    Plan plan;
    plan.description = pd;
    plan.x = {tensor(g.x, memory::format_tag::nchw), in, kind == kInput, {}, {}};
    plan.w = {tensor(g.w, g.plain_weights()), weights, kind == kWeight, {}, {}};
    plan.y = {tensor(g.y, memory::format_tag::nchw), out, forward, {}, {}};
    plan.bias = b;
    return plan;
  };

  using Forward = dnnl::convolution_forward;
  const auto prop = dnnl::prop_kind::forward_training;
  const auto hint = Forward::primitive_desc(
      kind == kForwardBias
          ? Forward::desc(prop, method, x, w, b, y, g.strides, g.dilations, g.pads_begin,
                          g.pads_end)
          : Forward::desc(prop, method, x, w, y, g.strides, g.dilations, g.pads_begin, g.pads_end),
      engine_.engine());
  if (kind == kInput) {
    using Data = dnnl::convolution_backward_data;
    const Data::primitive_desc pd(
        Data::desc(method, x, w, y, g.strides, g.dilations, g.pads_begin, g.pads_end),
        engine_.engine(), hint);
    return sides(pd, pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc());
  }
  if (kind == kWeight) {
    using Weights = dnnl::convolution_backward_weights;
    const Weights::primitive_desc pd(
        Weights::desc(method, x, w, y, g.strides, g.dilations, g.pads_begin, g.pads_end),
        engine_.engine(), hint);
    return sides(pd, pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc());
  }
  return sides(hint, hint.src_desc(), hint.weights_desc(), hint.dst_desc());
}

DnnlConv::Plan& DnnlConv::plan(Kind kind, const ConvProblem& p) {
  const Window& w = p.window;
  const Key key{
      kind,         p.samples,      p.channels,     p.filters,       p.groups,        w.input[0],
      w.input[1],   w.output[0],    w.output[1],    w.kernel[0],     w.kernel[1],     w.strides[0],
      w.strides[1], w.dilations[0], w.dilations[1], w.pads_begin[0], w.pads_begin[1], w.pads_end[0],
      w.pads_end[1]};
  auto at = plans_.find(key);
  if (at == plans_.end()) {
    at = plans_.emplace(key, describe(kind, p)).first;
    complete(at->second);
  }
  return at->second;
}

memory DnnlConv::enter(Side& side, const float* data) {
  auto plain = engine_.wrap(side.plain, data);
  if (side.same()) return plain;
  auto chosen = engine_.wrap(side.chosen, side.memory.data());
  engine_.run(side.reorder, {{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, chosen}});
  return chosen;
}

memory DnnlConv::room(Side& side, float* data) {
  if (side.same()) return engine_.wrap(side.plain, data);
  return engine_.wrap(side.chosen, side.memory.data());
}

void DnnlConv::leave(Side& side, memory& from, float* data) {
  if (side.same()) return;
  auto plain = engine_.wrap(side.plain, data);
  engine_.run(side.reorder, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, plain}});
}

void DnnlConv::forward(const ConvProblem& problem, const float* x, const float* w,
                       const float* bias, float* y, runtime::Device& device) {
  guard("Conv", [&] {
    Plan& plan = this->plan(bias != nullptr ? kForwardBias : kForward, problem);
    const Running running(plan, device);
    auto to = room(plan.y, y);
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, enter(plan.x, x)}, {DNNL_ARG_WEIGHTS, enter(plan.w, w)}, {DNNL_ARG_DST, to}};
    if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, engine_.wrap(plan.bias, bias));
    engine_.run(plan.primitive, arguments);
    leave(plan.y, to, y);
  });
}

void DnnlConv::input_gradient(const ConvProblem& problem, const float* w, const float* dy,
                              float* dx, runtime::Device& device) {
  guard("Conv", [&] {
    Plan& plan = this->plan(kInput, problem);
    const Running running(plan, device);
    auto to = room(plan.x, dx);
    engine_.run(plan.primitive, {{DNNL_ARG_DIFF_DST, enter(plan.y, dy)},
                                 {DNNL_ARG_WEIGHTS, enter(plan.w, w)},
                                 {DNNL_ARG_DIFF_SRC, to}});
    leave(plan.x, to, dx);
  });
}

void DnnlConv::weight_gradient(const ConvProblem& problem, const float* x, const float* dy,
                               float* dw, runtime::Device& device) {
  guard("Conv", [&] {
    Plan& plan = this->plan(kWeight, problem);
    const Running running(plan, device);
    auto to = room(plan.w, dw);
    engine_.run(plan.primitive, {{DNNL_ARG_SRC, enter(plan.x, x)},
                                 {DNNL_ARG_DIFF_DST, enter(plan.y, dy)},
                                 {DNNL_ARG_DIFF_WEIGHTS, to}});
    leave(plan.w, to, dw);
  });
}

size_t DnnlConv::workspace_bytes(const ConvProblem& problem) {
  return guard("Conv", [&] {
    size_t most = 0;
    for (const Kind kind : {kForwardBias, kForward, kInput, kWeight}) {
      const Plan plan = describe(kind, problem);
      size_t bytes = 0;
      for (const Side* side : {&plan.x, &plan.w, &plan.y}) bytes += side->bytes();
      most = std::max(most, bytes);
    }
    return most;
  });
}

}  // namespace kerf::ops::cpu
