#include "apps/main/remote_workers.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>

#include "apps/main/answer.h"
#include "apps/report/terminal.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

using namespace std::chrono_literals;

constexpr size_t kLongestLine = 4096;  // what is longer is shown as several
constexpr auto kToLeave = 5s;          // with workers that were told to leave
constexpr auto kToDie = 500ms;         // for an ssh that was told to end
constexpr auto kLook = 1s;
constexpr auto kBreath = 2s;  // between two tries to reach a host

// No question is asked, and a host that is gone is noticed.
const std::vector<std::string>& ssh_flags() {
  static const std::vector<std::string> flags{"-oBatchMode=yes", "-oConnectTimeout=30",
                                              "-oServerAliveInterval=5", "-oServerAliveCountMax=3"};
  return flags;
}

// What a person can do about an ssh that ended so.
std::string way_out(const RemoteHost& host, const std::string& how) {
  if (how == "exit code 255")
    return format("; `ssh {} true` has to work without asking anything", host.host);
  if (how == "exit code 126" || how == "exit code 127")
    return "; kerf=PATH on its line says where the same executable is over there";
  return {};
}

// Rather than that nothing can be started there.
bool may_be_away(const std::string& how) {
  return how == "exit code 255" || how.starts_with("signal ");
}

}  // namespace

std::vector<std::string> ssh_command(const RemoteHost& host, int number, const std::string& address,
                                     const RemoteOptions& options) {
  // Its keeper is the run, by another ssh.
  std::vector<std::string> words{host.kerf.empty() ? options.kerf : host.kerf, "worker",
                                 "--no-restart", "--connect", address};
  const std::string& keys = host.keys.empty() ? options.keys : host.keys;
  if (!keys.empty()) words.insert(words.end(), {"--keys", keys});
  if (!host.device.empty()) words.insert(words.end(), {"--device", host.device});
  if (number < options.workers) words.insert(words.end(), {"--index", std::to_string(number)});
  std::string there = "exec";
  for (const std::string& word : words) there += " " + quoted(word);
  std::vector<std::string> command{options.ssh};
  command.insert(command.end(), ssh_flags().begin(), ssh_flags().end());
  command.insert(command.end(), {host.host, there});
  return command;
}

RemoteWorkers::RemoteWorkers(std::vector<RemoteHost> hosts, RemoteOptions options,
                             std::shared_ptr<runtime::Interrupt> end)
    : options_(std::move(options)), end_(std::move(end)) {
  for (RemoteHost& host : hosts) {
    const int number = static_cast<int>(lines_.size());
    lines_.push_back({.host = std::move(host), .number = number});
  }
  relay_ = std::jthread([this](const std::stop_token& stop) { relay(stop); });
}

RemoteWorkers::~RemoteWorkers() {
  relay_.request_stop();
  news_.signal();
  relay_.join();
  for (Line& line : lines_)
    if (line.ssh) line.ssh->kill(SIGTERM);
  const auto deadline = runtime::after(kToDie);
  for (Line& line : lines_)
    if (line.ssh) std::ignore = line.ssh->wait(deadline);
}

void RemoteWorkers::start(const std::string& address) {
  const std::lock_guard lock(mutex_);
  phase_ = Phase::kStarting;
  address_ = address;
  ++round_;
  here_ = 0;
  news_.signal();
}

void RemoteWorkers::are_here(int workers) {
  const std::lock_guard lock(mutex_);
  here_ = workers;
  if (workers == options_.workers) phase_ = Phase::kRunning;
}

void RemoteWorkers::let_leave() {
  std::unique_lock lock(mutex_);
  phase_ = Phase::kLeaving;
  all_ended_.wait_for(lock, kToLeave, [this] { return running_ == 0; });
}

std::optional<Error> RemoteWorkers::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void RemoteWorkers::relay(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    start_missing();
    wait_for_news();
    for (Line& line : lines_) {
      if (!line.ssh) continue;
      const auto how = line.ssh->ended();  // before what it printed, so that all of that is here
      show_output(line);
      if (how) note_end(line, *how);
    }
  }
}

