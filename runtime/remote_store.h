// The store of a worker on another host than the scheduler's: asks it for each piece, over the
// control connection (store_messages.h).
//
// Writes are sent ahead, as far as the window lets; reads of consecutive places are asked for ahead
// as well. So a failure to write may show in a later call. While the compute thread waits, its
// activity says for what, and every answer is progress.
//
// Owned by run_worker. Threads: the compute thread, but for deliver() and interrupt(), which are
// the control thread's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/activity.h"
#include "runtime/control.h"
#include "runtime/store.h"
#include "runtime/store_messages.h"

namespace kerf::runtime {

class RemoteStore final : public Store {
 public:
  // `send` brings a message to the scheduler; `window`: bytes, as kWelcome told. `activity`
  // outlives this.
  RemoteStore(std::function<void(ControlMessage)> send, int64_t window, Activity& activity);

  std::unique_ptr<ReadableFile> open(const std::filesystem::path& path) override;
  std::unique_ptr<ReadableFile> find(const std::filesystem::path& path) override;
  std::unique_ptr<WritableFile> create(const std::filesystem::path& path) override;
  std::unique_ptr<WritableFile> extend(const std::filesystem::path& path, uint64_t kept) override;

  // A kStored.
  void deliver(std::string payload);
  // The run is over: whoever waits, or is about to, throws Error{kInterrupted}.
  void interrupt();

  // What came of requests. Of several: the last answer, or the first that tells of a failure.
  struct Answers {
    int missing = 0;
    std::optional<StoreAnswer> answer = {};
  };
  // For its files. Waits while there is no room for it; then it is on its way.
  void ask(const StoreRequest& request, const std::shared_ptr<Answers>& answers,
           const std::string& what);
  bool has_room(int64_t cost) const { return asked_.empty() || unanswered_ + cost <= window_; }
  // Waits until none is missing. `what`: "write /a/b".
  void wait(const Answers& answers, const std::string& what);
  int32_t take_number();
  void close(int32_t file);

 private:
  struct Asked {
    int32_t file = 0;
    int64_t cost = 0;
    std::shared_ptr<Answers> answers;
  };
  std::unique_ptr<WritableFile> write(StoreRequest request);
  void take_answer(const std::string& what);
  std::string next_payload(const std::string& what);

  const std::function<void(ControlMessage)> send_;
  const int64_t window_;
  Activity& activity_;
  std::deque<Asked> asked_;                                      // in order: as they are answered
  int64_t unanswered_ = 0;                                       // their cost
  std::vector<bool> used_ = std::vector<bool>(kMostStoreFiles);  // numbers of files

  std::mutex mutex_;  // guards the following
  std::condition_variable arrived_;
  std::deque<std::string> payloads_;
  bool over_ = false;
};

}  // namespace kerf::runtime
