#include "schedmp/training/loading_ahead.h"

#include <algorithm>
#include <exception>
#include <stop_token>

#include "runtime/error.h"

namespace kerf::schedmp {

using ops::TensorView;

LoadingAhead::LoadingAhead(std::shared_ptr<const Dataset> data, const partitioner::Model& model,
                           int64_t most_bytes)
    : data_(std::move(data)), most_bytes_(most_bytes) {
  for (partitioner::ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role == partitioner::Role::kInput)
      inputs_[model.value(id).name].spec = model.value(id).spec;
  thread_ = std::jthread([this](const std::stop_token& stop) { load(stop); });
}

LoadingAhead::~LoadingAhead() = default;

void LoadingAhead::expect(std::span<const int64_t> rows, std::span<const int64_t> next) {
  const std::lock_guard lock(mutex_);
  order_.assign(rows.begin(), rows.end());
  order_.insert(order_.end(), next.begin(), next.end());
  next_ = 0;
  int64_t expected = 0;  // bytes
  for (auto& [name, input] : inputs_) {
    if (!input.wanted) continue;
    std::map<int64_t, std::shared_ptr<Row>> before;
    before.swap(input.rows);
    const auto each = static_cast<int64_t>(input.spec.bytes(1));
    for (const int64_t row : order_) {
      if (expected + each > most_bytes_) break;
      const auto known = before.find(row);
      const bool held = known != before.end() && known->second->state != State::kLeft;
      const bool fresh =
          input.rows.emplace(row, held ? known->second : std::make_shared<Row>()).second;
      if (fresh) expected += each;
    }
  }
  changed_.notify_all();
}

std::shared_ptr<LoadingAhead::Row> LoadingAhead::next_row(std::string& name, int64_t& row,
                                                          ops::ValueSpec& spec) {
  for (; next_ < order_.size(); ++next_)
    for (auto& [of, input] : inputs_) {
      const auto found = input.rows.find(order_[next_]);
      if (found == input.rows.end() || found->second->state != State::kWaiting) continue;
      name = of;
      row = found->first;
      spec = input.spec;
      return found->second;
    }
  return nullptr;
}

void LoadingAhead::load(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  std::string name;
  int64_t number = 0;
  ops::ValueSpec spec;
  while (!stop.stop_requested()) {
    const std::shared_ptr<Row> row = next_row(name, number, spec);
    if (row == nullptr) {
      changed_.wait(lock, stop, [&] { return next_ < order_.size(); });
      continue;
    }
    row->state = State::kReading;
    lock.unlock();
    State state = State::kThere;
    try {
      row->bytes.resize(spec.bytes(1));
      data_->read_input(name, {&number, 1},
                        {spec.dtype, spec.shape.with_batch(1), row->bytes.data()});
    } catch (const std::exception&) {
      state = State::kLeft;
    }
    lock.lock();
    row->state = state;
    if (state == State::kLeft) row->bytes = {};
    changed_.notify_all();
  }
}

bool LoadingAhead::take(Input& input, int64_t row, std::byte* to,
                        std::unique_lock<std::mutex>& lock) const {
  const auto found = input.rows.find(row);
  if (found == input.rows.end()) return false;
  const std::shared_ptr<Row> held = found->second;
  if (held->state == State::kWaiting) held->state = State::kLeft;
  changed_.wait(lock, [&] { return held->state != State::kReading; });
  if (held->state != State::kThere) return false;
  lock.unlock();  // nobody writes to what is there
  std::copy(held->bytes.begin(), held->bytes.end(), to);
  lock.lock();
  return true;
}

void LoadingAhead::read_input(std::string_view name, std::span<const int64_t> rows,
                              const TensorView& to) const {
  std::unique_lock lock(mutex_);
  const auto found = inputs_.find(name);
  KERF_CHECK(found != inputs_.end(), "no input {}", name);
  Input& input = found->second;
  input.wanted = true;
  const size_t each = rows.empty() ? 0 : to.bytes() / rows.size();
  TensorView one = to;
  for (size_t i = 0; i < rows.size(); ++i) {
    one.data = to.data + i * each;
    if (take(input, rows[i], one.data, lock)) {
      ++found_;
      continue;
    }
    // With those behind it of which nothing is held either.
    size_t end = i + 1;
    while (end < rows.size() && !input.rows.contains(rows[end])) ++end;
    one.shape[0] = static_cast<int64_t>(end - i);
    missed_ += one.shape[0];
    lock.unlock();
    data_->read_input(name, rows.subspan(i, end - i), one);
    lock.lock();
    i = end - 1;
  }
}

int64_t LoadingAhead::found() const {
  const std::lock_guard lock(mutex_);
  return found_;
}

int64_t LoadingAhead::missed() const {
  const std::lock_guard lock(mutex_);
  return missed_;
}

int64_t LoadingAhead::held_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t held = data_->held_bytes();
  for (const auto& [name, input] : inputs_)
    for (const auto& [number, row] : input.rows)
      if (row->state == State::kReading || row->state == State::kThere)
        held += static_cast<int64_t>(input.spec.bytes(1));
  return held;
}

}  // namespace kerf::schedmp
