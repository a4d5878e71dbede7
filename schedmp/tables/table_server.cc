#include "schedmp/tables/table_server.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

// Messages of one peer, before others have their turn and answers go out.
constexpr int kMostInARow = 16;

}  // namespace

TableServer::TableServer(runtime::Workplace& workplace, const std::vector<TableSpec>& specs,
                         TableDesk& desk)
    : workplace_(workplace), endpoint_(*workplace.service), desk_(desk) {
  const runtime::LaneTable lanes = table_lanes(specs, workplace.workers);
  const auto self = static_cast<size_t>(workplace.worker);
  for (int peer = 0; peer < workplace.workers; ++peer)
    if (!lanes[self][static_cast<size_t>(peer)].empty()) peers_.insert(peer);
  for (size_t i = 0; i < specs.size(); ++i)
    if (const auto place = place_in(specs[i], workplace.worker)) {
      const auto number = static_cast<int32_t>(i);
      tables_.emplace(number, Served{number, specs[i], *place, TableShard(specs[i], *place)});
    }
}

TableServer::~TableServer() { pause(); }

TableShard* TableServer::shard(int table) {
  KERF_CHECK(!is_serving(), "rows of table {} are served by now", table);
  const auto found = tables_.find(table);
  return found == tables_.end() ? nullptr : &found->second.shard;
}

void TableServer::serve() {
  thread_ = std::jthread([this] { run(); });
}

void TableServer::pause() {
  if (!is_serving()) return;
  stopping_ = true;
  endpoint_.wake();
  thread_.join();
  stopping_ = false;
}

void TableServer::run() {
  try {
    serve_until_stopped();
  } catch (...) {
    desk_.fail(std::current_exception());
  }
}

void TableServer::serve_until_stopped() {
  while (!stopping_) {
    const bool ordered = carry_orders();
    const bool came = take_messages();
    const bool went = post();
    if (!ordered && !came && !went) endpoint_.wait(runtime::Deadline::max());
  }
}

bool TableServer::carry_orders() {
  std::vector<TableOrder> orders = desk_.take();
  for (TableOrder& order : orders)
    send(order.to, {std::move(order.head), std::move(order.numbers), true});
  return !orders.empty();
}

bool TableServer::take_messages() {
  bool any = false;
  for (const int peer : peers_) {
    runtime::ReceiveChannel& channel = endpoint_.receiver(peer);
    for (int i = 0; i < kMostInARow; ++i) {
      const auto view = channel.receive(runtime::Deadline::min());
      if (!view) break;
      any = true;
      try {
        handle(peer, read_message({view->data, view->bytes}));
      } catch (const Error& error) {
        throw Error(error.code(), error.message(),
                    kerf::format("worker {}, from worker {}", workplace_.worker, peer));
      }
      channel.release(*view);
    }
  }
  return any;
}

void TableServer::handle(int from, const TableMessage& message) {
  if (message.head.word == TableWord::kValues) {
    desk_.land(from, message);
    return workplace_.activity.progress();
  }
  if (message.head.word == TableWord::kWaits) return hear_who_holds_up(message.head);
  const auto found = tables_.find(message.head.table);
  if (found == tables_.end())
    throw Error(ErrorCode::kProtocol, kerf::format("there is no table {}", message.head.table));
  handle_request(found->second, from, message);
}

void TableServer::handle_request(Served& table, int from, const TableMessage& message) {
  const std::optional<TablePlace> sender = place_in(table.spec, from);
  const bool is_client = sender && sender->group == table.place.group;
  const bool is_twin = sender && !is_client && sender->place == table.place.place;
  const bool rests = message.head.word == TableWord::kRest;
  const bool changes = message.head.word == TableWord::kChanges;
  if (!(is_client && !changes) && !(is_twin && (changes || rests)))
    throw Error(ErrorCode::kProtocol, "it has nothing to say there", "table " + table.spec.name);
  switch (message.head.word) {
    case TableWord::kRead: {
      Parked read{from, message.head};
      if (answer(table, read)) return;
      tell_who_holds_up(table, read);
      table.parked.push_back(std::move(read));
      return;
    }
    case TableWord::kAssign:
    case TableWord::kAdd:
    case TableWord::kGradient:
      return table.shard.change(sender->place, message);
    case TableWord::kClock:
      table.shard.tick(sender->place, message.head);
      tell_groups(table);
      return look_again(table);
    case TableWord::kChanges:
      table.shard.hear(sender->group, message);
      return look_again(table);
    case TableWord::kRest:
      return hear_rest(table, from);
    default:
      throw Error(ErrorCode::kProtocol, "a word that there is not", "table " + table.spec.name);
  }
}

void TableServer::hear_rest(Served& table, int from) {
  if (!table.resting.insert(from).second)
    throw Error(ErrorCode::kProtocol, "it rests twice", "table " + table.spec.name);
  tell_rest(table);
}

// Other groups hear of it behind all that clients had changed.
void TableServer::tell_rest(Served& table) {
  const auto rests = [&](int worker) { return table.resting.contains(worker); };
  if (!std::ranges::all_of(table.group(), rests) || table.untold > 0) return;
  if (!std::exchange(table.rest_told, true))
    for (const int twin : table.twins())
      send(twin, {{.word = TableWord::kRest, .table = table.number}, {}});
  const auto at_rest = [](const auto& each) {
    const Served& served = each.second;
    return served.rest_told &&
           served.resting.size() == served.group().size() + served.twins().size();
  };
  if (!std::ranges::all_of(tables_, at_rest)) return;
  for (auto& each : tables_) {
    each.second.resting.clear();
    each.second.rest_told = false;
  }
  desk_.rested();
}

