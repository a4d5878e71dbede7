#include "runtime/store_thread.h"

#include <unistd.h>

#include "runtime/wire.h"

namespace kerf::runtime {

namespace {

constexpr std::chrono::minutes kTellAgain{1};

}  // namespace

StoreThread::StoreThread(const StoreRules& rules, int workers, std::function<void()> answered,
                         Tell tell, std::chrono::milliseconds patience)
    : rules_(rules),
      window_(store_window(workers)),
      answered_(std::move(answered)),
      tell_(std::move(tell)),
      patience_(patience),
      since_(Clock::now()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

StoreThread::~StoreThread() {
  thread_.request_stop();
  await_end();
  thread_.join();
}

void StoreThread::await_end() {
  std::unique_lock lock(mutex_);
  std::chrono::milliseconds patience = patience_;
  while (!end_.wait_for(lock, patience, [&] { return ended_; })) {
    patience = kTellAgain;
    const std::chrono::duration<double> taken = Clock::now() - since_;
    const std::string text = kerf::format(
        "the run waits for {}, for {:.1f} s now: the disk there does not answer; if it never does, "
        "end process {}",
        under_way_, taken.count(), ::getpid());
    lock.unlock();
    try {
      if (tell_) tell_(text);
    } catch (const std::exception&) {
      // Whoever cannot be told waits all the same.
    }
    lock.lock();
  }
}

void StoreThread::take(int worker, std::string_view payload) {
  auto request = decode<StoreRequest>(payload);
  const int64_t cost = cost_of(request);
  Unanswered& unanswered = unanswered_[worker];
  // Each that closes a file, which costs nothing, is behind one that opened it.
  const int64_t most = 2 * (window_ / kLeastStoreCost) + kMostStoreFiles;
  if (cost > window_ - unanswered.cost || unanswered.requests >= most)
    throw Error(ErrorCode::kProtocol,
                kerf::format("it asked for {} bytes of the run's files at once, by {} requests; "
                             "it may for {} by {}",
                             unanswered.cost + cost, unanswered.requests + 1, window_, most));
  unanswered.cost += cost;
  ++unanswered.requests;
  const std::lock_guard lock(mutex_);
  asked_.push_back({worker, std::move(request), cost});
  arrived_.notify_one();
}

void StoreThread::forget(int worker) {
  const std::lock_guard lock(mutex_);
  asked_.push_back({worker});
  arrived_.notify_one();
}

std::vector<StoreThread::Said> StoreThread::answers() {
  std::vector<Said> said;
  {
    const std::lock_guard lock(mutex_);
    said.swap(said_);
  }
  for (const Said& each : said) {
    unanswered_[each.worker].cost -= each.cost;
    --unanswered_[each.worker].requests;
  }
  return said;
}

void StoreThread::run(const std::stop_token& stop) {
  while (true) {
    Asked asked;
    {
      std::unique_lock lock(mutex_);
      if (!arrived_.wait(lock, stop, [&] { return !asked_.empty(); }) || stop.stop_requested())
        break;
      asked = std::move(asked_.front());
      asked_.pop_front();
    }
    serve(std::move(asked));
  }
  begin("files of workers to close");
  desks_.clear();  // here, where files may take long to close
  const std::lock_guard lock(mutex_);
  ended_ = true;
  end_.notify_one();
}

void StoreThread::begin(std::string what) {
  const std::lock_guard lock(mutex_);
  under_way_ = std::move(what);
  since_ = Clock::now();
}

void StoreThread::serve(Asked asked) {
  if (!asked.request) {
    begin(kerf::format("files of worker {} to close", asked.worker));
    desks_.erase(asked.worker);
    return;
  }
  auto& desk = desks_.try_emplace(asked.worker, std::in_place, asked.worker, rules_).first->second;
  if (!desk) return;
  begin(kerf::format("{}, which worker {} uses", desk->path_of(*asked.request), asked.worker));
  Said said{.worker = asked.worker, .answer = {}, .cost = asked.cost};
  try {
    said.answer = desk->answer(*asked.request);
  } catch (const Error& error) {
    desk.reset();
    said.breach = error;
  } catch (const std::exception& error) {
    desk.reset();
    said.breach = Error(ErrorCode::kInternal, error.what());
  }
  say(std::move(said));
}

void StoreThread::say(Said said) {
  {
    const std::lock_guard lock(mutex_);
    said_.push_back(std::move(said));
  }
  answered_();
}

}  // namespace kerf::runtime
