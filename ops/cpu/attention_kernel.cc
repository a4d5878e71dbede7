// Attention on the CPU: products by MatrixProduct, a block of queries of one head at a time, all
// threads over the key heads.
//
//   S = scale * Q K^T          P = e^(S - M) / sum, M a query's largest, 0 where it sees nothing
//   Y = P V                    dV += P^T dY    dP = dY V^T
//   dS = P * (dP - sum P * dP) dQ = scale * dS K    dK += scale * dS^T Q
#include <deque>

#include "ops/activation_kernel.h"
#include "ops/cpu/attention_rows.h"
#include "ops/cpu/matrix_product.h"
#include "ops/operators/attention.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

using Extents = Attention::Extents;

// The rows of one head of one sample.
struct HeadRows {
  float* data = nullptr;
  int64_t stride = 0;
};

// How the mask of one call lies: 0 where it is repeated.
struct MaskStrides {
  int64_t sample = 0;
  int64_t head = 0;
  int64_t query = 0;
  int64_t key = 0;
};

MaskStrides mask_strides(const Shape& mask) {
  std::array<int64_t, 4> strides{};
  int64_t stride = 1;
  for (int i = mask.rank(); i-- > 0; stride *= mask[i])
    strides[static_cast<size_t>(i + 4 - mask.rank())] = mask[i] == 1 ? 0 : stride;
  return {strides[0], strides[1], strides[2], strides[3]};
}

// A block of queries of one head, and the keys that any of them sees.
struct QueryBlock {
  int64_t sample = 0;
  int64_t head = 0;  // of queries
  int64_t first = 0;
  int64_t count = 0;
  Attention::Keys keys;
};

// Of one thread.
struct AttentionScratch {
  float* scores = nullptr;
  float* gradients = nullptr;
  float* slopes = nullptr;  // with a softcap only
  MatrixProduct& product;
  Workspace left;
};

int64_t block_rows(const Extents& e) { return std::min(Attention::kQueryBlock, e.queries); }
int64_t heads_of(const Extents& e) { return e.samples * e.key_heads; }

size_t scores_bytes(const Attention& op, const Extents& e) {
  const size_t one = piece_bytes<float>(block_rows(e) * e.keys);
  return (op.softcap() > 0 ? 3 : 2) * one;
}

enum class AttentionProduct : uint8_t { kScores, kValues, kWeightGradients, kOfV, kOfQ, kOfK };

// What a block of `rows` queries that see `keys` multiplies; rows of Q, K, V (and of Y) so far
// apart.
struct AttentionStrides {
  int64_t q = 0;
  int64_t k = 0;
  int64_t v = 0;
  int64_t y = 0;
};

AttentionStrides attention_strides(const Attention& op, const Extents& e) {
  const bool side = op.side_by_side();
  return {op.width() * (side ? e.query_heads : 1), op.width() * (side ? e.key_heads : 1),
          op.value_width() * (side ? e.key_heads : 1),
          op.value_width() * (side ? e.query_heads : 1)};
}

MatrixProduct::Problem problem_of(const Attention& op, const AttentionStrides& s,
                                  AttentionProduct which, int64_t rows, int64_t keys) {
  const int64_t d = op.width();
  const int64_t e = op.value_width();
  switch (which) {
    case AttentionProduct::kScores:
      return {.m = rows, .n = keys, .k = d, .alpha = op.scale(), .strides = {s.q, s.k, keys}};
    case AttentionProduct::kValues:
      return {.m = rows, .n = e, .k = keys, .strides = {keys, s.v, s.y}};
    case AttentionProduct::kWeightGradients:
      return {.m = rows, .n = keys, .k = e, .strides = {s.y, s.v, keys}};
    case AttentionProduct::kOfV:
      return {.m = keys, .n = e, .k = rows, .accumulate = true, .strides = {keys, s.y, s.v}};
    case AttentionProduct::kOfQ:
      return {.m = rows, .n = d, .k = keys, .alpha = op.scale(), .strides = {keys, s.k, s.q}};
    case AttentionProduct::kOfK:
      return {.m = keys,
              .n = d,
              .k = rows,
              .alpha = op.scale(),
              .accumulate = true,
              .strides = {keys, s.q, s.k}};
  }
  return {};
}

bool transposes_a(AttentionProduct which) {
  return which == AttentionProduct::kOfV || which == AttentionProduct::kOfK;
}
bool transposes_b(AttentionProduct which) {
  return which == AttentionProduct::kScores || which == AttentionProduct::kWeightGradients;
}

