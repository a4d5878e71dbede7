#include "apps/classifier/training_rows.h"

#include <algorithm>
#include <array>

#include "ops/simd/clones.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

bool is_float(double value) { return static_cast<double>(static_cast<float>(value)) == value; }

// Sums by lane, added up in one order: so it is the same for every width of vectors.
constexpr int64_t kRowLanes = 8;

template <class Value>
struct RowLoops {
  KERF_CLONES static double product(const int32_t* feature, const Value* value, int64_t count,
                                    const double* weights) {
    std::array<double, kRowLanes> sums{};
    int64_t k = 0;
    for (; k + kRowLanes <= count; k += kRowLanes)
      for (int64_t lane = 0; lane < kRowLanes; ++lane)
        sums[static_cast<size_t>(lane)] +=
            static_cast<double>(value[k + lane]) * weights[feature[k + lane]];
    for (; k < count; ++k)
      sums[static_cast<size_t>(k % kRowLanes)] +=
          static_cast<double>(value[k]) * weights[feature[k]];
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) +
           ((sums[1] + sums[5]) + (sums[3] + sums[7]));
  }
  // No feature is in a row twice.
  KERF_CLONES static void add(const int32_t* feature, const Value* value, int64_t count,
                              double factor, double* weights) {
    KERF_INDEPENDENT
    for (int64_t k = 0; k < count; ++k)
      weights[feature[k]] += factor * static_cast<double>(value[k]);
  }
};

}  // namespace

TrainingRows::TrainingRows(const SparseColumns& rows, const std::vector<double>& signs,
                           std::span<const int64_t> order, double bias) {
  if (is_float(bias) && std::all_of(rows.values.begin(), rows.values.end(), is_float))
    take(rows, signs, order, bias, narrow_);
  else
    take(rows, signs, order, bias, wide_);
}

template <class Value>
void TrainingRows::take(const SparseColumns& rows, const std::vector<double>& signs,
                        std::span<const int64_t> order, double bias, std::vector<Value>& values) {
  const size_t entries = static_cast<size_t>(rows.entries()) + (bias == 0 ? 0 : order.size());
  features_.reserve(entries);
  values.reserve(entries);
  for (const int64_t row : order) {
    const auto features = rows.rows_of(row);
    const double sign = signs[static_cast<size_t>(row)];
    double squares = 0;
    features_.insert(features_.end(), features.begin(), features.end());
    for (const double value : rows.values_of(row)) {
      values.push_back(static_cast<Value>(sign * value));
      squares += value * value;
    }
    if (bias != 0) {
      features_.push_back(static_cast<int32_t>(rows.rows));
      values.push_back(static_cast<Value>(sign * bias));
    }
    begins_.push_back(std::ssize(features_));
    squares_.push_back(squares + bias * bias);
  }
}

double TrainingRows::product(int64_t row, const std::vector<double>& weights) const {
  const int64_t begin = begins_[static_cast<size_t>(row)];
  const int64_t count = begins_[static_cast<size_t>(row) + 1] - begin;
  if (!narrow_.empty())
    return RowLoops<float>::product(features_.data() + begin, narrow_.data() + begin, count,
                                    weights.data());
  return RowLoops<double>::product(features_.data() + begin, wide_.data() + begin, count,
                                   weights.data());
}

void TrainingRows::add(int64_t row, double factor, std::vector<double>& weights) const {
  const int64_t begin = begins_[static_cast<size_t>(row)];
  const int64_t count = begins_[static_cast<size_t>(row) + 1] - begin;
  if (!narrow_.empty())
    return RowLoops<float>::add(features_.data() + begin, narrow_.data() + begin, count, factor,
                                weights.data());
  RowLoops<double>::add(features_.data() + begin, wide_.data() + begin, count, factor,
                        weights.data());
}

}  // namespace kerf::apps
