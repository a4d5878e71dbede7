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

void DnnlConv::complete(Plan& plan) const {
  const auto& engine = engine_.engine();
  for (Side* side : {&plan.x, &plan.w, &plan.y}) {
    side->outside = engine_.room_for(side->plain);
    if (side->same()) continue;
    side->inside = engine_.room_for(side->chosen);
    const auto& from = side->result ? side->chosen : side->plain;
    const auto& to = side->result ? side->plain : side->chosen;
    side->reorder = dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to));
  }
  plan.bias = engine_.room_for(plan.bias_desc);
  plan.primitive = dnnl::primitive(plan.description.get());
}

DnnlConv::Plan DnnlConv::describe(Kind kind, const ConvProblem& p, Layouts layouts) const {
  const Geometry g(p);
  const auto layout = [&](memory::format_tag plain) {
    return layouts == Layouts::kPlain ? plain : memory::format_tag::any;
  };
  const auto x = tensor(g.x, layout(memory::format_tag::nchw));
  const auto w = tensor(g.w, layout(g.plain_weights()));
  const auto y = tensor(g.y, layout(memory::format_tag::nchw));
  const auto b = tensor({p.filters}, memory::format_tag::a);
  const auto method = dnnl::algorithm::convolution_direct;
  const auto sides = [&](const auto& pd, const auto& in, const auto& weights, const auto& out) {
    const bool forward = kind == kForward || kind == kForwardBias;
    Plan plan;
    plan.description = pd;
    plan.x = {
        .plain = tensor(g.x, memory::format_tag::nchw), .chosen = in, .result = kind == kInput};
    plan.w = {
        .plain = tensor(g.w, g.plain_weights()), .chosen = weights, .result = kind == kWeight};
    plan.y = {.plain = tensor(g.y, memory::format_tag::nchw), .chosen = out, .result = forward};
    plan.bias_desc = b;
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

DnnlConv::Plan& DnnlConv::plan(Kind kind, const ConvProblem& p, const Workspace& workspace) {
  const Window& w = p.window;
  const Key key{
      kind,         p.samples,      p.channels,     p.filters,       p.groups,        w.input[0],
      w.input[1],   w.output[0],    w.output[1],    w.kernel[0],     w.kernel[1],     w.strides[0],
      w.strides[1], w.dilations[0], w.dilations[1], w.pads_begin[0], w.pads_begin[1], w.pads_end[0],
      w.pads_end[1]};
  auto at = plans_.find(key);
  if (at == plans_.end()) {
    Plan plan = describe(kind, p, Layouts::kChosen);
    if (plan.bytes() > workspace.bytes_left()) plan = describe(kind, p, Layouts::kPlain);
    complete(plan);
    at = plans_.emplace(key, std::move(plan)).first;
  }
  return at->second;
}

const memory& DnnlConv::enter(Side& side, const float* data, Workspace& workspace) {
  point(side.outside, data);
  if (side.same()) return side.outside;
  point(side.inside, workspace.take<std::byte>(static_cast<int64_t>(side.chosen.get_size())));
  engine_.run(side.reorder, {{DNNL_ARG_FROM, side.outside}, {DNNL_ARG_TO, side.inside}});
  return side.inside;
}

const memory& DnnlConv::room(Side& side, float* data, Workspace& workspace) {
  point(side.outside, data);
  if (side.same()) return side.outside;
  point(side.inside, workspace.take<std::byte>(static_cast<int64_t>(side.chosen.get_size())));
  return side.inside;
}

void DnnlConv::leave(Side& side) {
  if (side.same()) return;
  engine_.run(side.reorder, {{DNNL_ARG_FROM, side.inside}, {DNNL_ARG_TO, side.outside}});
}

void DnnlConv::forward(const ConvProblem& problem, const float* x, const float* w,
                       const float* bias, float* y, Workspace& workspace) {
  guard("Conv", [&] {
    Plan& plan = this->plan(bias != nullptr ? kForwardBias : kForward, problem, workspace);
    const memory& to = room(plan.y, y, workspace);
    const memory& from = enter(plan.x, x, workspace);
    const memory& weights = enter(plan.w, w, workspace);
    if (bias == nullptr) {
      engine_.run(plan.primitive,
                  {{DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, to}});
    } else {
      point(plan.bias, bias);
      engine_.run(plan.primitive, {{DNNL_ARG_SRC, from},
                                   {DNNL_ARG_WEIGHTS, weights},
                                   {DNNL_ARG_BIAS, plan.bias},
                                   {DNNL_ARG_DST, to}});
    }
    leave(plan.y);
  });
}

void DnnlConv::input_gradient(const ConvProblem& problem, const float* w, const float* dy,
                              float* dx, Workspace& workspace) {
  guard("Conv", [&] {
    Plan& plan = this->plan(kInput, problem, workspace);
    const memory& to = room(plan.x, dx, workspace);
    const memory& from = enter(plan.y, dy, workspace);
    const memory& weights = enter(plan.w, w, workspace);
    engine_.run(plan.primitive,
                {{DNNL_ARG_DIFF_DST, from}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, to}});
    leave(plan.x);
  });
}

void DnnlConv::weight_gradient(const ConvProblem& problem, const float* x, const float* dy,
                               float* dw, Workspace& workspace) {
  guard("Conv", [&] {
    Plan& plan = this->plan(kWeight, problem, workspace);
    const memory& to = room(plan.w, dw, workspace);
    const memory& from = enter(plan.x, x, workspace);
    const memory& upstream = enter(plan.y, dy, workspace);
    engine_.run(plan.primitive,
                {{DNNL_ARG_SRC, from}, {DNNL_ARG_DIFF_DST, upstream}, {DNNL_ARG_DIFF_WEIGHTS, to}});
    leave(plan.w);
  });
}

size_t DnnlConv::workspace_bytes(const ConvProblem& problem) const {
  return guard("Conv", [&] {
    size_t most = 0;
    for (const Kind kind : {kForwardBias, kForward, kInput, kWeight})
      most = std::max(most, describe(kind, problem, Layouts::kChosen).bytes());
    return most;
  });
}

}  // namespace kerf::ops::cpu
