// A worker's store and the scheduler's thread, with nothing but queues between them, in a folder of
// the run's: for tests of the store.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/file.h"
#include "runtime/remote_store.h"
#include "runtime/store_thread.h"
#include "runtime/wire.h"
#include "tests/support/temporary_folder.h"

namespace kerf::runtime {

inline constexpr int kWorkers = 8;

// A worker's store and the scheduler's thread, with nothing but queues between them.
class Wire {
 public:
  explicit Wire(const StoreRules& rules)
      : remote_([this](ControlMessage message) { send(message); }, store_window(kWorkers),
                activity_),
        thread_(rules, kWorkers, [this] { hand_over(); }) {}

  RemoteStore& store() { return remote_; }
  int64_t window() const { return thread_.window(); }
  // The most that was asked for without an answer.
  int64_t most_unanswered() {
    const std::lock_guard lock(mutex_);
    return most_;
  }
  std::optional<Error> breach() {
    const std::lock_guard lock(mutex_);
    return breach_;
  }
  // Bytes, of each request to read.
  std::vector<uint32_t> asked_to_read() {
    const std::lock_guard lock(mutex_);
    return asked_to_read_;
  }

 private:
  void send(const ControlMessage& message) {
    EXPECT_EQ(message.type, ControlType::kStore);
    EXPECT_LE(message.payload.size(), kMaxControlMessage);
    const std::lock_guard lock(mutex_);
    const auto request = decode<StoreRequest>(message.payload);
    unanswered_ += cost_of(request);
    most_ = std::max(most_, unanswered_);
    if (request.word == StoreWord::kRead) asked_to_read_.push_back(request.count);
    thread_.take(0, message.payload);
  }

  void hand_over() {
    const std::lock_guard lock(mutex_);
    for (const StoreThread::Said& said : thread_.answers()) {
      unanswered_ -= said.cost;
      if (said.breach) {
        breach_ = said.breach;
        remote_.interrupt();
      } else {
        remote_.deliver(encode(said.answer));
      }
    }
  }

  Activity activity_;
  std::mutex mutex_;
  int64_t unanswered_ = 0;
  int64_t most_ = 0;
  std::vector<uint32_t> asked_to_read_;
  std::optional<Error> breach_;
  RemoteStore remote_;
  StoreThread thread_;  // uses the others
};

inline std::string some_bytes(size_t count) {
  std::mt19937_64 random(count);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

inline std::string read(ReadableFile& file, uint64_t first, size_t count) {
  std::string bytes(count, '\0');
  file.read(first, std::as_writable_bytes(std::span(bytes)), ErrorCode::kUnavailable);
  return bytes;
}

inline std::string whole(ReadableFile& file) { return read(file, 0, file.bytes()); }

class StoreFolder : public testing::Test {
 protected:
  StoreFolder() { rules_.allow(folder_.path(), StoreAccess::kWrite); }

  std::string text_of(const std::filesystem::path& path) const { return read_file(path); }
  size_t count_files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_.path()),
                                             std::filesystem::directory_iterator()));
  }

  const tests::TemporaryFolder folder_;
  StoreRules rules_;
};

}  // namespace kerf::runtime
