#include "schedmp/tables/table_desk.h"

#include <algorithm>
#include <chrono>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

constexpr int64_t kMostUnsent = int64_t{64} << 20;
// How long a server has to take what is sent, to answer, or to say who holds it up, before it
// counts as awaited itself.
constexpr std::chrono::milliseconds kPatienceWithServers{100};

}  // namespace

void TableDesk::submit(std::vector<TableOrder> orders, const TellAwaited& awaited) {
  std::unique_lock lock(mutex_);
  await_room(lock, awaited);
  if (failure_) std::rethrow_exception(failure_);
  for (TableOrder& order : orders) {
    const auto bytes = static_cast<int64_t>(order.numbers.size() * sizeof(float));
    unsent_bytes_ += bytes;
    unsent_[order.to] += bytes;
    if (order.head.word == TableWord::kRead) {
      ++reads_[order.landing.read].missing;
      landings_[order.head.id] = std::move(order.landing);
    }
    orders_.push_back(std::move(order));
  }
}

void TableDesk::await_room(std::unique_lock<std::mutex>& lock, const TellAwaited& awaited) {
  const auto has_room = [&] { return failure_ || unsent_bytes_ <= kMostUnsent; };
  int told = -1;
  for (bool waits = !changed_.wait_for(lock, kPatienceWithServers, has_room); waits;
       waits = !has_room()) {
    if (const int most = most_unsent(); awaited && most != told) awaited(told = most);
    changed_.wait(lock);
  }
}

int TableDesk::most_unsent() const {
  const auto less = [](const auto& one, const auto& other) { return one.second < other.second; };
  return std::max_element(unsent_.begin(), unsent_.end(), less)->first;
}

TableAnswers TableDesk::await(int64_t read, int awaited) {
  std::unique_lock lock(mutex_);
  TableAnswers& answers = reads_.at(read);
  const auto news = [&] {
    return failure_ || answers.missing == 0 || (answers.awaited != awaited && answers.awaited >= 0);
  };
  if (awaited < 0 && !changed_.wait_for(lock, kPatienceWithServers, news))
    answers.awaited = server_of(read);
  changed_.wait(lock, news);
  if (answers.missing > 0 && failure_) std::rethrow_exception(failure_);
  const TableAnswers known = answers;
  if (known.missing == 0) reads_.erase(read);
  return known;
}

void TableDesk::await_rest() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || rested_; });
  if (!rested_) std::rethrow_exception(failure_);
  rested_ = false;
}

void TableDesk::check() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

std::vector<TableOrder> TableDesk::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(orders_, {});
}

void TableDesk::sent(int to, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  unsent_bytes_ -= bytes;
  unsent_[to] -= bytes;
  changed_.notify_one();
}

const TableLanding& TableDesk::landing(int from, int64_t id) const {
  const auto found = landings_.find(id);
  if (found == landings_.end() || found->second.server != from)
    throw Error(ErrorCode::kProtocol, "an answer to a read that it was not asked for");
  return found->second;
}

int TableDesk::server_of(int64_t read) const {
  const auto found =
      std::ranges::find_if(landings_, [&](const auto& each) { return each.second.read == read; });
  return found->second.server;
}

void TableDesk::land(int from, const TableMessage& answer) {
  const std::lock_guard lock(mutex_);
  const TableLanding& asked = landing(from, answer.head.id);
  const auto same_rows = [](const TableLanding::Rows& one, const ops::Range& other) {
    return one.count == other.size();
  };
  int64_t rows = 0;
  for (const TableLanding::Rows& each : asked.ranges) rows += each.count;
  if (!std::ranges::equal(asked.ranges, answer.head.rows, same_rows) ||
      std::ssize(answer.numbers) != rows * asked.width)
    throw Error(ErrorCode::kProtocol, "an answer of other rows than were asked for");
  const float* numbers = answer.numbers.data();
  for (const TableLanding::Rows& each : asked.ranges)
    for (int64_t row = 0; row < each.count; ++row, numbers += asked.width)
      std::copy_n(numbers, asked.width, each.first + row * asked.stride * asked.width);
  TableAnswers& answers = reads_.at(asked.read);
  answers.clock = std::min(answers.clock, answer.head.clock);
  --answers.missing;
  landings_.erase(answer.head.id);
  if (answers.missing == 0) changed_.notify_one();
}

void TableDesk::holds_up(int64_t id, int worker) {
  const std::lock_guard lock(mutex_);
  const auto found = landings_.find(id);
  if (found == landings_.end()) return;  // it was answered meanwhile
  reads_.at(found->second.read).awaited = worker;
  changed_.notify_one();
}

void TableDesk::rested() {
  const std::lock_guard lock(mutex_);
  rested_ = true;
  changed_.notify_one();
}

void TableDesk::fail(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
  changed_.notify_all();
}

}  // namespace kerf::schedmp
