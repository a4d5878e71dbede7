// Parts that choose variables go on from what a snapshot holds of them as if nothing had been.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "runtime/wire.h"
#include "schedmp/state.h"
#include "schedmp/variables/load_balancer.h"
#include "schedmp/variables/priority_sampler.h"
#include "schedmp/variables/uniform_sampler.h"
#include "schedmp/variables/variable_sets.h"

namespace kerf::schedmp {
namespace {

constexpr int64_t kVariables = 50;
using Sets = std::vector<std::vector<int64_t>>;

template <class Part>
struct Holder {
  Part part;
  template <class Archive>
  void state(Archive& archive) {
    archive(part);
  }
};

// `act(part, turn)` gives the sets of a turn. However many turns came before, one that is restored
// gives the same as the one that goes on, and another than one that is new.
template <class Part>
void expect_same_sets(const std::function<Part()>& make,
                      const std::function<Sets(Part&, int64_t turn)>& act) {
  for (const int64_t before : {1, 4, 11}) {
    Holder<Part> first{make()}, second{make()}, fresh{make()};
    for (int64_t turn = 0; turn < before; ++turn) act(first.part, turn);
    take_state(second, state_of(first));
    bool differs = false;
    for (int64_t turn = before; turn < before + 12; ++turn) {
      const Sets expected = act(first.part, turn);
      EXPECT_EQ(act(second.part, turn), expected) << before << " turns before, turn " << turn;
      differs |= act(fresh.part, turn) != expected;
    }
    EXPECT_TRUE(differs) << "it holds something";
  }
}

double delta_of(int64_t variable, int64_t turn) {
  return std::sin(static_cast<double>(variable * 7 + turn));
}

TEST(HeldParts, UniformSampling) {
  // What was drawn a turn before is done now, so that some are always under way.
  expect_same_sets<UniformSampler>([] { return UniformSampler(kVariables, 3); },
                                   [](UniformSampler& sampler, int64_t turn) {
                                     const auto set = sampler.draw(9);
                                     for (size_t i = 0; i < set.size(); ++i)
                                       if ((static_cast<int64_t>(i) + turn) % 3 != 0)
                                         sampler.done(set[i]);
                                     return Sets{set};
                                   });
}

TEST(HeldParts, PrioritySampling) {
  expect_same_sets<PrioritySampler>([] { return PrioritySampler(kVariables, 3); },
                                    [](PrioritySampler& sampler, int64_t turn) {
                                      const auto set = sampler.draw(9);
                                      for (const int64_t each : set)
                                        sampler.result(each, delta_of(each, turn));
                                      return Sets{set};
                                    });
}

TEST(HeldParts, SetsBehindAFilter) {
  for (const Sampling sampling :
       {Sampling::kUniform, Sampling::kPriority, Sampling::kPriorityFiltered})
    expect_same_sets<VariableSets>(
        [&] {
          VariableSetOptions options;
          options.sampling = sampling;
          options.variables = kVariables;
          options.size = 8;
          options.most_correlations = 300;
          options.dependency.most_known = 40;  // so that some are forgotten
          return VariableSets(options);
        },
        [](VariableSets& sets, int64_t turn) {
          const VariableSets::Chosen chosen = sets.choose(turn);
          if (!chosen.wanted.empty()) {
            std::vector<double> correlations;
            for (const int64_t row : chosen.wanted.rows)
              for (const int64_t column : chosen.wanted.columns)
                correlations.push_back(row == column ? 1 : (row + column) % 5 == 0 ? 0.9 : 0.1);
            sets.learn(chosen.wanted, correlations);
          }
          if (!chosen.empty()) {
            std::vector<double> deltas;
            for (const auto* all : {&chosen.set, &chosen.looked_at})
              for (const int64_t each : *all) deltas.push_back(delta_of(each, turn));
            sets.fold(turn, deltas);
          }
          return Sets{chosen.set, chosen.looked_at, chosen.wanted.rows, chosen.wanted.columns};
        });
}

TEST(HeldParts, BalancedLoads) {
  expect_same_sets<LoadBalancer>([] { return LoadBalancer(3); },
                                 [](LoadBalancer& balancer, int64_t turn) {
                                   for (int worker = 0; worker < 3; ++worker)
                                     balancer.measured(worker, 10,
                                                       1 + std::abs(delta_of(worker, turn)));
                                   std::vector<int64_t> variables;
                                   std::vector<double> weights;
                                   for (int64_t each = 0; each < kVariables; ++each) {
                                     variables.push_back(each);
                                     weights.push_back(1 + static_cast<double>(each % 4));
                                   }
                                   return balancer.divide(variables, weights);
                                 });
}

}  // namespace
}  // namespace kerf::schedmp