std::vector<int> TableServer::Served::twins() const {
  std::vector<int> twins;
  for (size_t other = 0; other < spec.groups.size(); ++other)
    if (static_cast<int>(other) != place.group)
      twins.push_back(spec.groups[other][static_cast<size_t>(place.place)]);
  return twins;
}

void TableServer::look_again(Served& table) {
  std::vector<Parked> parked = std::exchange(table.parked, {});
  for (Parked& read : parked) {
    if (answer(table, read)) continue;
    tell_who_holds_up(table, read);
    table.parked.push_back(std::move(read));
  }
}

bool TableServer::answer(Served& table, const Parked& read) {
  if (!table.shard.may_be_read(read.head)) return false;
  Mail mail{read.head, table.shard.read(read.head)};
  mail.head.word = TableWord::kValues;
  mail.head.clock = table.shard.clock();
  send(read.from, std::move(mail));
  return true;
}

// A client that has not come to the clock, or has not asked so often for all to be told; or who
// serves the same rows in another group: where its news have not been heard as often, or, once all
// clients here have asked, where it does not take the news of before, behind which this group's
// next are told, and settle.
int TableServer::who_holds_up(const Served& table, const TableHead& read) const {
  const auto client = [&](int place) { return table.group()[static_cast<size_t>(place)]; };
  if (table.shard.clock() < read.clock) return client(table.shard.slowest());
  const int group = table.shard.least_settled();
  if (group != table.place.group)
    return table.spec.groups[static_cast<size_t>(group)][static_cast<size_t>(table.place.place)];
  const std::vector<int> twins = table.twins();
  const auto untold =
      std::ranges::find_if(twins, [&](int twin) { return has_news_for(twin, table); });
  if (table.shard.all_asked(read.settled) && untold != twins.end()) return *untold;
  return client(table.shard.last_to_settle());
}

bool TableServer::has_news_for(int twin, const Served& table) const {
  const auto found = outbox_.find(twin);
  return found != outbox_.end() && std::ranges::any_of(found->second, [&](const Mail& mail) {
           return mail.head.word == TableWord::kChanges && mail.head.table == table.number;
         });
}

void TableServer::tell_who_holds_up(const Served& table, Parked& read) {
  const int awaited = who_holds_up(table, read.head);
  if (awaited == read.told) return;
  read.told = awaited;
  TableHead head = read.head;
  head.word = TableWord::kWaits;
  head.clock = awaited;
  head.rows.clear();
  send(read.from, {std::move(head), {}});
}

void TableServer::hear_who_holds_up(const TableHead& head) {
  if (head.clock < 0 || head.clock >= workplace_.workers)
    throw Error(ErrorCode::kProtocol, kerf::format("there is no worker {}", head.clock));
  desk_.holds_up(head.id, static_cast<int>(head.clock));
}

void TableServer::tell_groups(Served& table) {
  if (table.untold > 0) return;
  const std::optional<TableShard::News> news = table.shard.take_news();
  if (!news) return;
  const int64_t width = table.spec.width;
  const int64_t rows = std::ssize(news->changes) / width;
  const int64_t most = rows_in_a_message(table.spec);
  for (int64_t first = 0; first < std::max<int64_t>(rows, 1); first += most) {
    const ops::Range some{first, std::min(rows, first + most)};
    TableHead head{.word = TableWord::kChanges, .table = table.number, .rows = {some}};
    head.settled = some.end == rows ? news->settled : news->settled_before;
    const auto begin = news->changes.begin() + some.begin * width;
    const std::vector<float> numbers(begin, begin + some.size() * width);
    for (const int twin : table.twins()) {
      send(twin, {head, numbers});
      ++table.untold;
    }
  }
}

void TableServer::send(int to, Mail mail) {
  if (to != workplace_.worker) {
    outbox_[to].push_back(std::move(mail));
    return;
  }
  handle(to, {mail.head, mail.numbers});
  sent(to, mail);
}

void TableServer::sent(int to, const Mail& mail) {
  if (mail.ordered) {
    desk_.sent(to, std::ssize(mail.numbers) * int64_t{sizeof(float)});
    workplace_.activity.progress();
  }
  if (mail.head.word != TableWord::kChanges) return;
  Served& table = tables_.at(mail.head.table);
  if (--table.untold > 0) {
    // Whoever takes its news at last holds nobody up any more; another may.
    for (Parked& read : table.parked) tell_who_holds_up(table, read);
    return;
  }
  tell_groups(table);
  look_again(table);
  tell_rest(table);
}

bool TableServer::post() {
  bool any = false;
  for (auto& [peer, mails] : outbox_) {
    runtime::SendChannel& channel = endpoint_.sender(peer);
    while (!mails.empty()) {
      Mail& mail = mails.front();
      const size_t bytes = message_bytes(mail.head, mail.numbers.size());
      const auto slot = channel.acquire(0, bytes, runtime::Deadline::min());
      if (!slot) break;
      const std::span<float> to =
          write_message(mail.head, mail.numbers.size(), {slot->data, slot->bytes});
      std::ranges::copy(mail.numbers, to.begin());
      channel.commit(*slot, {});
      const Mail done = std::move(mail);
      mails.pop_front();
      sent(peer, done);
      any = true;
    }
  }
  return any;
}

}  // namespace kerf::schedmp
