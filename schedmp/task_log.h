// The tasks of one worker, in the order in which it does them, since what it can go on from:
//
//   | answered ... | sent ... | barrier | yet to be sent ... |
//
// Where a worker is lost, all of them are sent again, to who takes its place; then those that were
// answered before are answered once more. A barrier is a task too, to keep what the worker holds:
// it is sent when it is opened, what lies behind it when it is passed, and then what lies before it
// is forgotten.
// Belongs to the loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace kerf::schedmp {

// A task whose result a worker owes: which of its round's.
struct OwedTask {
  int64_t round = 0;
  size_t task = 0;
};

class TaskLog {
 public:
  // What is answered is forgotten at once unless it `repeats`.
  explicit TaskLog(bool repeats) : repeats_(repeats) {}

  void add(const OwedTask& owed, std::string request);
  // Before the first task of that round or a later one, none of which was sent.
  void add_barrier(std::string request, int64_t round);
  // Requests that may go to the worker now. Then they count as sent.
  std::vector<std::string> take();
  bool has_more() const { return sent_ < (barrier_at_ ? *barrier_at_ + open_ : entries_.size()); }
  // All that lies before the barrier was answered.
  bool at_barrier() const { return barrier_at_ && answered_ == *barrier_at_; }
  void open_barrier();

  bool owed() const { return answered_ < entries_.size(); }
  // What the worker is at, as far as is known: the first whose result it owes.
  std::optional<OwedTask> at() const;
  // The first round of which a task was never answered; none: all were. O(what is kept).
  std::optional<int64_t> first_missing() const;
  // Of what was sent, as it is to be repeated now: tasks.
  struct Sent {
    int64_t answered = 0;
    int64_t unanswered = 0;
  };
  Sent sent_tasks() const;

  struct Answer {
    std::optional<OwedTask> owed = {};       // empty: of the barrier
    std::optional<std::string> before = {};  // what was answered the first time, of a repeated one
  };
  // The next of what was sent is answered by this. Throws Error{kProtocol} where nothing was.
  Answer answer(const std::string& result);

  // The barrier was answered, at all workers: what lies before it is never asked for again; or it
  // was in vain, and all still may be.
  void pass_barrier(bool in_vain = false);
  // All is answered, and need not be repeated.
  void forget();
  // All of it is to be sent again; a barrier that was not passed is none.
  void repeat();
  // From now on nothing is kept for a repetition. There is no barrier.
  void give_up();
  size_t bytes() const { return bytes_; }  // that it keeps, about

 private:
  struct Entry {
    std::optional<OwedTask> owed;
    std::string request;
    std::optional<std::string> result;
  };
  void drop_front();
  void drop_barrier();

  bool repeats_;
  std::deque<Entry> entries_;
  size_t sent_ = 0;      // as many have been
  size_t answered_ = 0;  // likewise
  std::optional<size_t> barrier_at_;
  size_t open_ = 0;  // 1: the barrier may be sent
  size_t bytes_ = 0;
};

}  // namespace kerf::schedmp
