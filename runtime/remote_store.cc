#include "runtime/remote_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/wire.h"

namespace kerf::runtime {
namespace {

using Answers = RemoteStore::Answers;

constexpr uint64_t kReadAhead = uint64_t{1} << 20;  // at most, of who reads on where it stopped

std::optional<Error> failure_in(const Answers& answers) {
  if (!answers.answer || answers.answer->code < 0) return {};
  const StoreAnswer& told = *answers.answer;
  const bool known = told.code <= static_cast<int32_t>(ErrorCode::kInternal);
  return Error(known ? static_cast<ErrorCode>(told.code) : ErrorCode::kInternal, told.message,
               told.where);
}

// A number for a file at the scheduler, which is closed there when this ends.
class FileNumber {
 public:
  explicit FileNumber(RemoteStore& store) : store_(&store), number_(store.take_number()) {}
  FileNumber(FileNumber&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)), number_(other.number_) {}
  FileNumber& operator=(FileNumber&&) = delete;
  ~FileNumber() {
    if (store_ != nullptr) store_->close(number_);
  }
  operator int32_t() const { return number_; }

 private:
  RemoteStore* store_;
  int32_t number_;
};

class RemoteReadable final : public ReadableFile {
 public:
  RemoteReadable(RemoteStore& store, FileNumber number, std::string origin, uint64_t bytes)
      : store_(store),
        number_(std::move(number)),
        origin_(std::move(origin)),
        what_("read " + origin_),
        bytes_(bytes) {}

  const std::string& origin() const override { return origin_; }
  uint64_t bytes() const override { return bytes_; }

  void read(uint64_t first, std::span<std::byte> to, ErrorCode code) override {
    if (first > bytes_ || to.size() > bytes_ - first)
      throw Error(code,
                  format("it has no byte {}; it had {} when it was opened", std::max(first, bytes_),
                         bytes_),
                  origin_);
    if (first != next_) {
      pieces_.clear();
      asked_ = first;
      run_ = 0;
    }
    // As much as was read on so far, and anew when half of it is used up: small reads are few
    // requests.
    const uint64_t ahead = std::min(run_, kReadAhead);
    next_ = first + to.size();
    run_ += to.size();
    const uint64_t until = asked_ < *next_ + ahead / 2 ? std::min(bytes_, *next_ + ahead) : asked_;
    while (!to.empty()) {
      ask(until);
      const Piece& piece = pieces_.front();
      const std::string& bytes = bytes_of(piece, code);
      const size_t begin = first - piece.place;
      const size_t count = std::min(to.size(), bytes.size() - begin);
      std::memcpy(to.data(), bytes.data() + begin, count);
      to = to.subspan(count);
      first += count;
      if (begin + count == bytes.size()) pieces_.pop_front();
    }
  }

 private:
  struct Piece {
    uint64_t place = 0;
    uint32_t count = 0;
    std::shared_ptr<Answers> answers = std::make_shared<Answers>();
  };

  // For what lies before `until`: one piece at least where none is there, more as there is room.
  void ask(uint64_t until) {
    while (asked_ < until) {
      const auto count = static_cast<uint32_t>(std::min<uint64_t>(kStorePiece, until - asked_));
      StoreRequest request{
          .word = StoreWord::kRead, .file = number_, .place = asked_, .count = count};
      if (!pieces_.empty() && !store_.has_room(cost_of(request))) return;
      const Piece& piece = pieces_.emplace_back(Piece{asked_, count});
      asked_ += count;
      store_.ask(std::move(request), piece.answers, what_);
    }
  }

  const std::string& bytes_of(const Piece& piece, ErrorCode code) {
    store_.wait(*piece.answers, what_);
    if (const auto failure = failure_in(*piece.answers)) {
      next_.reset();  // nothing goes on from here
      throw Error(code, failure->message(), failure->where());
    }
    const std::string& bytes = piece.answers->answer->bytes;
    if (bytes.size() != piece.count)
      throw Error(ErrorCode::kProtocol,
                  format("the scheduler sent {} bytes of {}", bytes.size(), piece.count), origin_);
    return bytes;
  }

  RemoteStore& store_;
  FileNumber number_;
  const std::string origin_;
  const std::string what_;
  const uint64_t bytes_;
  std::deque<Piece> pieces_;      // from the next place on, without a gap
  uint64_t asked_ = 0;            // the place behind them
  std::optional<uint64_t> next_;  // the place behind the last that was read
  uint64_t run_ = 0;              // bytes before it that were read on without a gap
};

class RemoteWritable final : public WritableFile {
 public:
  RemoteWritable(RemoteStore& store, FileNumber number, const std::string& path)
      : store_(store), number_(std::move(number)), what_("write " + path) {}

