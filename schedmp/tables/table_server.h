// The thread that serves a worker's rows of its tables, and carries what its compute thread wants
// of other workers' rows: it alone has the shards and Workplace::service.
//
//   compute thread  ── orders ──>  table thread  <── channels ──>  other workers' table threads
//                   <── answers ──
//
// It never waits for one peer: what finds no slot is kept until there is one. That is bounded: of
// orders by the desk, of answers by what clients ask for at once; and groups are told news when the
// last are on their way. What it fails by the desk gets.
//
// Owned by Tables, whose thread calls the public functions.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "runtime/worker.h"
#include "schedmp/tables/table_desk.h"
#include "schedmp/tables/table_shard.h"

namespace kerf::schedmp {

class TableServer {
 public:
  // `specs` are complete. The workplace and the desk outlive this.
  TableServer(runtime::Workplace& workplace, const std::vector<TableSpec>& specs, TableDesk& desk);
  ~TableServer();
  TableServer(const TableServer&) = delete;
  TableServer& operator=(const TableServer&) = delete;

  // What it serves of a table: the caller's, while the thread does not run. Null where the worker
  // is in no group of it.
  TableShard* shard(int table);
  // Begins the thread, and ends it: nothing is lost meanwhile.
  void serve();
  void pause();
  bool is_serving() const { return thread_.joinable(); }
  // There are orders.
  void wake() { endpoint_.wake(); }

 private:
  // A read that has to wait.
  struct Parked {
    int from = 0;
    TableHead head;
    int told = -1;  // whom it is held up by
  };
  struct Served {
    int32_t number = 0;
    TableSpec spec;
    TablePlace place;
    TableShard shard;
    std::vector<Parked> parked = {};
    size_t untold = 0;           // messages of news that are not on their way
    std::set<int> resting = {};  // who said so
    bool rest_told = false;      // to other groups
    // Workers that serve the same rows in other groups.
    std::vector<int> twins() const;
    const std::vector<int>& group() const { return spec.groups[static_cast<size_t>(place.group)]; }
  };
  struct Mail {
    TableHead head;
    std::vector<float> numbers;
    bool ordered = false;  // by the desk, which counts its bytes
  };

  void run();
  void serve_until_stopped();
  // These three say whether there was anything.
  bool carry_orders();
  bool take_messages();
  bool post();
  void handle(int from, const TableMessage& message);
  void handle_request(Served& table, int from, const TableMessage& message);
  // After a clock, or news of other groups.
  void look_again(Served& table);
  bool answer(Served& table, const Parked& read);
  int who_holds_up(const Served& table, const TableHead& read) const;
  bool has_news_for(int twin, const Served& table) const;
  void tell_who_holds_up(const Served& table, Parked& read);
  void hear_who_holds_up(const TableHead& head);
  void hear_rest(Served& table, int from);
  void tell_rest(Served& table);
  void tell_groups(Served& table);
  // To a worker, which may be this one.
  void send(int to, Mail mail);
  void sent(int to, const Mail& mail);

  runtime::Workplace& workplace_;
  runtime::Endpoint& endpoint_;
  TableDesk& desk_;
  std::map<int32_t, Served> tables_;  // by number
  std::set<int> peers_;
  std::map<int, std::deque<Mail>> outbox_;  // by worker
  std::atomic<bool> stopping_{false};
  std::jthread thread_;  // the last: it uses all the others
};

}  // namespace kerf::schedmp
