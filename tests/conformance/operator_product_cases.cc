// Cases of products of matrices.
#include "tests/conformance/operator_case.h"

namespace kerf::ops {
namespace {

void add_gemm_cases(std::vector<OperatorCase>& cases) {
  cases.push_back({.name = "Gemm_transposed_with_bias",
                   .op = "Gemm",
                   .attributes = {{"transB", int64_t{1}}},
                   .inputs = {activation({kBatch, 7}), parameter({11, 7}), parameter({11})},
                   .samples = 5,
                   .flops = {2 * 77 + 11, 2 * 77, 2 * 77 + 11}});
  cases.push_back({.name = "Gemm_scaled",
                   .op = "Gemm",
                   .attributes = {{"alpha", 0.5}, {"beta", -1.5}},
                   .inputs = {activation({kBatch, 5}), parameter({5, 13}), parameter({1, 13})},
                   .samples = 4});
  cases.push_back({.name = "Gemm_with_rows_a_power_of_two_apart",
                   .op = "Gemm",
                   .attributes = {{"transB", int64_t{1}}},
                   .inputs = {activation({kBatch, 512}), parameter({256, 512}), parameter({256})},
                   .samples = 48});
  cases.push_back({.name = "Gemm_without_bias",
                   .op = "Gemm",
                   .inputs = {activation({kBatch, 9}), parameter({9, 6}), absent()}});
  const auto add = [&](std::string name, Attributes attributes, const CaseInput& a,
                       const CaseInput& b, const CaseInput& c) {
    cases.push_back({.name = std::move(name),
                     .op = "Gemm",
                     .attributes = std::move(attributes),
                     .inputs = {a, b, c}});
  };
  const int64_t yes = 1;
  add("Gemm_of_columns", {{"transA", yes}}, activation({5, kBatch}), parameter({5, 4}),
      parameter({4}));
  add("Gemm_of_columns_by_rows", {{"transA", yes}, {"transB", yes}, {"alpha", 2.0}},
      activation({5, kBatch}), parameter({4, 5}), activation({kBatch, 1}));
  add("Gemm_adding_a_matrix", {{"beta", 0.5}}, activation({kBatch, 3}), parameter({3, 4}),
      activation({kBatch, 4}));
  cases.back().flops = {2 * 12 + 4, 2 * 12 + 4, 2 * 12};
  add("Gemm_adding_a_number", {}, activation({kBatch, 3}), parameter({3, 4}), parameter({}));
  cases.back().whole_axes = {"inputs"};
  add("Gemm_of_parameters", {{"transA", yes}}, parameter({5, 3}), parameter({5, 4}),
      parameter({3, 1}));
}

void add_matmul_cases(std::vector<OperatorCase>& cases) {
  const auto add = [&](std::string name, CaseInput a, CaseInput b) {
    cases.push_back({.name = std::move(name), .op = "MatMul", .inputs = {a, b}});
  };
  add("MatMul", activation({kBatch, 7}), parameter({7, 9}));
  cases.back().flops = {2 * 63, 2 * 63, 2 * 63};
  add("MatMul_of_sequences", activation({kBatch, 4, 5}), parameter({5, 6}));
  add("MatMul_of_two_activations", activation({kBatch, 5, 3}), activation({kBatch, 3, 4}));
  cases.back().flops = {2 * 60, 2 * 2 * 60, 0};  // I of either
  add("MatMul_of_heads", activation({kBatch, 2, 4, 3}), activation({kBatch, 2, 3, 5}));
  add("MatMul_repeating_the_first", parameter({4, 3}), activation({kBatch, 3, 5}));
  add("MatMul_repeating_the_first_along_all_stacks", parameter({4, 3}),
      activation({kBatch, 6, 3, 5}));
  add("MatMul_repeating_the_first_along_the_last_stack", parameter({6, 1, 4, 3}),
      activation({kBatch, 6, 2, 3, 5}));
  add("MatMul_repeating_heads_of_the_second", activation({kBatch, 3, 2, 4}),
      activation({kBatch, 1, 4, 3}));
  add("MatMul_repeating_samples_of_the_first", parameter({1, 2, 3, 4}),
      activation({kBatch, 2, 4, 2}));
  add("MatMul_of_vectors", parameter({5}), parameter({5}));
  add("MatMul_by_a_vector", activation({kBatch, 3, 5}), parameter({5}));
  add("MatMul_of_a_vector", parameter({4}), activation({kBatch, 4, 3}));
  add("MatMul_of_rows_by_a_vector", activation({kBatch, 5}), parameter({5}));
  add("MatMul_repeating_both", activation({kBatch, 1, 2, 3}), parameter({4, 3, 2}));
}

void add_einsum_cases(std::vector<OperatorCase>& cases) {
  const auto add = [&](std::string name, const char* equation, std::vector<CaseInput> inputs,
                       std::vector<std::string> whole = {}) {
    cases.push_back({.name = std::move(name),
                     .op = "Einsum",
                     .attributes = {{"equation", equation}},
                     .inputs = std::move(inputs),
                     .whole_axes = std::move(whole)});
  };
  add("Einsum_of_heads", "bqhd, bkhd -> bhqk",
      {activation({kBatch, 3, 2, 4}), activation({kBatch, 5, 2, 4})});
  cases.back().flops = {2 * 120, 2 * 2 * 120, 0};
  add("Einsum_back_from_heads", "bhqk,bkhd->bqhd",
      {activation({kBatch, 2, 3, 5}), activation({kBatch, 5, 2, 4})});
  add("Einsum_of_further_axes", "...ij,jk", {activation({kBatch, 2, 3}), parameter({3, 4})});
  cases.back().flops = {2 * 24, 2 * 24, 2 * 24};
  add("Einsum_of_transposed_matrices", "kb,nk->bn", {activation({5, kBatch}), parameter({4, 5})});
  add("Einsum_of_axes_that_one_has", "bij,kj->b", {activation({kBatch, 3, 4}), parameter({2, 4})});
  add("Einsum_of_an_outer_product", "i,j->ji", {parameter({3}), parameter({4})});
  add("Einsum_repeating_both", "bij,bij->bij",
      {activation({kBatch, 3, 1}), activation({kBatch, 1, 4})});
  add("Einsum_of_one_sum", "bij->jb", {activation({kBatch, 3, 4})});
  add("Einsum_of_a_diagonal", "iij->ji", {parameter({3, 3, 2})}, {"i"});
}

void add_integer_cases(std::vector<OperatorCase>& cases) {
  const auto numbers = [](DType type, const Shape& shape) {
    return CaseInput{{type, shape}, Role::kInput, Draw::kClass, 9};
  };
  cases.push_back(
      {.name = "MatMul_of_integers",
       .op = "MatMul",
       .inputs = {numbers(DType::kInt64, {kBatch, 3, 4}), numbers(DType::kInt64, {4, 5})},
       .whole_axes = {"inner"}});
  cases.push_back({.name = "MatMul_of_doubles",
                   .op = "MatMul",
                   .inputs = {numbers(DType::kFloat64, {kBatch, 2, 3, 4}),
                              numbers(DType::kFloat64, {kBatch, 1, 4, 3})},
                   .whole_axes = {"inner"}});
}

}  // namespace

std::vector<OperatorCase> product_cases() {
  std::vector<OperatorCase> cases;
  add_gemm_cases(cases);
  add_matmul_cases(cases);
  add_einsum_cases(cases);
  add_integer_cases(cases);
  return cases;
}

}  // namespace kerf::ops
