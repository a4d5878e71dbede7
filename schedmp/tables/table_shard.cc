#include "schedmp/tables/table_shard.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

TableShard::TableShard(const TableSpec& spec, TablePlace place)
    : spec_(spec),
      place_(place),
      rows_(TableRows(spec, static_cast<int>(spec.groups[0].size())).rows_of(place.place)) {
  const size_t clients = spec_.groups[0].size();
  const auto numbers = static_cast<size_t>(rows_ * spec_.width);
  values_.resize(numbers);
  if (spec_.optimizer) {
    optimizer_.emplace(*spec_.optimizer);
    states_.assign(static_cast<size_t>(optimizer_->states()), std::vector<float>(numbers));
    updates_.resize(static_cast<size_t>(rows_));
  }
  clocks_.resize(clients);
  waiting_.assign(clients, {{}});
  if (spec_.groups.size() > 1) unheard_.resize(numbers);
  settling_.resize(clients);
  settled_.resize(spec_.groups.size());
}

TableContents TableShard::contents() {
  return {values_, {states_.begin(), states_.end()}, updates_, unheard_};
}

bool TableShard::is_even() const {
  const auto waits = [](const auto& of_client) {
    return of_client.size() != 1 || !of_client.front().empty();
  };
  return std::ranges::count(clocks_, clocks_.front()) == std::ssize(clocks_) &&
         std::ranges::none_of(waiting_, waits);
}

void TableShard::check(const TableMessage& message) const {
  int64_t count = 0;
  for (const ops::Range& each : message.head.rows) {
    if (each.begin < 0 || each.end < each.begin || each.end > rows_)
      throw Error(ErrorCode::kProtocol,
                  kerf::format("rows {} to {} of {}", each.begin, each.end, rows_),
                  "table " + spec_.name);
    count += each.size();
    if (count > rows_in_a_message(spec_)) break;
  }
  const bool reads = message.head.word == TableWord::kRead;
  if (count > rows_in_a_message(spec_) ||
      (!reads && std::ssize(message.numbers) != count * spec_.width))
    throw Error(ErrorCode::kProtocol,
                kerf::format("{} numbers for {} rows", message.numbers.size(), count),
                "table " + spec_.name);
}

void TableShard::check_change(const TableMessage& message) const {
  check(message);
  if (message.head.word == TableWord::kGradient && !optimizer_)
    throw Error(ErrorCode::kProtocol, "a gradient, and no optimizer", "table " + spec_.name);
}

void TableShard::change(int client, const TableMessage& message) {
  check_change(message);
  if (!spec_.synchronous()) return apply(message.head, message.numbers);
  waiting_[static_cast<size_t>(client)].back().push_back(
      {message.head, {message.numbers.begin(), message.numbers.end()}});
}

void TableShard::apply(const TableHead& head, std::span<const float> numbers) {
  for (const ops::Range& rows : head.rows) {
    const auto count = static_cast<size_t>(rows.size() * spec_.width);
    const auto begin = values_.begin() + rows.begin * spec_.width;
    if (!unheard_.empty()) before_.assign(begin, begin + static_cast<ptrdiff_t>(count));
    apply(head, rows, numbers.first(count));
    numbers = numbers.subspan(count);
    if (unheard_.empty()) continue;
    const auto unheard = unheard_.begin() + rows.begin * spec_.width;
    for (size_t i = 0; i < count; ++i)
      unheard[static_cast<ptrdiff_t>(i)] += begin[static_cast<ptrdiff_t>(i)] - before_[i];
  }
}

void TableShard::apply(const TableHead& head, ops::Range rows, std::span<const float> numbers) {
  float* values = values_.data() + rows.begin * spec_.width;
  if (head.word == TableWord::kGradient) return apply_gradient(head, rows, numbers);
  if (head.word == TableWord::kAssign) {
    std::ranges::copy(numbers, values);
    return;
  }
  for (size_t i = 0; i < numbers.size(); ++i) values[i] += head.scale * numbers[i];
}