class AttentionKernel final : public ActivationKernel {
 public:
  explicit AttentionKernel(const KernelSite& site)
      : ActivationKernel(site.op), op_(site.as<Attention>()) {
    if (site.iterations.empty()) return;
    const auto axis = static_cast<size_t>(op_.queries_axis());
    const IterationAxis& queries = op_.space().axes[axis];
    first_query_ = site.iterations.axes[axis].ranges(queries.extent).front().begin;
  }

  void forward(const Call& call) override {
    const Extents e = extents_of(call);
    auto* sums = reinterpret_cast<ScoreSum*>(call.reserve.data());
    for_key_heads(call, e, [&](int64_t sample, int64_t head, AttentionScratch& scratch) {
      for_query_blocks(e, sample, head, [&](const QueryBlock& block) {
        score(call, e, block, scratch, false);
        std::array<bool, Attention::kQueryBlock> blind{};
        for (int64_t i = 0; i < block.count; ++i) {
          const auto [row, seen] = seen_scores(e, block, i, scratch.scores);
          const ScoreSum sum = weights_of_scores(row, seen);
          blind[static_cast<size_t>(i)] = sum.sees_nothing();
          if (sums != nullptr) sums[sum_of(e, block, i)] = sum;
        }
        const HeadRows y = rows_of(call.outputs[0], e.query_heads, sample, block.head);
        multiply(AttentionProduct::kValues, block, e, scratch.scores, value_rows(call, e, block),
                 y.data + block.first * y.stride, scratch);
        // Whatever the values are: 0 times infinity would be NaN.
        for (int64_t i = 0; i < block.count; ++i)
          if (blind[static_cast<size_t>(i)])
            std::fill_n(y.data + (block.first + i) * y.stride, op_.value_width(), 0.0F);
      });
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const Extents e = extents_of(call);
    std::array<TensorView, 3> to{};  // of Q, K and V
    for (const GradientTarget& target : targets) to[static_cast<size_t>(target.input)] = target.to;
    for_key_heads(call, e, [&](int64_t sample, int64_t head, AttentionScratch& scratch) {
      for (const size_t i : {1, 2})
        if (to[i].data != nullptr) clear_head(to[i], e, sample, head);
      for_query_blocks(e, sample, head, [&](const QueryBlock& block) {
        gradients_of_block(call, e, block, to, scratch);
      });
    });
  }

  static size_t workspace(const Attention& op, const LocalSpecs& local, int threads) {
    const Extents e = op.extents(local.inputs[0].shape, local.inputs[1].shape);
    if (heads_of(e) == 0) return 0;
    const int64_t pieces = std::min<int64_t>(threads, heads_of(e));
    // Of fewer samples one head may be left, for all threads.
    return std::max(static_cast<size_t>(pieces) * piece(op, e, pieces > 1 ? 1 : threads),
                    piece(op, e, threads));
  }

 private:
  // What a thread takes: scores, and of all products the one that takes most.
  static size_t piece(const Attention& op, const Extents& e, int threads) {
    const AttentionStrides s = attention_strides(op, e);
    const int64_t rest = e.queries % block_rows(e);
    size_t most = 0;
    const auto add = [&](int64_t rows, int64_t keys) {
      for (const auto which : {AttentionProduct::kScores, AttentionProduct::kValues,
                               AttentionProduct::kWeightGradients, AttentionProduct::kOfV,
                               AttentionProduct::kOfQ, AttentionProduct::kOfK})
        most = std::max(most, MatrixProduct::workspace_bytes(problem_of(op, s, which, rows, keys),
                                                             transposes_a(which),
                                                             transposes_b(which), false, threads));
    };
    // A block of fewer keys takes no more.
    for (const int64_t rows : {block_rows(e), rest == 0 ? block_rows(e) : rest}) add(rows, e.keys);
    return scores_bytes(op, e) + most;
  }

  Extents extents_of(const Call& call) const {
    return op_.extents(call.inputs[0].shape, call.inputs[1].shape);
  }

  // Calls work(sample, key head, scratch) for all, on as many threads as there are.
  template <class Work>
  void for_key_heads(const Call& call, const Extents& e, const Work& work) {
    const int64_t heads = heads_of(e);
    if (heads == 0 || e.queries == 0) return;
    const int64_t pieces = std::min<int64_t>(omp_get_max_threads(), heads);
    while (static_cast<int64_t>(products_.size()) < pieces) products_.emplace_back();
    const size_t bytes =
        call.workspace.size() / static_cast<size_t>(pieces) / kPieceAlignment * kPieceAlignment;
    simd::parallel_numbered_pieces(heads, 1, [&](int64_t piece, int64_t begin, int64_t end) {
      const auto run = [&] {
        Workspace own(call.workspace.subspan(static_cast<size_t>(piece) * bytes, bytes));
        const int64_t size = block_rows(e) * e.keys;
        auto* scores = own.take<float>(size);
        auto* gradients = own.take<float>(size);
        auto* slopes = op_.softcap() > 0 ? own.take<float>(size) : nullptr;
        AttentionScratch scratch{scores, gradients, slopes, products_[static_cast<size_t>(piece)],
                                 own};
        for (int64_t i = begin; i < end; ++i) work(i / e.key_heads, i % e.key_heads, scratch);
      };
      if (pieces > 1)
        with_threads(1, run);
      else
        run();
    });
  }

  // Calls work(block) for the queries of all heads that share this one, in order.
  template <class Work>
  void for_query_blocks(const Extents& e, int64_t sample, int64_t key_head,
                        const Work& work) const {
    for (int64_t shared = 0; shared < e.sharing(); ++shared)
      for (int64_t first = 0; first < e.queries; first += Attention::kQueryBlock) {
        QueryBlock block{sample,
                         key_head * e.sharing() + shared,
                         first,
                         std::min(Attention::kQueryBlock, e.queries - first),
                         {e.keys, 0}};
        for (int64_t i = 0; i < block.count; ++i) {
          const Attention::Keys seen = op_.seen_by(first_query_ + first + i, e.keys);
          if (seen.count() == 0) continue;
          block.keys = {std::min(block.keys.begin, seen.begin), std::max(block.keys.end, seen.end)};
        }
        if (block.keys.count() == 0) block.keys = {0, 1};
        work(block);
      }
  }

  static HeadRows head_rows(const TensorView& tensor, bool side_by_side, int64_t heads,
                            int64_t sample, int64_t head) {
    if (!side_by_side) {
      const int64_t width = tensor.shape[3];
      return {tensor.f32() + (sample * heads + head) * tensor.shape[2] * width, width};
    }
    const int64_t stride = tensor.shape[2];
    return {tensor.f32() + sample * tensor.shape[1] * stride + head * (stride / heads), stride};
  }
  HeadRows rows_of(const TensorView& tensor, int64_t heads, int64_t sample, int64_t head) const {
    return head_rows(tensor, op_.side_by_side(), heads, sample, head);
  }
  const float* query_rows(const Call& call, const Extents& e, const QueryBlock& block) const {
    const HeadRows q = rows_of(call.inputs[0], e.query_heads, block.sample, block.head);
    return q.data + block.first * q.stride;
  }
  // Of the keys that the block sees.
  float* key_rows(const TensorView& tensor, const Extents& e, const QueryBlock& block) const {
    const HeadRows k = rows_of(tensor, e.key_heads, block.sample, block.head / e.sharing());
    return k.data + block.keys.begin * k.stride;
  }
  const float* value_rows(const Call& call, const Extents& e, const QueryBlock& block) const {
    return key_rows(call.inputs[2], e, block);
  }

  void clear_head(const TensorView& tensor, const Extents& e, int64_t sample, int64_t head) const {
    const HeadRows rows = rows_of(tensor, e.key_heads, sample, head);
    const int64_t width = op_.side_by_side() ? rows.stride / e.key_heads : rows.stride;
    for (int64_t i = 0; i < e.keys; ++i) std::fill_n(rows.data + i * rows.stride, width, 0.0F);
  }

  static int64_t sum_of(const Extents& e, const QueryBlock& block, int64_t i) {
    return (block.sample * e.query_heads + block.head) * e.queries + block.first + i;
  }

  void multiply(AttentionProduct which, const QueryBlock& block, const Extents& e, const float* a,
                const float* b, float* to, AttentionScratch& scratch) const {
    scratch.product.run(
        problem_of(op_, attention_strides(op_, e), which, block.count, block.keys.count()),
        {a, transposes_a(which)}, {b, transposes_b(which)}, nullptr, to, scratch.left);
  }

  // What query `i` of the block sees of its row; what it does not see becomes 0.
  struct SeenScores {
    float* row;
    int64_t count;
  };
  SeenScores seen_scores(const Extents& e, const QueryBlock& block, int64_t i,
                         float* scores) const {
    const int64_t width = block.keys.count();
    float* row = scores + i * width;
    const Attention::Keys seen = op_.seen_by(first_query_ + block.first + i, e.keys);
    if (seen.count() == 0) {
      std::fill_n(row, width, 0.0F);
      return {row, 0};
    }
    const int64_t begin = seen.begin - block.keys.begin;
    const int64_t end = seen.end - block.keys.begin;
    std::fill_n(row, begin, 0.0F);
    std::fill(row + end, row + width, 0.0F);
    return {row + begin, end - begin};
  }

  // Fills the scores of the block; with `slopes` those of the softcap too.
  void score(const Call& call, const Extents& e, const QueryBlock& block, AttentionScratch& scratch,
             bool slopes) const {
    multiply(AttentionProduct::kScores, block, e, query_rows(call, e, block),
             key_rows(call.inputs[1], e, block), scratch.scores, scratch);
    const int64_t width = block.keys.count();
    if (op_.softcap() > 0)
      cap_scores(op_.softcap(), block.count * width, scratch.scores,
                 slopes ? scratch.slopes : nullptr);
    if (call.inputs.size() > 3 && call.inputs[3].data != nullptr)
      mask(call.inputs[3], block, scratch.scores);
  }

  static void mask(const TensorView& mask, const QueryBlock& block, float* scores) {
    const MaskStrides s = mask_strides(mask.shape);
    const int64_t width = block.keys.count();
    for (int64_t i = 0; i < block.count; ++i) {
      const int64_t at = block.sample * s.sample + block.head * s.head +
                         (block.first + i) * s.query + block.keys.begin * s.key;
      float* row = scores + i * width;
      for (int64_t j = 0; j < width && s.key == 0; ++j)
        mask_row(mask, at, 1, row + j);  // one for all keys
      if (s.key != 0) mask_row(mask, at, width, row);
    }
  }
  static void mask_row(const TensorView& mask, int64_t at, int64_t count, float* row) {
    if (mask.dtype == DType::kBool)
      drop_scores(mask.as<uint8_t>() + at, count, row);
    else
      add_to_scores(mask.f32() + at, count, row);
  }

  void gradients_of_block(const Call& call, const Extents& e, const QueryBlock& block,
                          const std::array<TensorView, 3>& to, AttentionScratch& scratch) const {
    const auto* sums = reinterpret_cast<const ScoreSum*>(call.reserve.data());
    score(call, e, block, scratch, true);
    for (int64_t i = 0; i < block.count; ++i) {
      const auto [row, seen] = seen_scores(e, block, i, scratch.scores);
      weights_again(sums[sum_of(e, block, i)], seen, row);
    }
    const HeadRows dy = rows_of(call.output_gradients[0], e.query_heads, block.sample, block.head);
    const float* dy_rows = dy.data + block.first * dy.stride;
    if (to[2].data != nullptr)
      multiply(AttentionProduct::kOfV, block, e, scratch.scores, dy_rows, key_rows(to[2], e, block),
               scratch);
    if (to[0].data == nullptr && to[1].data == nullptr) return;
    multiply(AttentionProduct::kWeightGradients, block, e, dy_rows, value_rows(call, e, block),
             scratch.gradients, scratch);
    for (int64_t i = 0; i < block.count; ++i)
      score_gradients(scratch.scores + i * block.keys.count(), block.keys.count(),
                      scratch.gradients + i * block.keys.count());
    if (scratch.slopes != nullptr)
      multiply_by(scratch.slopes, block.count * block.keys.count(), scratch.gradients);
    const auto blind = [&](int64_t i) { return sums[sum_of(e, block, i)].sees_nothing(); };
    for (int64_t i = 0; i < block.count; ++i)
      if (blind(i))
        std::fill_n(scratch.gradients + i * block.keys.count(), block.keys.count(), 0.0F);
    if (to[0].data != nullptr) {
      const HeadRows dq = rows_of(to[0], e.query_heads, block.sample, block.head);
      multiply(AttentionProduct::kOfQ, block, e, scratch.gradients,
               key_rows(call.inputs[1], e, block), dq.data + block.first * dq.stride, scratch);
      for (int64_t i = 0; i < block.count; ++i)
        if (blind(i)) std::fill_n(dq.data + (block.first + i) * dq.stride, op_.width(), 0.0F);
    }
    if (to[1].data != nullptr)
      multiply(AttentionProduct::kOfK, block, e, scratch.gradients, query_rows(call, e, block),
               key_rows(to[1], e, block), scratch);
  }

  const Attention& op_;
  int64_t first_query_ = 0;             // of this part, among the whole's
  std::deque<MatrixProduct> products_;  // one for each thread
};

}  // namespace

KernelEntries register_attention() {
  return {{.op = "Attention",
           .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<AttentionKernel>(site);
           },
           .workspace =
               [](const BoundOperator& op, const LocalSpecs& local, int threads) {
                 return AttentionKernel::workspace(static_cast<const Attention&>(op), local,
                                                   threads);
               }}};
}

}  // namespace kerf::ops::cpu
