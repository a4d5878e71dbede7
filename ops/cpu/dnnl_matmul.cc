#include "ops/cpu/dnnl_matmul.h"

#include <algorithm>
#include <bit>

#include "ops/cpu/description_cache.h"

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
  if (p.strides != std::array<int64_t, 3>{}) return false;
  return !transpose_b && p.batch == 1 && p.n % 512 == 0 && p.k >= 256 && p.m >= 48 && p.m <= 512;
}

}  // namespace

DnnlMatmul::Description DnnlMatmul::describe(const Problem& p, int64_t columns, bool transpose_a,
                                             bool transpose_b, bool bias, size_t granted,
                                             const DnnlEngine& engine) {
  check_rows({p.batch, p.m, p.n, p.k});
  Description made;
  const auto stride = [&](size_t i, int64_t dense) {
    return p.strides[i] == 0 ? dense : p.strides[i];
  };
  made.a = matrix(p.batch, p.m, p.k, stride(0, transpose_a ? p.m : p.k), transpose_a);
  made.b = matrix(p.batch, p.k, columns, stride(1, transpose_b ? p.k : p.n), transpose_b);
  made.to = matrix(p.batch, p.m, columns, stride(2, p.n), false);
  made.bias = p.batch == 1
                  ? matrix(1, 1, columns, columns, false)
                  : memory::desc({1, 1, columns}, memory::data_type::f32, memory::format_tag::abc);
  dnnl::primitive_attr attr = scratchpad_by_user();
  if (p.alpha != 1) attr.set_output_scales(0, {p.alpha});
  if (p.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attr.set_post_ops(sum);
  }
  const auto desc = bias ? dnnl::matmul::desc(made.a, made.b, made.bias, made.to)
                         : dnnl::matmul::desc(made.a, made.b, made.to);
  made.primitive = dnnl::matmul::primitive_desc(desc, attr, engine.engine());
  if (!take_granted(made.primitive, granted,
                    [&] { return piece_bytes<std::byte>(made.scratch_bytes()); }))
    throw_nothing_granted(granted);
  return made;
}

size_t DnnlMatmul::workspace_bytes(const Problem& p, bool transposed_a, bool transposed_b,
                                   bool has_bias, int threads) {
  static DescriptionCache<10> known;
  const int64_t flags =
      (transposed_a ? 1 : 0) | (transposed_b ? 2 : 0) | (has_bias ? 4 : 0) | (p.accumulate ? 8 : 0);
  return known.bytes(
      {p.batch, p.m, p.n, p.k, flags, std::bit_cast<int32_t>(p.alpha), threads, p.strides[0],
       p.strides[1], p.strides[2]},
      [&] {
        return guard("matmul", [&] {
          return with_threads(threads, [&] {
            const DnnlEngine engine;
            const auto bytes = [&](int64_t columns) {
              return piece_bytes<std::byte>(
                  describe(p, columns, transposed_a, transposed_b, has_bias, kAnyGrant, engine)
                      .scratch_bytes());
            };
            if (!collides(p, transposed_b)) return bytes(p.n);
            return std::max(bytes(kShift), bytes(p.n - kShift));
          });
        });
      });
}

void DnnlMatmul::run(const Problem& p, Matrix a, Matrix b, const float* bias, float* to,
                     const Workspace& workspace) {
  if (!collides(p, b.transposed)) return run_columns(p, p.n, a, b, bias, to, workspace);
  run_columns(p, kShift, a, b, bias, to, workspace);
  run_columns(p, p.n - kShift, a, {b.data + kShift, false},
              bias == nullptr ? nullptr : bias + kShift, to + kShift, workspace);
}

void DnnlMatmul::run_columns(const Problem& p, int64_t columns, Matrix a, Matrix b,
                             const float* bias, float* to, const Workspace& workspace) {
  const int64_t flags = (a.transposed ? 1 : 0) | (b.transposed ? 2 : 0) |
                        (bias != nullptr ? 4 : 0) | (p.accumulate ? 8 : 0);
  const size_t granted = workspace.bytes_left();
  const Key key{p.batch,
                p.m,
                p.n,
                p.k,
                columns,
                flags,
                std::bit_cast<int32_t>(p.alpha),
                p.strides[0],
                p.strides[1],
                p.strides[2],
                static_cast<int64_t>(granted)};
  guard("matmul", [&] {
    auto at = plans_.find(key);
    if (at == plans_.end()) {
      const Description made =
          describe(p, columns, a.transposed, b.transposed, bias != nullptr, granted, engine_);
      Plan plan{.primitive = dnnl::matmul(made.primitive),
                .a = engine_.room_for(made.a),
                .b = engine_.room_for(made.b),
                .bias = engine_.room_for(made.bias),
                .to = engine_.room_for(made.to),
                .scratch = engine_.room_for(made.primitive.scratchpad_desc()),
                .scratch_bytes = made.scratch_bytes()};
      at = plans_.emplace(key, std::move(plan)).first;
    }
    Plan& plan = at->second;
    Workspace own = workspace;
    point(plan.a, a.data);
    point(plan.b, b.data);
    point(plan.to, to);
    point(plan.scratch, own.take<std::byte>(plan.scratch_bytes));
    if (bias == nullptr) {
      engine_.run(plan.primitive, {{DNNL_ARG_SRC, plan.a},
                                   {DNNL_ARG_WEIGHTS, plan.b},
                                   {DNNL_ARG_DST, plan.to},
                                   {DNNL_ARG_SCRATCHPAD, plan.scratch}});
      return;
    }
    point(plan.bias, bias);
    engine_.run(plan.primitive, {{DNNL_ARG_SRC, plan.a},
                                 {DNNL_ARG_WEIGHTS, plan.b},
                                 {DNNL_ARG_BIAS, plan.bias},
                                 {DNNL_ARG_DST, plan.to},
                                 {DNNL_ARG_SCRATCHPAD, plan.scratch}});
  });
}

}  // namespace kerf::ops::cpu
