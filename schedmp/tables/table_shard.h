// The rows that one worker serves: what clients changed, up to which clock, and who may read.
//
// Owned by whoever serves; used by its thread alone. It sends and receives nothing.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/optimizer.h"
#include "schedmp/tables/table_messages.h"

namespace kerf::runtime {

class WireReader;
class WireWriter;

}  // namespace kerf::runtime

namespace kerf::schedmp {

// What a shard holds of its rows, for snapshots that have it by other names than the shard's.
struct TableContents {
  std::span<float> values;  // row by row, as the next and the last
  std::vector<std::span<float>> states;
  std::span<int64_t> updates;  // by row; empty: no gradients change it
  std::span<float> unheard;    // empty: there are no other groups
};

class TableShard {
 public:
  // That a worker at this place serves.
  TableShard(const TableSpec& spec, TablePlace place);

  // Row by row; zeros at first.
  std::span<float> values() { return values_; }
  TableContents contents();

  // A change by a client: its place in the group. Throws Error{kProtocol} where rows or numbers do
  // not fit.
  void change(int client, const TableMessage& message);
  // A client's next clock. Throws Error{kProtocol} where it is another than the next.
  void tick(int client, const TableHead& clock);
  // From another group.
  void hear(int group, const TableMessage& message);

  // What every client has come to, and the first of those who have not come further.
  int64_t clock() const;
  int slowest() const;
  // Of groups, the first of those of which all was heard least often; of clients, of those that
  // asked for it least often.
  int least_settled() const;
  int last_to_settle() const;
  bool all_asked(int64_t times) const;  // all clients, for that
  bool may_be_read(const TableHead& read) const;
  // Throws Error{kProtocol} where there are no such rows.
  std::vector<float> read(const TableHead& read) const;

  // Whether all clients are at one clock, and nothing waits for another.
  bool is_even() const;
  // All that it holds. load() throws Error{kProtocol} where that is of no shard like this.
  void save(runtime::WireWriter& to);
  void load(runtime::WireReader& from);

  // What other groups have to hear now, if anything: all changes since the last time.
  struct News {
    std::vector<float> changes;  // of all rows
    int64_t settled_before = 0;  // how often all was told
    int64_t settled = 0;         // and with these
  };
  std::optional<News> take_news();

 private:
  struct Change {
    TableHead head;
    std::vector<float> numbers;

    template <class Archive>
    void serialize(Archive& archive) {
      archive(head, numbers);
    }
  };
  template <class Archive>
  void state(Archive& archive);
  std::vector<size_t> sizes() const;
  void check_waiting() const;
  void check_change(const TableMessage& message) const;
  void check(const TableMessage& message) const;
  void apply(const TableHead& head, std::span<const float> numbers);
  void apply(const TableHead& head, ops::Range rows, std::span<const float> numbers);
  void apply_gradient(const TableHead& head, ops::Range rows, std::span<const float> numbers);
  // What all have come to of what waited, in the order of clients.
  void apply_waiting();

  const TableSpec spec_;
  const TablePlace place_;
  const int64_t rows_;
  std::optional<ops::Optimizer> optimizer_;
  std::vector<float> values_;
  std::vector<std::vector<float>> states_;
  std::vector<int64_t> updates_;  // by row: gradients so far
  std::vector<int64_t> clocks_;   // by client
  // Of a synchronous table, by client: what it changed in each clock that not all have come to, and
  // since.
  std::vector<std::vector<std::vector<Change>>> waiting_;
  int64_t applied_ = 0;  // clocks
  // Where there are other groups:
  std::vector<float> unheard_;     // changes that they have not heard of
  std::vector<float> before_;      // scratch
  int64_t ticks_ = 0;              // since they last heard
  std::vector<int64_t> settling_;  // by client: how often it asked for all to be told
  std::vector<int64_t> settled_;   // by group: how often all was told here
};

}  // namespace kerf::schedmp
