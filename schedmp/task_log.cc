#include "schedmp/task_log.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

void TaskLog::add(const OwedTask& owed, std::string request) {
  if (repeats_) bytes_ += sizeof(Entry) + request.size();
  entries_.push_back({owed, std::move(request), {}});
}

void TaskLog::add_barrier(std::string request, int64_t round) {
  KERF_CHECK(!barrier_at_, "a barrier behind a barrier");
  size_t at = entries_.size();
  while (at > 0 && entries_[at - 1].owed->round >= round) --at;
  KERF_CHECK(at >= sent_, "a barrier before what was sent");
  barrier_at_ = at;
  open_ = 0;
  entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(at),
                  Entry{{}, std::move(request), {}});
}

void TaskLog::open_barrier() {
  KERF_CHECK(at_barrier(), "a barrier is opened that was not come to");
  open_ = 1;
}

std::vector<std::string> TaskLog::take() {
  std::vector<std::string> requests;
  while (has_more()) {
    std::string& request = entries_[sent_++].request;
    if (repeats_)
      requests.push_back(request);
    else
      requests.push_back(std::move(request));
  }
  return requests;
}

TaskLog::Answer TaskLog::answer(const std::string& result) {
  if (answered_ >= sent_) throw Error(ErrorCode::kProtocol, "a result that nobody asked for");
  Entry& entry = entries_[answered_];
  Answer answer{entry.owed, std::move(entry.result)};
  if (!repeats_) {
    drop_front();
    --sent_;
    return answer;
  }
  ++answered_;
  if (!entry.owed) return answer;
  bytes_ += result.size() - (answer.before ? answer.before->size() : 0);
  entry.result = result;
  return answer;
}

std::optional<OwedTask> TaskLog::at() const {
  if (answered_ >= sent_) return {};
  return entries_[answered_].owed;
}

std::optional<int64_t> TaskLog::first_missing() const {
  for (const Entry& entry : entries_)
    if (entry.owed && !entry.result) return entry.owed->round;
  return {};
}

TaskLog::Sent TaskLog::sent_tasks() const {
  // The barrier is no task of the program.
  const auto tasks = [this](size_t entries) {
    return static_cast<int64_t>(entries) - (barrier_at_ && *barrier_at_ < entries ? 1 : 0);
  };
  return {tasks(answered_), tasks(sent_) - tasks(answered_)};
}

void TaskLog::drop_front() {
  const Entry& entry = entries_.front();
  if (repeats_ && entry.owed)
    bytes_ -= sizeof(Entry) + entry.request.size() + (entry.result ? entry.result->size() : 0);
  entries_.pop_front();
}

void TaskLog::drop_barrier() {
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(*barrier_at_));
  barrier_at_.reset();
}

void TaskLog::pass_barrier(bool in_vain) {
  KERF_CHECK(barrier_at_ && answered_ == *barrier_at_ + 1, "a barrier is passed that is not there");
  drop_barrier();
  --sent_;
  --answered_;
  if (in_vain) return;
  sent_ -= answered_;
  for (; answered_ > 0; --answered_) drop_front();
}

void TaskLog::forget() {
  KERF_CHECK(answered_ == entries_.size(), "a task is forgotten whose result is owed");
  *this = TaskLog(repeats_);
}

void TaskLog::repeat() {
  KERF_CHECK(repeats_, "tasks are repeated that were not kept");
  if (barrier_at_) drop_barrier();
  sent_ = answered_ = 0;
}

void TaskLog::give_up() {
  KERF_CHECK(!barrier_at_, "nothing is kept, and a barrier is there");
  repeats_ = false;
  bytes_ = 0;
  sent_ -= answered_;
  for (; answered_ > 0; --answered_) entries_.pop_front();
}

}  // namespace kerf::schedmp
