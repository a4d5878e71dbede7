#include "ops/cpu/dnnl_conv.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "ops/cpu/description_cache.h"

namespace kerf::ops::cpu {
namespace {

using dnnl::memory;

// The same dimensions, plain or in whatever layout oneDNN likes best.
memory::desc tensor(const memory::dims& extents, memory::format_tag tag) {
  return {extents, memory::data_type::f32, tag};
}

// A problem in oneDNN's words.
struct Geometry {
  explicit Geometry(const ConvProblem& p)
      : x{p.samples, p.channels},
        y{p.samples, p.filters},
        grouped(p.groups > 1),
        last(p.format == ImageFormat::kChannelsLast),
        volumes(!p.window.flat()),
        adds(p.ending.adds) {
    w = grouped ? memory::dims{p.groups, p.filters / p.groups, p.channels / p.groups}
                : memory::dims{p.filters, p.channels};
    if (volumes) add(p.window.depth);
    for (size_t i = 0; i < 2; ++i)
      add({p.window.input[i], p.window.output[i], p.window.kernel[i], p.window.strides[i],
           p.window.dilations[i], p.window.pads_begin[i], p.window.pads_end[i]});
  }
  void add(const AxisWindow& axis) {
    x.push_back(axis.input);
    y.push_back(axis.output);
    w.push_back(axis.kernel);
    strides.push_back(axis.stride);
    dilations.push_back(axis.dilation - 1);
    pads_begin.push_back(axis.pad_begin);
    // The last windows may leave some of the end's padding unused; oneDNN wants it exact.
    pads_end.push_back((axis.output - 1) * axis.stride + axis.reach() - axis.input -
                       axis.pad_begin);
  }
  memory::format_tag plain_images() const {
    if (volumes) return memory::format_tag::ncdhw;
    return last ? memory::format_tag::nhwc : memory::format_tag::nchw;
  }
  // What is added to must lie as it does.
  memory::format_tag chosen_images() const {
    return last || adds ? plain_images() : memory::format_tag::any;
  }
  memory::format_tag plain_weights() const {
    if (volumes) return grouped ? memory::format_tag::goidhw : memory::format_tag::oidhw;
    return grouped ? memory::format_tag::goihw : memory::format_tag::oihw;
  }

