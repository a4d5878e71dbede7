// Snapshots of tables: what TableShard and Tables hold, as bytes and back.
#include "runtime/error.h"
#include "runtime/wire.h"
#include "schedmp/tables/tables.h"

namespace kerf::schedmp {

template <class Archive>
void TableShard::state(Archive& archive) {
  archive(values_, states_, updates_, clocks_, waiting_, applied_, unheard_, ticks_, settling_,
          settled_);
}

void TableShard::save(runtime::WireWriter& to) { state(to); }

std::vector<size_t> TableShard::sizes() const {
  std::vector<size_t> sizes{values_.size(),  states_.size(),  updates_.size(),  clocks_.size(),
                            waiting_.size(), unheard_.size(), settling_.size(), settled_.size()};
  for (const std::vector<float>& each : states_) sizes.push_back(each.size());
  return sizes;
}

void TableShard::load(runtime::WireReader& from) {
  const std::vector<size_t> expected = sizes();
  state(from);
  if (sizes() != expected) runtime::throw_wire_fault("it is of another table");
  check_waiting();
}

// A client waits with what it changed in each clock that was not applied, and since.
void TableShard::check_waiting() const {
  for (size_t client = 0; client < waiting_.size(); ++client) {
    const int64_t ahead = spec_.synchronous() ? clocks_[client] - applied_ : 0;
    if (std::ssize(waiting_[client]) != ahead + 1 ||
        applied_ != (spec_.synchronous() ? clock() : 0))
      runtime::throw_wire_fault("clocks and what waits for them do not fit");
    for (const std::vector<Change>& of_clock : waiting_[client])
      for (const Change& each : of_clock) check_change({each.head, each.numbers});
  }
}

template <class Archive>
void Tables::clocks(Archive& archive) {
  for (Table& table : tables_) archive(table.clock_, table.settled_);
}

void Tables::rest() {
  if (!server_) return;
  std::vector<TableOrder> orders;
  for (const Table& table : tables_)
    if (table.is_member())
      for (const int worker : table.group())
        orders.push_back({worker, table.head_of(TableWord::kRest), {}, {}});
  if (orders.empty()) return;
  desk_.submit(std::move(orders));
  server_->wake();
  desk_.await_rest();
}

void Tables::paused(const std::function<void()>& act) {
  server_->pause();
  desk_.check();
  act();
  server_->serve();
}

void Tables::stand_still(const std::function<void()>& act) {
  if (!server_) return act();
  paused([&] {
    for (int table = 0; table < count(); ++table)
      if (const TableShard* const shard = server_->shard(table))
        KERF_CHECK(shard->is_even(), "table {} is not at rest", at(table).spec().name);
    act();
  });
}

std::string Tables::with_state(std::string half) {
  if (!server_) return half;
  runtime::WireWriter writer;
  writer(half);
  clocks(writer);
  paused([&] {
    for (int table = 0; table < count(); ++table)
      if (TableShard* const shard = server_->shard(table)) shard->save(writer);
  });
  return writer.take();
}

std::string Tables::take_state(std::string_view both) {
  if (!server_) return std::string(both);
  std::string half;
  paused([&] {
    try {
      runtime::WireReader reader(both);
      reader(half);
      clocks(reader);
      for (int table = 0; table < count(); ++table)
        if (TableShard* const shard = server_->shard(table)) shard->load(reader);
      if (reader.left() != 0) runtime::throw_wire_fault("bytes are left over");
    } catch (...) {
      runtime::rethrow_as_protocol_error();
    }
  });
  return half;
}

}  // namespace kerf::schedmp
