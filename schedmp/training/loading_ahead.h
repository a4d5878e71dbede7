// A data set whose rows are read before they are asked for, by a thread of its own.
//
//   expect(step 7's rows, step 8's)   the thread reads them in this order
//   read_input(of a micro-batch)      copies what is there, waits for what is being read, and reads
//                                     itself what nobody has begun
//
// What was read of the rows expected last, and no more, is kept, within kMostAhead bytes. A row
// that cannot be read is left to who asks for it, and so is the error. Labels are read where they
// are asked for: they are few. Thread-safe, but for expect(), which one thread calls.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "schedmp/dataset.h"

namespace kerf::schedmp {

class LoadingAhead final : public Dataset {
 public:
  static constexpr int64_t kMostAhead = int64_t{256} << 20;

  // `model` outlives this: the rows of its inputs are what is read, of those that were asked for
  // once.
  LoadingAhead(std::shared_ptr<const Dataset> data, const partitioner::Model& model,
               int64_t most_bytes = kMostAhead);
  ~LoadingAhead() override;

  // Forgets all other rows.
  void expect(std::span<const int64_t> rows, std::span<const int64_t> next);
  // Rows that were there when they were asked for, and those that were not.
  int64_t found() const;
  int64_t missed() const;

  int64_t rows() const override { return data_->rows(); }
  std::optional<ops::ValueSpec> input(std::string_view name) const override {
    return data_->input(name);
  }
  bool has_own(std::string_view name) const override { return data_->has_own(name); }
  ops::Shape labels() const override { return data_->labels(); }
  int64_t classes() const override { return data_->classes(); }
  std::optional<ops::Shape> targets() const override { return data_->targets(); }
  std::string fingerprint() const override { return data_->fingerprint(); }
  void read_input(std::string_view name, std::span<const int64_t> rows,
                  const ops::TensorView& to) const override;
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    data_->read_labels(rows, to);
  }
  void prepare(std::span<const std::string> inputs) const override { data_->prepare(inputs); }
  int64_t held_bytes() const override;

 private:
  // kLeft: to who asks for it, who reads it or is told why it cannot be read.
  enum class State : uint8_t { kWaiting, kReading, kThere, kLeft };
  struct Row {
    State state = State::kWaiting;
    std::vector<std::byte> bytes;
  };
  struct Input {
    ops::ValueSpec spec;
    bool wanted = false;  // asked for once
    std::map<int64_t, std::shared_ptr<Row>> rows;
  };

  void load(const std::stop_token& stop);
  // The first row, in the order expected, that waits; null where none does.
  std::shared_ptr<Row> next_row(std::string& name, int64_t& row, ops::ValueSpec& spec);
  // Copies the row if it is or comes to be there.
  bool take(Input& input, int64_t row, std::byte* to, std::unique_lock<std::mutex>& lock) const;

  const std::shared_ptr<const Dataset> data_;
  const int64_t most_bytes_;
  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  mutable std::map<std::string, Input, std::less<>> inputs_;
  mutable int64_t found_ = 0;
  mutable int64_t missed_ = 0;
  std::vector<int64_t> order_;  // of the rows expected
  size_t next_ = 0;             // of them
  std::jthread thread_;         // the last: it works on the others
};

}  // namespace kerf::schedmp