  memory::dims x, y, w, strides, dilations, pads_begin, pads_end;
  bool grouped;
  bool last;
  bool volumes;
  bool adds;
};

dnnl::primitive_attr attributes_of(const ConvEnding& ending) {
  dnnl::primitive_attr attributes = scratchpad_by_user();
  dnnl::post_ops operations;
  if (ending.adds) operations.append_sum(1.0F);
  if (ending.relu) operations.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
  attributes.set_post_ops(operations);
  return attributes;
}

}  // namespace

memory DnnlConv::room_for(Role role, const memory::desc& desc) {
  for (const auto& [known, room] : rooms_)
    if (known == role && room.get_desc() == desc) return room;
  return rooms_.emplace_back(role, engine_.room_for(desc)).second;
}

DnnlConv::Side DnnlConv::side_of(const Forms& forms, Role plain, Role chosen) {
  Side side{.outside = room_for(plain, forms.plain), .result = forms.result, .kept = forms.kept};
  if (forms.same()) return side;
  side.inside = room_for(chosen, forms.chosen);
  side.inside_bytes = static_cast<int64_t>(forms.chosen.get_size());
  const auto& from = side.result ? forms.chosen : forms.plain;
  const auto& to = side.result ? forms.plain : forms.chosen;
  const dnnl::reorder::primitive_desc reorder(engine_.engine(), from, engine_.engine(), to,
                                              scratchpad_by_user());
  KERF_CHECK(reorder.scratchpad_desc().get_size() == 0, "a reorder of float32 wants scratch");
  side.reorder = dnnl::reorder(reorder);
  return side;
}

DnnlConv::Plan DnnlConv::complete(const Described& described, const ConvProblem& problem) {
  return {.primitive = dnnl::primitive(described.primitive.get()),
          .x = side_of(described.x, Role::kX, Role::kChosenX),
          .w = side_of(described.w, Role::kW, Role::kChosenW),
          .y = side_of(described.y, Role::kY, Role::kChosenY),
          .bias = room_for(Role::kBias, tensor({problem.filters}, memory::format_tag::a)),
          .scratch = room_for(Role::kScratch, described.primitive.scratchpad_desc()),
          .scratch_bytes = described.scratch_bytes};
}

// Tensors as they lie need no reordering: that way is slow, and takes nothing.
DnnlConv::Described DnnlConv::describe(Kind kind, const ConvProblem& p, size_t granted,
                                       const Kept* kept, const DnnlEngine& engine) {
  for (const Layouts layouts : {Layouts::kChosen, Layouts::kPlain})
    if (auto found = describe_in(layouts, kind, p, granted, kept, engine)) return *std::move(found);
  throw_nothing_granted(granted);
}

std::optional<DnnlConv::Described> DnnlConv::describe_in(Layouts layouts, Kind kind,
                                                         const ConvProblem& p, size_t granted,
                                                         const Kept* kept,
                                                         const DnnlEngine& engine) {
  const Geometry g(p);
  const auto rows = [](const memory::dims& sizes) {
    return std::accumulate(sizes.begin(), sizes.end() - 1, int64_t{1}, std::multiplies<>());
  };
  check_rows({rows(g.x), rows(g.y)});
  const bool chosen = layouts == Layouts::kChosen;
  const auto x = tensor(g.x, chosen ? g.chosen_images() : g.plain_images());
  const auto w = tensor(g.w, chosen ? memory::format_tag::any : g.plain_weights());
  const auto y = tensor(g.y, chosen ? g.chosen_images() : g.plain_images());
  const auto b = tensor({p.filters}, memory::format_tag::a);
  const auto method = dnnl::algorithm::convolution_direct;
  const auto attributes = attributes_of(p.ending);
  const bool forward = kind == kForward || kind == kForwardBias;
  // By the accessors of this kind's description.
  const auto granted_one = [&](auto pd, auto in, auto weights,
                               auto out) -> std::optional<Described> {
    Described found;
    const auto bytes = [&] {
      found.scratch_bytes = static_cast<int64_t>(pd.scratchpad_desc().get_size());
      found.x = {
          .plain = tensor(g.x, g.plain_images()), .chosen = (pd.*in)(), .result = kind == kInput};
      found.w = {.plain = tensor(g.w, g.plain_weights()),
                 .chosen = (pd.*weights)(),
                 .result = kind == kWeight || kind == kWeightBias};
      found.w.kept = kept != nullptr && kept->bytes > 0 && found.w.chosen == kept->layout;
      found.y = {.plain = tensor(g.y, g.plain_images()), .chosen = (pd.*out)(), .result = forward};
      return found.bytes();
    };
    if (!take_granted(pd, granted, bytes)) return std::nullopt;
    found.primitive = pd;
    return found;
  };

  using Forward = dnnl::convolution_forward;
  const auto prop = dnnl::prop_kind::forward_training;
  const auto hint = Forward::primitive_desc(
      kind == kForwardBias
          ? Forward::desc(prop, method, x, w, b, y, g.strides, g.dilations, g.pads_begin,
                          g.pads_end)
          : Forward::desc(prop, method, x, w, y, g.strides, g.dilations, g.pads_begin, g.pads_end),
      attributes, engine.engine());
  if (kind == kInput) {
    using Data = dnnl::convolution_backward_data;
    const Data::primitive_desc pd(
        Data::desc(method, x, w, y, g.strides, g.dilations, g.pads_begin, g.pads_end), attributes,
        engine.engine(), hint);
    using D = Data::primitive_desc;
    return granted_one(pd, &D::diff_src_desc, &D::weights_desc, &D::diff_dst_desc);
  }
  if (!forward) {
    using Weights = dnnl::convolution_backward_weights;
    const Weights::primitive_desc pd(
        kind == kWeightBias
            ? Weights::desc(method, x, w, b, y, g.strides, g.dilations, g.pads_begin, g.pads_end)
            : Weights::desc(method, x, w, y, g.strides, g.dilations, g.pads_begin, g.pads_end),
        attributes, engine.engine(), hint);
    using D = Weights::primitive_desc;
    return granted_one(pd, &D::src_desc, &D::diff_weights_desc, &D::diff_dst_desc);
  }
  using D = Forward::primitive_desc;
  return granted_one(hint, &D::src_desc, &D::weights_desc, &D::dst_desc);
}

DnnlConv::Kept DnnlConv::layout_to_keep(Kind kind, const ConvProblem& problem,
                                        const DnnlEngine& engine) {
  ConvProblem some = problem;
  some.samples = problem.layout_samples;
  const Forms w = describe(kind, some, kAnyGrant, nullptr, engine).w;
  return {w.chosen, w.bytes()};
}

// Of the weights that it reads; null where it makes them.
DnnlConv::Kept* DnnlConv::kept(Kind kind, const ConvProblem& problem) {
  if (kind == kWeight || kind == kWeightBias) return nullptr;
  std::optional<Kept>& known = kind == kInput ? input_kept_ : forward_kept_;
  if (!known) known = layout_to_keep(kind == kInput ? kInput : kForward, problem, engine_);
  return &*known;
}

DnnlConv::Key DnnlConv::key_of(int64_t first, const ConvProblem& p, size_t granted) {
  const Window& w = p.window;
  return {first,
          static_cast<int64_t>(p.format),
          (p.ending.adds ? 1 : 0) + (p.ending.relu ? 2 : 0),
          p.layout_samples,
          p.samples,
          p.channels,
          p.filters,
          p.groups,
          w.input[0],
          w.input[1],
          w.output[0],
          w.output[1],
          w.kernel[0],
          w.kernel[1],
          w.strides[0],
          w.strides[1],
          w.dilations[0],
          w.dilations[1],
          w.pads_begin[0],
          w.pads_begin[1],
          w.pads_end[0],
          w.pads_end[1],
          w.depth.input,
          w.depth.output,
          w.depth.kernel,
          w.depth.stride,
          w.depth.dilation,
          w.depth.pad_begin,
          static_cast<int64_t>(granted)};
}

DnnlConv::Plan& DnnlConv::plan(Kind kind, const ConvProblem& p, const PackedWeights& packed,
                               size_t granted) {
  const Key key = key_of(kind, p, granted);
  auto at = plans_.find(key);
  if (at == plans_.end()) {
    const Kept* to_keep = packed.memory.empty() ? nullptr : kept(kind, p);
    at = plans_.emplace(key, complete(describe(kind, p, granted, to_keep, engine_), p)).first;
  }
  return at->second;
}

const memory& DnnlConv::enter(Side& side, const float* data, Workspace& workspace) {
  point(side.outside, data);
  if (side.same()) return side.outside;
  point(side.inside, workspace.take<std::byte>(side.inside_bytes));
  if (!side.result)
    engine_.run(side.reorder, {{DNNL_ARG_FROM, side.outside}, {DNNL_ARG_TO, side.inside}});
  return side.inside;
}

const memory& DnnlConv::enter_kept(Kind kind, Side& side, const float* data,
                                   const PackedWeights& packed, Kept& kept) {
  KERF_CHECK(packed.memory.size() >= kept.bytes, "{} bytes for weights of {}", packed.memory.size(),
             kept.bytes);
  point(side.outside, data);
  point(side.inside,
        (kind == kInput ? packed.memory.first(kept.bytes) : packed.memory.last(kept.bytes)).data());
  if (packed.version == 0 || packed.version != kept.version)
    engine_.run(side.reorder, {{DNNL_ARG_FROM, side.outside}, {DNNL_ARG_TO, side.inside}});
  kept.version = packed.version;
  return side.inside;
}

void DnnlConv::leave(Side& side) {
  if (!side.result || side.same()) return;
  engine_.run(side.reorder, {{DNNL_ARG_FROM, side.inside}, {DNNL_ARG_TO, side.outside}});
}

void DnnlConv::run(Kind kind, const ConvProblem& problem, const Operands& operands,
                   const PackedWeights& packed, const Workspace& workspace) {
  guard("Conv", [&] {
    Plan& plan = this->plan(kind, problem, packed, workspace.bytes_left());
    Workspace own = workspace;
    const memory& x = enter(plan.x, operands.x, own);
    const memory& w = plan.w.kept
                          ? enter_kept(kind, plan.w, operands.w, packed, *kept(kind, problem))
                          : enter(plan.w, operands.w, own);
    const memory& y = enter(plan.y, operands.y, own);
    point(plan.bias, operands.bias);
    point(plan.scratch, own.take<std::byte>(plan.scratch_bytes));
    const auto execute = [&](int of_x, int of_w, int of_bias, int of_y) {
      if (operands.bias == nullptr)
        engine_.run(plan.primitive,
                    {{of_x, x}, {of_w, w}, {of_y, y}, {DNNL_ARG_SCRATCHPAD, plan.scratch}});
      else
        engine_.run(plan.primitive, {{of_x, x},
                                     {of_w, w},
                                     {of_bias, plan.bias},
                                     {of_y, y},
                                     {DNNL_ARG_SCRATCHPAD, plan.scratch}});
    };
    if (kind == kInput)
      execute(DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_DST);
    else if (kind == kForward || kind == kForwardBias)
      execute(DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST);
    else
      execute(DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST);
    for (Side* side : {&plan.x, &plan.w, &plan.y}) leave(*side);
  });
}

bool DnnlConv::reads_weights(const ConvProblem& problem, bool bias, const PackedWeights& packed,
                             const Workspace& workspace) {
  return guard("Conv", [&] {
    const Kind kind = bias ? kForwardBias : kForward;
    return !plan(kind, problem, packed, workspace.bytes_left()).w.kept || packed.version == 0 ||
           packed.version != kept(kind, problem)->version;
  });
}

void DnnlConv::forward(const ConvProblem& problem, const float* x, const float* w,
                       const float* bias, float* y, const PackedWeights& packed,
                       const Workspace& workspace) {
  run(bias == nullptr ? kForward : kForwardBias, problem, {x, w, bias, y}, packed, workspace);
}

void DnnlConv::input_gradient(const ConvProblem& problem, const float* w, const float* dy,
                              float* dx, const PackedWeights& packed, const Workspace& workspace) {
  run(kInput, problem, {dx, w, nullptr, dy}, packed, workspace);
}

void DnnlConv::weight_gradient(const ConvProblem& problem, const float* x, const float* dy,
                               float* dw, float* dbias, const Workspace& workspace) {
  run(dbias == nullptr ? kWeight : kWeightBias, problem, {x, dw, dbias, dy}, {}, workspace);
}

// Bytes, once for each problem, number of threads and question.
template <class Describe>
size_t DnnlConv::described(const ConvProblem& problem, int threads, int asked,
                           const Describe& describe) {
  static DescriptionCache<std::tuple_size_v<Key>> known;
  return known.bytes(key_of(8 * threads + asked, problem, kAnyGrant), [&] {
    return guard("Conv",
                 [&] { return with_threads(threads, [&] { return describe(DnnlEngine()); }); });
  });
}

size_t DnnlConv::workspace_bytes(const ConvProblem& problem, int threads, Passes passes) {
  const int asked = passes == Passes::kForward ? 6 : passes == Passes::kAll ? 1 : 0;
  return described(problem, threads, asked, [&](const DnnlEngine& engine) {
    const auto bytes = [&](Kind kind) {
      return describe(kind, problem, kAnyGrant, nullptr, engine).bytes();
    };
    const size_t forward = std::max(bytes(kForward), bytes(kForwardBias));
    if (passes == Passes::kForward) return forward;
    size_t most = bytes(kInput);
    if (passes == Passes::kInputGradient) return most;
    for (const Kind kind : {kWeightBias, kWeight}) most = std::max(most, bytes(kind));
    most = std::max(most, forward);
    return most;
  });
}

size_t DnnlConv::packed_bytes(const ConvProblem& problem, int threads, bool forward,
                              bool input_gradient) {
  const int asked = 2 + (forward ? 1 : 0) + (input_gradient ? 2 : 0);
  return described(problem, threads, asked, [&](const DnnlEngine& engine) {
    return (forward ? layout_to_keep(kForward, problem, engine).bytes : 0) +
           (input_gradient ? layout_to_keep(kInput, problem, engine).bytes : 0);
  });
}

}  // namespace kerf::ops::cpu
