// A worker's tables: what its half of a program asks of the rows that all share.
//
//   Table& weights = tables().at(0);
//   weights.read({{first, first + 10}}, values);   // waits as the table's staleness says
//   weights.add({{first, first + 10}}, changes);   // goes its way
//   weights.clock();                               // and that was one clock
//
// In start(), own() may be filled with what the table begins with; other workers see no row before.
// Used by the compute thread; the workplace outlives it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/worker.h"
#include "schedmp/tables/table_server.h"

namespace kerf::schedmp {

class Tables;

class Table {
 public:
  Table(Tables& tables, const TableSpec& spec, int number, int worker);

  const TableSpec& spec() const { return spec_; }
  int worker() const { return worker_; }
  // Whether this worker is in a group: other functions are not for who is not.
  bool is_member() const { return place_.has_value(); }

  // What it serves, before the first task: `row` of the table is its `own` in turn.
  std::span<float> own();
  // The same with all that goes with it, then or within Tables::stand_still().
  TableContents contents();
  int64_t own_rows() const { return rows_.rows_of(place().place); }
  int64_t row(int64_t own) const { return rows_.row(place().place, own); }

  // Row by row, as the ranges say. What is read is at least as new as clock() - staleness.
  // Gives how many clocks the oldest of it lacks.
  int64_t read(const std::vector<ops::Range>& rows, std::span<float> into);
  // What all of the group have done up to this clock, whatever the staleness; and of other groups
  // what these had done up to the last clock(true).
  void read_settled(const std::vector<ops::Range>& rows, std::span<float> into);
  void assign(const std::vector<ops::Range>& rows, std::span<const float> values);
  // Of what is added, so much.
  void add(const std::vector<ops::Range>& rows, std::span<const float> changes, float scale = 1);
  // To the table's optimizer, with its learning rate; scaled.
  struct GradientPace {
    double rate = 0;
    bool decays = true;
    float scale = 1;
  };
  void push(const std::vector<ops::Range>& rows, std::span<const float> gradients,
            const GradientPace& pace);
  // All that was changed before belongs to the clock that ends here. `settles`: and all groups are
  // to hear of it, for read_settled().
  void clock(bool settles = false);
  int64_t clocks() const { return clock_; }

 private:
  friend class Tables;

  // Rows of one server in a row, by its numbers, and where they begin in the caller's.
  struct Piece {
    ops::Range rows;
    int64_t place = 0;
  };
  // What goes into each message to a server.
  std::vector<std::vector<Piece>> messages_to(int server,
                                              const std::vector<ops::Range>& rows) const;
  void submit(std::vector<TableOrder> orders);
  void check(const std::vector<ops::Range>& rows, size_t numbers) const;
  void change(const TableHead& head, const std::vector<ops::Range>& rows,
              std::span<const float> numbers);
  int64_t read(const TableHead& head, const std::vector<ops::Range>& rows, std::span<float> into);
  // Whoever holds it up is told as awaited.
  TableAnswers await(int64_t read);
  TableHead head_of(TableWord word) const;
  const TablePlace& place() const;
  const std::vector<int>& group() const { return spec_.groups[static_cast<size_t>(place().group)]; }

  Tables& tables_;
  const TableSpec spec_;
  const int number_;
  const int worker_;
  const std::optional<TablePlace> place_;
  const TableRows rows_;
  int64_t clock_ = 0;
  int64_t settled_ = 0;
  const std::string waits_for_;
  const std::string waits_to_send_;
};

class Tables {
 public:
  // Throws Error{kUsage} where a table makes no sense.
  Tables(runtime::Workplace& workplace, std::vector<TableSpec> specs);

  int count() const { return static_cast<int>(tables_.size()); }
  Table& at(int table) { return tables_.at(static_cast<size_t>(table)); }
  // From now on others are served.
  void serve();
  // Throws what ended that, if anything did.
  void check() { desk_.check(); }

  // With no task under way, by all workers at once: until all that any of them sent has arrived.
  void rest();
  // Then, or before the first task: calls `act`, while nobody is served. For a half that has rows
  // in its own snapshot, from which they begin again with clocks at 0: throws Error{kInternal}
  // where clients are not at one clock.
  void stand_still(const std::function<void()>& act);
  // Likewise: a snapshot of the worker's half, with the rows and clocks of its tables; and back,
  // before the first task: gives the half's. Throws Error{kProtocol} where it is of other tables.
  std::string with_state(std::string half);
  std::string take_state(std::string_view both);

 private:
  friend class Table;
  template <class Archive>
  void clocks(Archive& archive);
  // While nobody is served.
  void paused(const std::function<void()>& act);

  runtime::Workplace& workplace_;
  TableDesk desk_;
  std::deque<Table> tables_;
  int64_t ids_ = 0;  // of messages of reads, and of reads
  std::unique_ptr<TableServer> server_;
};

}  // namespace kerf::schedmp
