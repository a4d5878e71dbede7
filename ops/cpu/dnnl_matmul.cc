#include "ops/cpu/dnnl_matmul.h"

#include <bit>

namespace kerf::ops::cpu {
namespace {

using dnnl::memory;

memory::desc matrix(int64_t batch, int64_t rows, int64_t columns, bool transposed) {
  const memory::dims strides =
      transposed ? memory::dims{rows * columns, 1, rows} : memory::dims{rows * columns, columns, 1};
  if (batch == 0)
    return {{rows, columns}, memory::data_type::f32, memory::dims{strides[1], strides[2]}};
  return {{batch, rows, columns}, memory::data_type::f32, strides};
}

}  // namespace

DnnlMatmul::Plan DnnlMatmul::make_plan(const Problem& p, bool transpose_a, bool transpose_b,
                                       bool bias) const {
  const int64_t batch = p.batch == 1 ? 0 : p.batch;  // 0: plain matrices
  const auto a = matrix(batch, p.m, p.k, transpose_a);
  const auto b = matrix(batch, p.k, p.n, transpose_b);
  const auto to = matrix(batch, p.m, p.n, false);
  const auto bias_desc =
      batch == 0 ? memory::desc({1, p.n}, memory::data_type::f32, memory::format_tag::ab)
                 : memory::desc({1, 1, p.n}, memory::data_type::f32, memory::format_tag::abc);
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
  plan.a = engine_.wrap(a, nullptr);
  plan.b = engine_.wrap(b, nullptr);
  plan.to = engine_.wrap(to, nullptr);
  if (bias) plan.bias = engine_.wrap(bias_desc, nullptr);
  return plan;
}

void DnnlMatmul::run(const Problem& p, Matrix a, Matrix b, const float* bias, float* to) {
  const int64_t flags = (a.transposed ? 1 : 0) | (b.transposed ? 2 : 0) |
                        (bias != nullptr ? 4 : 0) | (p.accumulate ? 8 : 0);
  const Key key{p.batch, p.m, p.n, p.k, flags, std::bit_cast<int32_t>(p.alpha)};
  guard("matmul", [&] {
    auto at = plans_.find(key);
    if (at == plans_.end())
      at = plans_.emplace(key, make_plan(p, a.transposed, b.transposed, bias != nullptr)).first;
    Plan& plan = at->second;
    plan.a.set_data_handle(const_cast<float*>(a.data));
    plan.b.set_data_handle(const_cast<float*>(b.data));
    plan.to.set_data_handle(to);
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, plan.a}, {DNNL_ARG_WEIGHTS, plan.b}, {DNNL_ARG_DST, plan.to}};
    if (bias != nullptr) {
      plan.bias.set_data_handle(const_cast<float*>(bias));
      arguments.emplace(DNNL_ARG_BIAS, plan.bias);
    }
    engine_.run(plan.primitive, arguments);
  });
}

}  // namespace kerf::ops::cpu
