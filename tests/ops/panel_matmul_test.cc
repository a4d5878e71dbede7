// Products by panels against plain loops, with edges on all sides and any number of threads.
#include "ops/cpu/panel_matmul.h"

#include <gmock/gmock.h>
#include <omp.h>

#include <cmath>

#include "ops/cpu/matrix_product.h"
#include "ops/cpu/wide_panel_matmul.h"
#include "ops/random.h"

namespace kerf::ops::cpu {
namespace {

constexpr float kUntouched = -77;

std::vector<float> numbers(int64_t count, uint32_t purpose) {
  std::vector<float> drawn(static_cast<size_t>(count));
  fill_uniform({1, purpose, 0, 0}, 0, drawn);
  return drawn;
}

struct Case {
  MatmulProblem problem;
  bool transposed_a = false;
  bool transposed_b = false;
  bool has_bias = false;
};

// The memory of a case, rows as far apart as it says.
struct Memory {
  explicit Memory(const Case& c)
      : a(numbers(rows_of_a(c) * step(c, 0), 1)),
        b(numbers(rows_of_b(c) * step(c, 1), 2)),
        bias(numbers(c.problem.n, 3)),
        to(static_cast<size_t>(c.problem.m * step(c, 2)), kUntouched) {}
  static int64_t rows_of_a(const Case& c) { return c.transposed_a ? c.problem.k : c.problem.m; }
  static int64_t rows_of_b(const Case& c) { return c.transposed_b ? c.problem.n : c.problem.k; }
  static int64_t step(const Case& c, size_t i) {
    if (c.problem.strides[i] != 0) return c.problem.strides[i];
    return i == 0 && c.transposed_a               ? c.problem.m
           : i == 0 || (i == 1 && c.transposed_b) ? c.problem.k
                                                  : c.problem.n;
  }
  std::vector<float> a, b, bias, to;
};

// One of the two ways.
struct Way {
  const char* name;
  bool (*is_there)();
  size_t (*workspace_bytes)(const MatmulProblem&, int threads);
  void (*multiply)(const MatmulProblem&, Matrix a, Matrix b, const float* bias, float* to,
                   Workspace);
};
constexpr Way kNarrow{"Narrow", has_panels, panel_workspace_bytes, multiply_panels};
constexpr Way kWide{"Wide", has_wide_panels, wide_panel_workspace_bytes, multiply_wide_panels};

std::vector<float> by_panels(const Way& way, const Case& c, int threads) {
  Memory memory(c);
  const size_t bytes = way.workspace_bytes(c.problem, threads);
  // At no multiple of anything, and nothing is written beyond.
  std::vector<float> granted(1 + bytes / sizeof(float) + 1, kUntouched);
  auto* begin = reinterpret_cast<std::byte*>(granted.data() + 1);
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  way.multiply(c.problem, {memory.a.data(), c.transposed_a}, {memory.b.data(), c.transposed_b},
               c.has_bias ? memory.bias.data() : nullptr, memory.to.data(),
               Workspace({begin, bytes}));
  omp_set_num_threads(before);
  EXPECT_EQ(granted.front(), kUntouched);
  EXPECT_EQ(granted.back(), kUntouched);
  return memory.to;
}

// Each number by a loop in double, and what may be apart: of float32's rounding, by the terms.
void expect_product(const Case& c, const std::vector<float>& result) {
  const MatmulProblem& p = c.problem;
  const Memory memory(c);
  const auto at = [](const std::vector<float>& of, int64_t step, bool transposed, int64_t row,
                     int64_t column) {
    return static_cast<double>(
        of[static_cast<size_t>(transposed ? column * step + row : row * step + column)]);
  };
  const int64_t to_step = Memory::step(c, 2);
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < to_step; ++j) {
      const float found = result[static_cast<size_t>(i * to_step + j)];
      if (j >= p.n) {
        ASSERT_EQ(found, kUntouched) << "row " << i << ", behind the columns";
        continue;
      }
      double sum = 0;
      for (int64_t t = 0; t < p.k; ++t)
        sum += at(memory.a, Memory::step(c, 0), c.transposed_a, i, t) *
               at(memory.b, Memory::step(c, 1), c.transposed_b, t, j);
      double expected = p.alpha * sum + (p.accumulate ? kUntouched : 0);
      if (c.has_bias) expected += memory.bias[static_cast<size_t>(j)];
      ASSERT_NEAR(found, expected, 1e-6 * static_cast<double>(p.k + 80))
          << "row " << i << ", column " << j;
    }
}

class PanelMatmul : public testing::TestWithParam<std::tuple<Way, Case>> {
 protected:
  void SetUp() override {
    if (!std::get<Way>(GetParam()).is_there()) GTEST_SKIP() << "this processor cannot";
  }
};

TEST_P(PanelMatmul, IsWhatPlainLoopsGiveAndTheSameWithAnyNumberOfThreads) {
  const auto& [way, c] = GetParam();
  const std::vector<float> alone = by_panels(way, c, 1);
  expect_product(c, alone);
  for (const int threads : {2, 3, 7}) EXPECT_EQ(by_panels(way, c, threads), alone) << threads;
}

// What a worker computes that has some of the rows, or some of the columns.
TEST_P(PanelMatmul, APartOfTheRowsOrColumnsHasTheSameBits) {
  const auto& [way, c] = GetParam();
  const std::vector<float> whole = by_panels(way, c, 1);
  const int64_t row_step = Memory::step(c, 2);
  for (const bool by_rows : {true, false}) {
    const int64_t all = by_rows ? c.problem.m : c.problem.n;
    if (all < 2) continue;
    const int64_t first = all / 3 + 1;  // of those left out
    Memory memory(c);
    MatmulProblem part = c.problem;
    for (size_t i : {0, 1, 2}) part.strides[i] = Memory::step(c, i);
    (by_rows ? part.m : part.n) -= first;
    const int64_t a_step = c.transposed_a ? 1 : part.strides[0];
    const int64_t b_step = c.transposed_b ? part.strides[1] : 1;
    const Matrix a{memory.a.data() + (by_rows ? first * a_step : 0), c.transposed_a};
    const Matrix b{memory.b.data() + (by_rows ? 0 : first * b_step), c.transposed_b};
    const float* bias = c.has_bias ? memory.bias.data() + (by_rows ? 0 : first) : nullptr;
    const int64_t skipped = by_rows ? first * row_step : first;
    std::vector<std::byte> granted(way.workspace_bytes(part, 1));
    const int before = omp_get_max_threads();
    omp_set_num_threads(1);
    way.multiply(part, a, b, bias, memory.to.data() + skipped, Workspace(granted));
    omp_set_num_threads(before);
    for (int64_t i = by_rows ? first : 0; i < c.problem.m; ++i)
      for (int64_t j = by_rows ? 0 : first; j < c.problem.n; ++j) {
        const auto at = static_cast<size_t>(i * row_step + j);
        ASSERT_EQ(memory.to[at], whole[at]) << "row " << i << ", column " << j;
      }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  // Tiles and blocks that are full, have one more, or are nearly empty, in every combination of
  // what lies transposed.
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{6, 16, 8},
                                {1, 1, 1},
                                {7, 17, 9},
                                {145, 33, 257},
                                {5, 15, 300},
                                {13, 2064, 3},
                                {300, 31, 64}})
    for (const bool transposed_a : {false, true})
      for (const bool transposed_b : {false, true})
        all.push_back({{.m = m, .n = n, .k = k}, transposed_a, transposed_b, false});
  // Of wide panels: full tiles and blocks, and a few more or less, with terms enough that tiles lay
  // the next sliver.
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{14, 32, 512},
                                {15, 33, 513},
                                {57, 95, 300},
                                {71, 130, 1030},
                                {256, 40, 512},
                                {257, 40, 520},
                                {527, 65, 140},
                                {1030, 40, 24}})
    for (const bool transposed_a : {false, true})
      for (const bool transposed_b : {false, true})
        all.push_back({{.m = m, .n = n, .k = k}, transposed_a, transposed_b, false});
  all.push_back({{.m = 100, .n = 130, .k = 530, .strides = {540, 150, 131}}, false, false, true});
  all.push_back(
      {{.m = 50, .n = 40, .k = 600, .alpha = 0.5F, .accumulate = true}, true, false, false});
  all.push_back({{.m = 50, .n = 40, .k = 600}, false, true, true});
  all.push_back({{.m = 20, .n = 2100, .k = 20, .accumulate = true}, false, false, true});
  all.push_back({{.m = 13, .n = 2064, .k = 300, .accumulate = true}, true, true, true});
  all.push_back({{.m = 33, .n = 30, .k = 70, .strides = {80, 45, 37}}, false, false, true});
  all.push_back({{.m = 33, .n = 30, .k = 70, .strides = {40, 75, 31}}, true, true, false});
  return all;
}

