#include "schedmp/tables/tables.h"

#include <algorithm>

#include "runtime/error.h"

namespace kerf::schedmp {

Tables::Tables(runtime::Workplace& workplace, std::vector<TableSpec> specs)
    : workplace_(workplace) {
  if (specs.empty()) return;
  KERF_CHECK(workplace.service != nullptr, "tables, and no endpoint to serve them by");
  for (TableSpec& spec : specs) complete(spec, workplace.workers);
  server_ = std::make_unique<TableServer>(workplace, specs, desk_);
  for (size_t i = 0; i < specs.size(); ++i)
    tables_.emplace_back(*this, specs[i], static_cast<int>(i), workplace.worker);
}

void Tables::serve() {
  if (server_) server_->serve();
}

Table::Table(Tables& tables, const TableSpec& spec, int number, int worker)
    : tables_(tables),
      spec_(spec),
      number_(number),
      worker_(worker),
      place_(place_in(spec, worker)),
      rows_(spec, static_cast<int>(spec.groups[0].size())),
      waits_for_("rows of table " + spec.name),
      waits_to_send_("room for changes of table " + spec.name) {}

std::span<float> Table::own() {
  TableShard* const shard = tables_.server_->shard(number_);
  return shard == nullptr ? std::span<float>() : shard->values();
}

TableContents Table::contents() {
  TableShard* const shard = tables_.server_->shard(number_);
  return shard == nullptr ? TableContents() : shard->contents();
}

const TablePlace& Table::place() const {
  KERF_CHECK(is_member(), "this worker is in no group of table {}", spec_.name);
  return *place_;
}

TableHead Table::head_of(TableWord word) const { return {.word = word, .table = number_}; }

void Table::check(const std::vector<ops::Range>& rows, size_t numbers) const {
  for (const ops::Range& each : rows)
    KERF_CHECK(each.begin >= 0 && each.begin <= each.end && each.end <= spec_.rows,
               "rows {} to {} of the {} of table {}", each.begin, each.end, spec_.rows, spec_.name);
  KERF_CHECK(static_cast<int64_t>(numbers) == count_rows(rows) * spec_.width,
             "{} numbers for {} rows of table {}", numbers, count_rows(rows), spec_.name);
}

std::vector<std::vector<Table::Piece>> Table::messages_to(
    int server, const std::vector<ops::Range>& rows) const {
  const int64_t most = rows_in_a_message(spec_);
  std::vector<std::vector<Piece>> messages;
  int64_t room = 0;
  int64_t before = 0;  // rows of the caller's
  for (const ops::Range& range : rows) {
    ops::Range own = rows_.own(server, range);
    while (own.size() > 0) {
      if (room == 0 || messages.back().size() == kMostRanges) {
        messages.emplace_back();
        room = most;
      }
      const ops::Range some{own.begin, std::min(own.end, own.begin + room)};
      const int64_t place = before + rows_.row(server, some.begin) - range.begin;
      messages.back().push_back({some, place});
      room -= some.size();
      own.begin = some.end;
    }
    before += range.size();
  }
  return messages;
}

void Table::submit(std::vector<TableOrder> orders) {
  if (orders.empty()) return;
  KERF_CHECK(tables_.server_->is_serving(), "table {} is used before the first task", spec_.name);
  runtime::Activity& activity = tables_.workplace_.activity;
  bool told = false;
  tables_.desk_.submit(std::move(orders), [&](int worker) {
    told = true;
    activity.awaits(waits_to_send_, worker);
  });
  if (told) activity.awaits_nothing();
  tables_.server_->wake();
}

void Table::change(const TableHead& head, const std::vector<ops::Range>& rows,
                   std::span<const float> numbers) {
  check(rows, numbers.size());
  std::vector<TableOrder> orders;
  for (int server = 0; server < rows_.servers(); ++server)
    for (const std::vector<Piece>& pieces : messages_to(server, rows)) {
      TableOrder order{group()[static_cast<size_t>(server)], head, {}, {}};
      for (const Piece& piece : pieces) {
        order.head.rows.push_back(piece.rows);
        for (int64_t row = 0; row < piece.rows.size(); ++row) {
          const int64_t at = (piece.place + row * rows_.stride()) * spec_.width;
          const auto from = numbers.begin() + at;
          order.numbers.insert(order.numbers.end(), from, from + spec_.width);
        }
      }
      orders.push_back(std::move(order));
    }
  submit(std::move(orders));
}

void Table::assign(const std::vector<ops::Range>& rows, std::span<const float> values) {
  change(head_of(TableWord::kAssign), rows, values);
}

void Table::add(const std::vector<ops::Range>& rows, std::span<const float> changes, float scale) {
  TableHead head = head_of(TableWord::kAdd);
  head.scale = scale;
  change(head, rows, changes);
}

void Table::push(const std::vector<ops::Range>& rows, std::span<const float> gradients,
                 const GradientPace& pace) {
  KERF_CHECK(spec_.optimizer.has_value(), "table {} has no optimizer", spec_.name);
  TableHead head = head_of(TableWord::kGradient);
  head.rate = pace.rate;
  head.decays = pace.decays;
  head.scale = pace.scale;
  change(head, rows, gradients);
}

void Table::clock(bool settles) {
  TableHead head = head_of(TableWord::kClock);
  head.clock = ++clock_;
  if (settles) {
    head.settled = 1;
    ++settled_;
  }
  std::vector<TableOrder> orders;
  for (const int worker : group()) orders.push_back({worker, head, {}, {}});
  submit(std::move(orders));
}

int64_t Table::read(const std::vector<ops::Range>& rows, std::span<float> into) {
  TableHead head = head_of(TableWord::kRead);
  if (spec_.staleness != TableSpec::kAnyStaleness) head.clock = clock_ - spec_.staleness;
  return read(head, rows, into);
}

void Table::read_settled(const std::vector<ops::Range>& rows, std::span<float> into) {
  TableHead head = head_of(TableWord::kRead);
  head.clock = clock_;
  head.settled = settled_;
  read(head, rows, into);
}

int64_t Table::read(const TableHead& head, const std::vector<ops::Range>& rows,
                    std::span<float> into) {
  check(rows, into.size());
  const int64_t read = tables_.ids_++;
  std::vector<TableOrder> orders;
  for (int server = 0; server < rows_.servers(); ++server)
    for (const std::vector<Piece>& pieces : messages_to(server, rows)) {
      TableOrder order{group()[static_cast<size_t>(server)], head, {}, {}};
      order.head.id = tables_.ids_++;
      order.landing = {
          .read = read, .server = order.to, .width = spec_.width, .stride = rows_.stride()};
      for (const Piece& piece : pieces) {
        order.head.rows.push_back(piece.rows);
        order.landing.ranges.push_back(
            {into.data() + piece.place * spec_.width, piece.rows.size()});
      }
      orders.push_back(std::move(order));
    }
  if (orders.empty()) return 0;
  submit(std::move(orders));
  return std::max<int64_t>(0, clock_ - await(read).clock);
}

TableAnswers Table::await(int64_t read) {
  runtime::Activity& activity = tables_.workplace_.activity;
  TableAnswers answers;
  do {
    answers = tables_.desk_.await(read, answers.awaited);
    if (answers.missing > 0) activity.awaits(waits_for_, answers.awaited);
  } while (answers.missing > 0);
  activity.awaits_nothing();
  return answers;
}

}  // namespace kerf::schedmp
