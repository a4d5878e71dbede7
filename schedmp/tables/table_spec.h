// What a table is: rows of numbers that workers share, read and change, as a parameter server has
// them (Wei et al.: "Managed communication and consistency for fast data-parallel iterative
// analytics", SoCC 2015; Li et al.: "Scaling distributed machine learning with the parameter
// server", OSDI 2014). A program declares its tables on the scheduler (SchedulerHalf::tables).
//
// Every worker of a group serves a part of the rows to the others, and is a client of all. A client
// counts clocks: what it changes between two of its clocks belongs to the second. A read at clock c
// waits until every client of the group has come to clock c - staleness (SSP: Ho et al., NIPS
// 2013), and sees all that these changed by then, and perhaps more. Without staleness a table is
// synchronous: changes are made when all have come to their clock, in the order of clients, so that
// a read sees neither more nor less, and the same run has the same bits.
//
// Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/layout.h"
#include "ops/optimizer.h"

namespace kerf::schedmp {

// Who has which rows.
enum class Sharding : uint8_t {
  kByBlock,  // as many rows in a row for each worker
  kByKey,    // row r is the (r mod n)-th worker's
};

struct TableSpec {
  // Of a read that never waits.
  static constexpr int64_t kAnyStaleness = -1;

  std::string name;
  int64_t rows = 0;
  int64_t width = 1;  // numbers in a row
  Sharding sharding = Sharding::kByBlock;
  // Workers, each in one group at most: a group has all rows, and other groups hear of what it
  // changed `exchange` clocks later. Groups are of one size. Empty: all workers are one group.
  std::vector<std::vector<int>> groups = {};
  int64_t exchange = 1;
  int64_t staleness = 0;
  // What gradients change: by its rule, with states that only those have who serve. Empty: there
  // are no gradients.
  std::optional<ops::OptimizerOptions> optimizer = {};

  bool synchronous() const { return staleness == 0; }

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, rows, width, sharding, groups, exchange, staleness, optimizer);
  }
};

// Throws Error{kUsage} that names the table where it makes no sense. Groups are there afterwards.
void complete(TableSpec& spec, int workers);

// Where rows are within a group of so many. Those of a range that one of them has are next to each
// other there, and `stride` apart in the range.
class TableRows {
 public:
  TableRows(const TableSpec& spec, int servers);

  int servers() const { return servers_; }
  int64_t stride() const { return sharding_ == Sharding::kByKey ? servers_ : 1; }
  // What it has in all.
  int64_t rows_of(int server) const;
  // Of [begin, end): what it has, by its own numbers; and the first of them, by the table's.
  ops::Range own(int server, ops::Range rows) const;
  int64_t row(int server, int64_t own) const;

 private:
  int64_t first(int server) const;  // by block

  Sharding sharding_;
  int64_t rows_;
  int servers_;
};

// Who is who for a worker that is in a group of it: where in its group, which is the how manieth.
struct TablePlace {
  int group = 0;
  int place = 0;
};
std::optional<TablePlace> place_in(const TableSpec& spec, int worker);

// What a worker that serves the table holds of it, in bytes, without slots of messages.
int64_t table_bytes(const TableSpec& spec, int worker);

}  // namespace kerf::schedmp