std::string name_of(const testing::TestParamInfo<std::tuple<Way, Case>>& info) {
  const auto& [way, c] = info.param;
  const MatmulProblem& p = c.problem;
  return std::string(way.name) + std::to_string(p.m) + "x" + std::to_string(p.k) +
         (c.transposed_a ? "t" : "") + "_by_" + std::to_string(p.k) + "x" + std::to_string(p.n) +
         (c.transposed_b ? "t" : "") + (p.accumulate ? "_added" : "") +
         (c.has_bias ? "_biased" : "") + (p.strides[0] != 0 ? "_apart" : "");
}

INSTANTIATE_TEST_SUITE_P(Products, PanelMatmul,
                         testing::Combine(testing::Values(kNarrow, kWide),
                                          testing::ValuesIn(cases())),
                         name_of);

// What the way takes that suits the problem on this processor; 0: oneDNN is quicker.
size_t taken(const MatmulProblem& p) {
  if (suits_wide_panels(p)) return wide_panel_workspace_bytes(p, 2);
  return suits_panels(p) ? panel_workspace_bytes(p, 2) : 0;
}

TEST(PanelWorkspace, OfAProductHoldsWhatAnySmallerOneTakes) {
  if (taken({.m = 256, .n = 256, .k = 256}) == 0) GTEST_SKIP() << "oneDNN is quicker here";
  for (const int64_t batch : {1, 3})
    for (const int64_t extent : {64, 256, 300, 3000})
      for (const int64_t columns : {64, 100, 255, 300, 304}) {
        const MatmulProblem planned{.batch = batch, .m = extent, .n = columns, .k = extent};
        const size_t granted = MatrixProduct::workspace_bytes(planned, false, false, false, 2);
        for (const int64_t rows : {int64_t{1}, int64_t{63}, int64_t{64}, int64_t{255}, extent})
          for (const int64_t terms : {int64_t{1}, int64_t{64}, int64_t{257}, extent})
            for (int64_t fewer = 1; fewer <= columns; ++fewer) {
              const MatmulProblem smaller{
                  .m = std::min(rows, extent), .n = fewer, .k = std::min(terms, extent)};
              ASSERT_LE(taken(smaller), granted)
                  << smaller.m << " x " << smaller.k << " x " << fewer << " of " << extent << " x "
                  << extent << " x " << columns;
            }
      }
}

}  // namespace
}  // namespace kerf::ops::cpu
