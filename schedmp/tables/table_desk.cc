#include "schedmp/tables/table_desk.h"

#include <algorithm>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

constexpr int64_t kMostUnsent = int64_t{64} << 20;

}  // namespace

void TableDesk::submit(std::vector<TableOrder> orders) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || unsent_bytes_ <= kMostUnsent; });
  if (failure_) std::rethrow_exception(failure_);
  for (TableOrder& order : orders) {
    unsent_bytes_ += static_cast<int64_t>(order.numbers.size() * sizeof(float));
    if (order.head.word == TableWord::kRead) {
      ++reads_[order.landing.read].missing;
      landings_[order.head.id] = std::move(order.landing);
    }
    orders_.push_back(std::move(order));
  }
}

TableAnswers TableDesk::await(int64_t read, int awaited) {
  std::unique_lock lock(mutex_);
  TableAnswers& answers = reads_.at(read);
  changed_.wait(lock, [&] {
    return failure_ || answers.missing == 0 || (answers.awaited != awaited && answers.awaited >= 0);
  });
  if (answers.missing > 0 && failure_) std::rethrow_exception(failure_);
  const TableAnswers known = answers;
  if (known.missing == 0) reads_.erase(read);
  return known;
}

std::vector<TableOrder> TableDesk::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(orders_, {});
}

void TableDesk::sent(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  unsent_bytes_ -= bytes;
  changed_.notify_one();
}

void TableDesk::land(const TableMessage& answer) {
  const std::lock_guard lock(mutex_);
  const auto found = landings_.find(answer.head.id);
  if (found == landings_.end())
    throw Error(ErrorCode::kProtocol, "an answer to a read that nobody asked for");
  const TableLanding& landing = found->second;
  const auto width = static_cast<size_t>(landing.width);
  if (answer.head.rows.size() != landing.ranges.size() ||
      answer.numbers.size() != static_cast<size_t>(count_rows(answer.head.rows)) * width)
    throw Error(ErrorCode::kProtocol, "an answer of other rows than were asked for");
  const float* from = answer.numbers.data();
  for (size_t range = 0; range < landing.ranges.size(); ++range) {
    float* to = landing.ranges[range];
    for (int64_t row = 0; row < answer.head.rows[range].size(); ++row) {
      std::copy_n(from, width, to);
      from += width;
      to += landing.stride * landing.width;
    }
  }
  TableAnswers& answers = reads_.at(landing.read);
  answers.clock = std::min(answers.clock, answer.head.clock);
  --answers.missing;
  landings_.erase(found);
  if (answers.missing == 0) changed_.notify_one();
}

void TableDesk::holds_up(int64_t id, int worker) {
  const std::lock_guard lock(mutex_);
  const auto found = landings_.find(id);
  if (found == landings_.end()) return;  // it was answered meanwhile
  reads_.at(found->second.read).awaited = worker;
  changed_.notify_one();
}

void TableDesk::fail(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
  changed_.notify_all();
}

}  // namespace kerf::schedmp