void RemoteWorkers::wait_for_news() const {
  std::vector<int> descriptors{news_.descriptor()};
  for (const Line& line : lines_) {
    if (line.ssh) descriptors.push_back(line.ssh->descriptor());
    if (line.output.number() >= 0) descriptors.push_back(line.output.number());
  }
  runtime::poll_readable(descriptors, runtime::after(kLook));
  std::ignore = news_.taken();
}

bool RemoteWorkers::is_to_start(const Line& line) const {
  if (line.ssh) return false;
  if (line.round != round_) return true;
  return line.waits && phase_ == Phase::kStarting && runtime::Clock::now() >= line.not_before;
}

// Behind a loss a host may be on its way up. In the first round it should be there: but where some
// have come, this one may have been among them, and was lost, which the crew will say.
bool RemoteWorkers::may_come_again(const Line& line, const std::string& how) const {
  return may_be_away(how) && (round_ > 1 || (here_ > 0 && line.tries == 1));
}

// Each once in a round of start(), as soon as its last ssh has ended; some are tried again.
void RemoteWorkers::start_missing() {
  const std::lock_guard lock(mutex_);
  const bool starts = phase_ == Phase::kStarting ||
                      (phase_ == Phase::kRunning && options_.others_may_come);  // as a spare
  if (!starts || failure_) return;
  for (Line& line : lines_) {
    if (!is_to_start(line)) continue;
    if (std::exchange(line.round, round_) != round_) line.tries = 0;
    ++line.tries;
    line.waits = false;
    launch(line, address_);
    if (failure_) return;
  }
}

void RemoteWorkers::launch(Line& line, const std::string& address) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(Error(ErrorCode::kUnavailable, format("no pipe: {}", std::strerror(errno))));
  line.output = runtime::OpenFile(ends[0]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);  // ours alone: ssh may wait for us
  const runtime::OpenFile theirs(ends[1]);
  line.last_words.clear();
  try {
    line.ssh = runtime::Process::spawn_beside(
        ssh_command(line.host, line.number, address, options_), theirs.number());
    ++running_;
  } catch (const Error& error) {
    line.output.close();  // nobody writes into it
    fail(
        Error(error.code(), error.message() + "; KERF_SSH names another program", line.host.where));
  }
}

void RemoteWorkers::show_output(Line& line) {
  std::array<char, 4096> bytes{};
  while (line.output.number() >= 0) {
    const ssize_t count = ::read(line.output.number(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return line.output.close();
    for (const char letter : std::string_view(bytes.data(), static_cast<size_t>(count))) {
      if (letter != '\n') line.unfinished += letter;
      if (letter == '\n' || line.unfinished.size() == kLongestLine)
        show(line, std::exchange(line.unfinished, {}));
    }
  }
}

void RemoteWorkers::show(Line& line, const std::string& text) {
  std::string shown = printable(text.ends_with('\r') ? text.substr(0, text.size() - 1) : text);
  if (shown.empty()) return;
  tell_line(format("{}: {}", line.host.host, shown));
  line.last_words = std::move(shown);
}

void RemoteWorkers::note_end(Line& line, const std::string& how) {
  if (!line.unfinished.empty()) show(line, std::exchange(line.unfinished, {}));
  line.output.close();
  line.ssh.reset();
  const std::lock_guard lock(mutex_);
  if (--running_ == 0) all_ended_.notify_all();
  const bool starting = phase_ == Phase::kStarting && line.round == round_;
  line.waits = starting && may_come_again(line, how);
  line.not_before = runtime::after(kBreath);
  if (starting && !line.waits && (round_ == 1 || !options_.others_may_come))
    fail(
        Error(ErrorCode::kUnavailable,
              format("{}: no worker came to be: ssh ended with {}{}{}{}", line.host.host, how,
                     line.last_words.empty() ? "" : ": ", line.last_words, way_out(line.host, how)),
              line.host.where));
  else if (phase_ != Phase::kLeaving && how != "exit code 0")
    tell_notes({format("{}: its ssh ended with {}{}", line.host.host, how,
                       line.waits ? "; it is tried again" : "")});
}

void RemoteWorkers::fail(Error error) {
  if (failure_ || end_->asked() || end_->raised()) return;  // as somebody has ended the run
  failure_ = std::move(error);
  end_->raise();
}

}  // namespace kerf::apps
