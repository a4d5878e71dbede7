// The proximal operator of |b|: soft thresholding.
#pragma once

namespace kerf::apps {

inline double soft_threshold(double value, double by) {
  return value > by ? value - by : value < -by ? value + by : 0;
}

}  // namespace kerf::apps
