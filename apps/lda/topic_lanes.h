// Topics are computed with a vector at a time: rows of numbers by topic have zeros behind them, up
// to a whole number of vectors.
#pragma once

#include <cstdint>

namespace kerf::apps {

inline constexpr int kTopicLanes = 16;
inline constexpr int64_t whole_lanes(int64_t count) {
  return (count + kTopicLanes - 1) / kTopicLanes * kTopicLanes;
}

}  // namespace kerf::apps
