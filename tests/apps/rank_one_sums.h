// What CCD++ works with beside rows, for tests.
#pragma once

#include <vector>

#include "apps/mf/rank_ones.h"

namespace kerf::tests {

// Of one side: what take_minimum() and the sums work with.
struct RankOneSums {
  std::vector<float> before, product, weight;
  apps::RankOneSide of(std::vector<float>& rows, int stride, int number) {
    const size_t count = rows.size() / static_cast<size_t>(stride);
    for (auto* each : {&before, &product, &weight}) each->resize(count);
    return {rows.data() + number, stride, before.data(), product.data(), weight.data()};
  }
};

}  // namespace kerf::tests
