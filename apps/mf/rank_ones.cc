#include "apps/mf/rank_ones.h"

#include <algorithm>

namespace kerf::apps {

namespace {

// Calls act(item, first, end) for each item's ratings of the cell.
template <class Act>
void for_each_item(std::span<const Rating> cell, const Act& act) {
  for (size_t first = 0; first < cell.size();) {
    size_t end = first + 1;
    while (end < cell.size() && cell[end].item == cell[first].item) ++end;
    act(cell[first].item, first, end);
    first = end;
  }
}

}  // namespace

void settle_residuals(std::span<const Rating> cell, const RankOneSide& users,
                      const RankOneSide& items, std::span<float> residuals) {
  for_each_item(cell, [&](int32_t item, size_t first, size_t end) {
    const float before = items.before[item], now = items.now[item * items.stride];
    for (size_t i = first; i < end; ++i) {
      const int32_t user = cell[i].user;
      residuals[i] += users.before[user] * before - users.now[user * users.stride] * now;
    }
  });
}

void sum_for_users(std::span<const Rating> cell, std::span<const float> residuals, float lambda,
                   const RankOneSide& users, const RankOneSide& items) {
  for_each_item(cell, [&](int32_t item, size_t first, size_t end) {
    const float now = items.now[item * items.stride];
    const float weight = now * now + lambda;
    for (size_t i = first; i < end; ++i) {
      const int32_t user = cell[i].user;
      users.product[user] += (residuals[i] + users.now[user * users.stride] * now) * now;
      users.weight[user] += weight;
    }
  });
}

void sum_for_items(std::span<const Rating> cell, std::span<const float> residuals, float lambda,
                   const RankOneSide& users, const RankOneSide& items) {
  for_each_item(cell, [&](int32_t item, size_t first, size_t end) {
    const float now = items.now[item * items.stride];
    float product = 0, weight = 0;
    for (size_t i = first; i < end; ++i) {
      const int32_t user = cell[i].user;
      const float p = users.now[user * users.stride];
      product += (residuals[i] + users.before[user] * now) * p;
      weight += p * p + lambda;
    }
    items.product[item] += product;
    items.weight[item] += weight;
  });
}

void take_minimum(const RankOneSide& side, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    float& now = side.now[row * side.stride];
    side.before[row] = now;
    if (side.weight[row] > 0) now = side.product[row] / side.weight[row];
    side.product[row] = side.weight[row] = 0;
  }
}

RankOnes::RankOnes(const RatingCells& cells, int64_t users, int rank, int stride)
    : cells_(cells),
      rank_(rank),
      stride_(stride),
      before_(static_cast<size_t>(users)),
      product_(before_),
      weight_(before_) {
  for (const std::vector<Rating>& cell : cells) {
    std::vector<float>& values = residuals_.emplace_back();
    values.reserve(cell.size());
    for (const Rating& each : cell) values.push_back(each.value);
  }
}

RankOneSide RankOnes::users_side(std::vector<float>& users, int number) {
  return {users.data() + number, stride_, before_.data(), product_.data(), weight_.data()};
}

// Behind the rows of a block lie the sums of its items.
RankOneSide RankOnes::items_side(std::span<float> block, int number) const {
  const size_t rows = block.size() / static_cast<size_t>(stride_ + kNumbersOfSums);
  float* sums = block.data() + rows * static_cast<size_t>(stride_);
  return {block.data() + number, stride_, sums, sums + rows, sums + 2 * rows};
}

void RankOnes::settle(const ItemRows& blocks, int rotation, std::span<float> block,
                      std::vector<float>& users) {
  if (unsettled_ < 0) return;
  const RankOneSide items = items_side(block, unsettled_);
  if (rotation < blocks.home_blocks()) take_minimum(items, items.product - items.before);
  const auto cell = static_cast<size_t>(blocks.block());
  settle_residuals(cells_[cell], users_side(users, unsettled_), items, residuals_[cell]);
  if (rotation + 1 == blocks.blocks()) unsettled_ = -1;
}

void RankOnes::iterate(ItemRows& blocks, float lambda, std::vector<float>& users,
                       runtime::Activity& activity) {
  for (int number = 0; number < rank_; ++number) {
    const RankOneSide own = users_side(users, number);
    for (int rotation = 0; rotation < blocks.blocks(); ++rotation) {
      const std::span<float> block = blocks.take();
      settle(blocks, rotation, block, users);
      const auto cell = static_cast<size_t>(blocks.block());
      sum_for_users(cells_[cell], residuals_[cell], lambda, own, items_side(block, number));
      blocks.give();
    }
    take_minimum(own, std::ssize(before_));
    for (int rotation = 0; rotation < blocks.blocks(); ++rotation) {
      const std::span<float> block = blocks.take();
      const auto cell = static_cast<size_t>(blocks.block());
      sum_for_items(cells_[cell], residuals_[cell], lambda, own, items_side(block, number));
      blocks.give();
    }
    unsettled_ = number;
    activity.progress();
  }
}

}  // namespace kerf::apps
