#include "ops/cpu/dnnl_matmul.h"

#include <bit>

namespace kerf::ops::cpu {
namespace {

using dnnl::memory;

// `columns` of a row-major matrix (or batch of them) whose rows are `stride` apart; or its
// transpose.
memory::desc matrix(int64_t batch, int64_t rows, int64_t columns, int64_t stride, bool transposed) {
  const auto f32 = memory::data_type::f32;
  const memory::dims strides = transposed ? memory::dims{1, stride} : memory::dims{stride, 1};
  if (batch == 1) return {{rows, columns}, f32, strides};
  return {{batch, rows, columns}, f32, {rows * columns, strides[0], strides[1]}};
}

// oneDNN 2.6 multiplies up to 512 rows without packing B, and then, if B's rows are aligned and
// a multiple of 2 KiB apart, every row of B falls into the same few sets of the cache: 39 instead
// of 70 GFLOP/s on Zen 4. From the fifth column on, B is not aligned, and is packed.
constexpr int64_t kShift = 4;

bool collides(const DnnlMatmul::Problem& p, bool transpose_b) {
  return !transpose_b && p.batch == 1 && p.n % 512 == 0 && p.k >= 256 && p.m >= 48 && p.m <= 512;
}

}  // namespace

DnnlMatmul::Plan DnnlMatmul::make_plan(const Problem& p, int64_t columns, bool transpose_a,
                                       bool transpose_b, bool bias) const {
  const auto a = matrix(p.batch, p.m, p.k, transpose_a ? p.m : p.k, transpose_a);
  const auto b = matrix(p.batch, p.k, columns, transpose_b ? p.k : p.n, transpose_b);
  const auto to = matrix(p.batch, p.m, columns, p.n, false);
  const auto bias_desc =
      p.batch == 1 ? matrix(1, 1, columns, columns, false)
                   : memory::desc({1, 1, columns}, memory::data_type::f32, memory::format_tag::abc);
  dnnl::primitive_attr attr;
  if (p.alpha != 1) attr.set_output_scales(0, {p.alpha});
  if (p.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attr.set_post_ops(sum);
  }
  const auto desc = bias ? dnnl::matmul::desc(a, b, bias_desc, to) : dnnl::matmul::desc(a, b, to);
  Plan plan;
  plan.primitive = dnnl::matmul(dnnl::matmul::primitive_desc(desc, attr, engine_.engine()));
  plan.a = engine_.room_for(a);
  plan.b = engine_.room_for(b);
  plan.to = engine_.room_for(to);
  if (bias) plan.bias = engine_.room_for(bias_desc);
  return plan;
}

void DnnlMatmul::run(const Problem& p, Matrix a, Matrix b, const float* bias, float* to) {
  if (!collides(p, b.transposed)) return run_columns(p, p.n, a, b, bias, to);
  run_columns(p, kShift, a, b, bias, to);
  run_columns(p, p.n - kShift, a, {b.data + kShift, false},
              bias == nullptr ? nullptr : bias + kShift, to + kShift);
}

void DnnlMatmul::run_columns(const Problem& p, int64_t columns, Matrix a, Matrix b,
                             const float* bias, float* to) {
  const int64_t flags = (a.transposed ? 1 : 0) | (b.transposed ? 2 : 0) |
                        (bias != nullptr ? 4 : 0) | (p.accumulate ? 8 : 0);
  const Key key{p.batch, p.m, p.n, p.k, columns, flags, std::bit_cast<int32_t>(p.alpha)};
  guard("matmul", [&] {
    auto at = plans_.find(key);
    if (at == plans_.end())
      at = plans_.emplace(key, make_plan(p, columns, a.transposed, b.transposed, bias != nullptr))
               .first;
    Plan& plan = at->second;
    point(plan.a, a.data);
    point(plan.b, b.data);
    point(plan.to, to);
    if (bias == nullptr) {
      engine_.run(plan.primitive,
                  {{DNNL_ARG_SRC, plan.a}, {DNNL_ARG_WEIGHTS, plan.b}, {DNNL_ARG_DST, plan.to}});
      return;
    }
    point(plan.bias, bias);
    engine_.run(plan.primitive, {{DNNL_ARG_SRC, plan.a},
                                 {DNNL_ARG_WEIGHTS, plan.b},
                                 {DNNL_ARG_BIAS, plan.bias},
                                 {DNNL_ARG_DST, plan.to}});
  });
}

}  // namespace kerf::ops::cpu
