#include "schedmp/variables/uniform_sampler.h"

#include "ops/random.h"
#include "runtime/error.h"
#include "schedmp/variables/variables.h"

namespace kerf::schedmp {

UniformSampler::UniformSampler(int64_t variables, uint64_t seed) : seed_(seed) {
  order_ = ops::permutation(checked_variables(variables), seed, 0);
  under_way_.resize(order_.size());
}

void UniformSampler::take(int64_t variable, std::vector<int64_t>& set) {
  under_way_[static_cast<size_t>(variable)] = 1;
  set.push_back(variable);
}

std::vector<int64_t> UniformSampler::draw(int64_t most) {
  std::vector<int64_t> set;
  const auto full = [&] { return std::ssize(set) >= most; };
  const auto busy = [&](int64_t v) { return under_way_[static_cast<size_t>(v)] != 0; };
  std::vector<int64_t> still;
  for (const int64_t variable : postponed_)
    full() || busy(variable) ? still.push_back(variable) : take(variable, set);
  postponed_ = std::move(still);
  while (!full()) {
    if (next_ == std::ssize(order_)) {
      if (!postponed_.empty()) break;
      order_ = ops::permutation(std::ssize(order_), seed_, ++pass_);
      next_ = 0;
    }
    const int64_t variable = order_[static_cast<size_t>(next_++)];
    busy(variable) ? postponed_.push_back(variable) : take(variable, set);
  }
  return set;
}

void UniformSampler::done(int64_t variable) {
  KERF_CHECK(variable >= 0 && variable < std::ssize(order_), "variable {} of {}", variable,
             order_.size());
  uint8_t& under_way = under_way_[static_cast<size_t>(variable)];
  KERF_CHECK(under_way != 0, "variable {} is done, but it was not under way", variable);
  under_way = 0;
}

}  // namespace kerf::schedmp
