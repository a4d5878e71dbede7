#include "apps/mf/rating_cells.h"

#include "ops/random.h"

namespace kerf::apps {

void Moments::add(const Moments& more) {
  if (more.count == 0) return;
  const auto all = static_cast<double>(count + more.count);
  const double apart = more.mean - mean;
  mean += apart * static_cast<double>(more.count) / all;
  squares += more.squares +
             apart * apart * static_cast<double>(count) * static_cast<double>(more.count) / all;
  count += more.count;
}

Moments moments_of(const std::vector<double>& values) {
  Moments moments;
  moments.count = std::ssize(values);
  if (values.empty()) return moments;
  for (const double value : values) moments.mean += value / static_cast<double>(moments.count);
  for (const double value : values)
    moments.squares += (value - moments.mean) * (value - moments.mean);
  return moments;
}

RatingCells cells_of(const SparseColumns& ratings, const ItemBlocks& items, double mean) {
  RatingCells cells(static_cast<size_t>(items.blocks()));
  for (int64_t item = 0; item < ratings.columns; ++item) {
    const ItemBlocks::Place place = items.place(item);
    const auto users = ratings.rows_of(item);
    const auto values = ratings.values_of(item);
    std::vector<Rating>& cell = cells[static_cast<size_t>(place.block)];
    for (size_t i = 0; i < users.size(); ++i)
      cell.push_back({users[i], place.index, static_cast<float>(values[i] - mean)});
  }
  return cells;
}

std::vector<Rating> sample_of_ratings(int64_t count, int64_t users, int64_t items) {
  std::vector<float> places(static_cast<size_t>(2 * count));
  ops::fill_uniform({.purpose = ops::kSamplingPurpose}, 0, places);
  std::vector<Rating> sample;
  for (size_t i = 0; i < places.size(); i += 2)
    sample.push_back(
        {static_cast<int32_t>(static_cast<double>(places[i]) * static_cast<double>(users)),
         static_cast<int32_t>(static_cast<double>(places[i + 1]) * static_cast<double>(items)), 1});
  return sample;
}

void shuffle(RatingCells& cells, uint64_t seed, int worker) {
  auto number = static_cast<int64_t>(cells.size()) * worker;
  for (std::vector<Rating>& cell : cells) {
    std::vector<Rating> shuffled;
    shuffled.reserve(cell.size());
    for (const int64_t place : ops::permutation(std::ssize(cell), seed, ++number))
      shuffled.push_back(cell[static_cast<size_t>(place)]);
    cell = std::move(shuffled);
  }
}

void standardise(RatingCells& cells, double shift, double scale) {
  for (std::vector<Rating>& cell : cells)
    for (Rating& each : cell)
      each.value = static_cast<float>((static_cast<double>(each.value) - shift) / scale);
}

}  // namespace kerf::apps
