// What a worker's compute thread and its table thread hand each other: orders one way, answers to
// reads the other.
//
// Thread-safe; each public function says whose it is.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "schedmp/tables/table_messages.h"

namespace kerf::schedmp {

// Where the answer to a message of a read goes: range by range, `stride` rows apart.
struct TableLanding {
  struct Rows {
    float* first = nullptr;
    int64_t count = 0;
  };
  int64_t read = 0;
  int server = -1;  // who was asked
  std::vector<Rows> ranges = {};
  int64_t width = 1;
  int64_t stride = 1;
};

// A message to whoever serves the rows, be it this worker itself.
struct TableOrder {
  int to = 0;
  TableHead head;
  std::vector<float> numbers;
  TableLanding landing;  // of a read; head.id names it, and is no other's
};

// What is known of a read.
struct TableAnswers {
  int64_t missing = 0;
  int64_t clock = INT64_MAX;  // the earliest that any of its rows was read at
  int awaited = -1;           // the worker that holds it up, as far as is known
};

class TableDesk {
 public:
  // The compute thread's. Waits while too much has yet to be sent, and meanwhile tells `awaited`
  // for whom most of it is, whenever that is another; throws what ended the table thread.
  using TellAwaited = std::function<void(int worker)>;
  void submit(std::vector<TableOrder> orders, const TellAwaited& awaited = {});
  // Until all answers of the read are there, or somebody else than `awaited`, -1 for nobody, holds
  // it up: for all one knows a server that does not even say who does. Throws as submit().
  TableAnswers await(int64_t read, int awaited);
  // Until rested(). Throws as submit().
  void await_rest();
  // Throws what ended the table thread, if anything did.
  void check();

  // The table thread's.
  std::vector<TableOrder> take();
  // As many bytes of orders are on their way to that worker.
  void sent(int to, int64_t bytes);
  // Takes an answer in. Throws Error{kProtocol} where this worker was not asked, or for other rows.
  void land(int from, const TableMessage& answer);
  void holds_up(int64_t id, int worker);
  // Whoever has anything to say to this worker's shards said that this was all.
  void rested();
  // Nothing comes any more.
  void fail(std::exception_ptr failure);

 private:
  const TableLanding& landing(int from, int64_t id) const;
  int server_of(int64_t read) const;
  int most_unsent() const;
  void await_room(std::unique_lock<std::mutex>& lock, const TellAwaited& awaited);

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<TableOrder> orders_;
  int64_t unsent_bytes_ = 0;
  std::map<int, int64_t> unsent_;             // by worker
  std::map<int64_t, TableLanding> landings_;  // by id of a message
  std::map<int64_t, TableAnswers> reads_;
  bool rested_ = false;
  std::exception_ptr failure_;
};

}  // namespace kerf::schedmp