// Rows that had as many gradients together: what corrects a rule depends on that.
void TableShard::apply_gradient(const TableHead& head, ops::Range rows,
                                std::span<const float> numbers) {
  for (int64_t first = rows.begin; first < rows.end;) {
    int64_t& before = updates_[static_cast<size_t>(first)];
    int64_t end = first + 1;
    while (end < rows.end && updates_[static_cast<size_t>(end)] == before) ++end;
    const ops::UpdateRule rule = optimizer_->rule({head.rate, before + 1}, head.decays);
    const ops::Shape shape{(end - first) * spec_.width};
    const auto view = [&](const float* data, int64_t row) {
      const float* at = data + row * spec_.width;
      return ops::TensorView{ops::DType::kFloat32, shape,
                             reinterpret_cast<std::byte*>(const_cast<float*>(at))};
    };
    std::vector<ops::TensorView> states;
    for (const std::vector<float>& state : states_) states.push_back(view(state.data(), first));
    ops::update(rule, head.scale, view(values_.data(), first),
                view(numbers.data(), first - rows.begin), states);
    for (int64_t row = first; row < end; ++row) ++updates_[static_cast<size_t>(row)];
    first = end;
  }
}

void TableShard::tick(int client, const TableHead& clock) {
  const auto at = static_cast<size_t>(client);
  if (clock.clock != clocks_[at] + 1 || clock.settled < 0 || clock.settled > 1)
    throw Error(ErrorCode::kProtocol,
                kerf::format("clock {} behind clock {}, settled {} times", clock.clock, clocks_[at],
                             clock.settled),
                "table " + spec_.name);
  ++clocks_[at];
  ++ticks_;
  settling_[at] += clock.settled;
  if (!spec_.synchronous()) return;
  waiting_[at].emplace_back();
  apply_waiting();
}

void TableShard::apply_waiting() {
  for (; applied_ < clock(); ++applied_)
    for (auto& of_client : waiting_) {
      for (const Change& each : of_client.front()) apply(each.head, each.numbers);
      of_client.erase(of_client.begin());
    }
}

int64_t TableShard::clock() const { return *std::ranges::min_element(clocks_); }

int TableShard::slowest() const {
  return static_cast<int>(std::ranges::min_element(clocks_) - clocks_.begin());
}

int TableShard::least_settled() const {
  return static_cast<int>(std::ranges::min_element(settled_) - settled_.begin());
}

int TableShard::last_to_settle() const {
  return static_cast<int>(std::ranges::min_element(settling_) - settling_.begin());
}

bool TableShard::all_asked(int64_t times) const {
  return *std::ranges::min_element(settling_) >= times;
}

bool TableShard::may_be_read(const TableHead& read) const {
  return clock() >= read.clock && *std::ranges::min_element(settled_) >= read.settled;
}

std::vector<float> TableShard::read(const TableHead& read) const {
  check({read, {}});
  std::vector<float> numbers;
  numbers.reserve(static_cast<size_t>(count_rows(read.rows) * spec_.width));
  for (const ops::Range& rows : read.rows)
    numbers.insert(numbers.end(), values_.begin() + rows.begin * spec_.width,
                   values_.begin() + rows.end * spec_.width);
  return numbers;
}

void TableShard::hear(int group, const TableMessage& message) {
  check(message);
  int64_t& settled = settled_[static_cast<size_t>(group)];
  if (message.head.settled < settled)
    throw Error(ErrorCode::kProtocol,
                kerf::format("settled {} times behind {}", message.head.settled, settled),
                "table " + spec_.name);
  std::span<const float> numbers = message.numbers;
  for (const ops::Range& rows : message.head.rows) {
    float* values = values_.data() + rows.begin * spec_.width;
    const auto count = static_cast<size_t>(rows.size() * spec_.width);
    for (size_t i = 0; i < count; ++i) values[i] += numbers[i];
    numbers = numbers.subspan(count);
  }
  settled = message.head.settled;
}

std::optional<TableShard::News> TableShard::take_news() {
  int64_t& settled = settled_[static_cast<size_t>(place_.group)];
  const int64_t before = std::exchange(settled, *std::ranges::min_element(settling_));
  if (unheard_.empty()) return std::nullopt;
  if (settled == before && ticks_ / std::ssize(clocks_) < spec_.exchange) return std::nullopt;
  ticks_ = 0;
  News news{unheard_, before, settled};
  std::ranges::fill(unheard_, 0.0F);
  return news;
}

}  // namespace kerf::schedmp