  // In whole pieces: who writes many small tensors sends few messages.
  void write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const std::string_view some = bytes.substr(0, kStorePiece - piece_.size());
      piece_ += some;
      bytes.remove_prefix(some.size());
      if (piece_.size() == kStorePiece) send_piece();
    }
  }
  void flush() override {
    if (!piece_.empty()) send_piece();
    store_.wait(*answers_, what_);
    check();
  }
  void settle() override { ask(StoreWord::kSettle); }
  void commit() override { ask(StoreWord::kCommit); }

 private:
  void send_piece() {
    check();
    store_.ask(
        {.word = StoreWord::kWrite, .file = number_, .bytes = std::exchange(piece_, std::string())},
        answers_, what_);
  }
  void ask(StoreWord word) {
    if (!piece_.empty()) send_piece();
    check();
    store_.ask({.word = word, .file = number_}, answers_, what_);
    flush();
  }
  void check() const {
    if (const auto failure = failure_in(*answers_)) throw Error(*failure);
  }

  RemoteStore& store_;
  FileNumber number_;
  const std::string what_;
  const std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  std::string piece_;  // that is not full
};

}  // namespace

RemoteStore::RemoteStore(std::function<void(ControlMessage)> send, int64_t window,
                         Activity& activity)
    : send_(std::move(send)), window_(window), activity_(activity) {}

void RemoteStore::deliver(std::string payload) {
  const std::lock_guard lock(mutex_);
  payloads_.push_back(std::move(payload));
  arrived_.notify_one();
}

void RemoteStore::interrupt() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  arrived_.notify_one();
}

int32_t RemoteStore::take_number() {
  const auto free = std::find(used_.begin(), used_.end(), false);
  if (free == used_.end())
    throw Error(ErrorCode::kUsage,
                format("a worker of another host opens {} files of the run at a time at most",
                       kMostStoreFiles));
  *free = true;
  return static_cast<int32_t>(free - used_.begin());
}

// In order, so that the number may be given again at once.
void RemoteStore::close(int32_t file) {
  StoreRequest request{.word = StoreWord::kClose, .file = file};
  asked_.push_back({file, cost_of(request), std::make_shared<Answers>()});
  ++asked_.back().answers->missing;
  send_({ControlType::kStore, encode(request)});
  used_[static_cast<size_t>(file)] = false;
}

void RemoteStore::ask(const StoreRequest& request, const std::shared_ptr<Answers>& answers,
                      const std::string& what) {
  const int64_t cost = cost_of(request);
  while (!has_room(cost)) take_answer(what);
  unanswered_ += cost;
  asked_.push_back({request.file, cost, answers});
  ++answers->missing;
  send_({ControlType::kStore, encode(request)});
}

void RemoteStore::wait(const Answers& answers, const std::string& what) {
  while (answers.missing > 0) take_answer(what);
}

void RemoteStore::take_answer(const std::string& what) {
  auto answer = decode<StoreAnswer>(next_payload(what));
  if (asked_.empty() || asked_.front().file != answer.file)
    throw Error(ErrorCode::kProtocol, "the scheduler answered what nobody asked");
  const Asked asked = std::move(asked_.front());
  asked_.pop_front();
  unanswered_ -= asked.cost;
  --asked.answers->missing;
  auto& kept = asked.answers->answer;
  if (!kept || kept->code == kStoreDone) kept = std::move(answer);
  activity_.progress();
}

std::string RemoteStore::next_payload(const std::string& what) {
  std::unique_lock lock(mutex_);
  if (!over_ && payloads_.empty()) {
    activity_.awaits("the scheduler to " + what, -1);
    arrived_.wait(lock, [&] { return over_ || !payloads_.empty(); });
    activity_.awaits_nothing();
  }
  if (over_) throw Error(ErrorCode::kInterrupted, "the run is over");
  std::string payload = std::move(payloads_.front());
  payloads_.pop_front();
  return payload;
}

std::unique_ptr<ReadableFile> RemoteStore::open(const std::filesystem::path& path) {
  auto file = find(path);
  if (!file)
    throw Error(ErrorCode::kUsage, format("it cannot be opened: {}", std::strerror(ENOENT)),
                path.string());
  return file;
}

std::unique_ptr<ReadableFile> RemoteStore::find(const std::filesystem::path& path) {
  FileNumber number(*this);
  const auto answers = std::make_shared<Answers>();
  const std::string what = "open " + path.string();
  ask({.word = StoreWord::kOpen, .file = number, .path = path.string()}, answers, what);
  wait(*answers, what);
  if (const auto failure = failure_in(*answers)) throw Error(*failure);
  if (answers->answer->code == kNoSuchFile) return nullptr;
  return std::make_unique<RemoteReadable>(*this, std::move(number), path.string(),
                                          answers->answer->size);
}

std::unique_ptr<WritableFile> RemoteStore::create(const std::filesystem::path& path) {
  return write({.word = StoreWord::kCreate, .path = path.string()});
}

std::unique_ptr<WritableFile> RemoteStore::extend(const std::filesystem::path& path,
                                                  uint64_t kept) {
  return write({.word = StoreWord::kExtend, .place = kept, .path = path.string()});
}

// Waits for it, so that who cannot write is told here.
std::unique_ptr<WritableFile> RemoteStore::write(StoreRequest request) {
  FileNumber number(*this);
  request.file = number;
  const auto answers = std::make_shared<Answers>();
  const std::string path = request.path;
  ask(std::move(request), answers, "open " + path);
  wait(*answers, "open " + path);
  if (const auto failure = failure_in(*answers)) throw Error(*failure);
  return std::make_unique<RemoteWritable>(*this, std::move(number), path);
}

}  // namespace kerf::runtime
