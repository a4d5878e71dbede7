// Does the data plane move while workers compute? Worker 0 sends a tensor each step, worker 1
// receives it and computes for twice as long as the tensor takes on its way alone: tensors of
// 256 KiB to 16 MiB.
//
//   overlap_bench [--rounds N] [--json]
//
//   worker 0  | compute | compute | compute          a step is as long as its computing if the next
//   the way        | copy |  | copy |  | copy |      tensor is in its slot by then, half as long
//   worker 1            | compute | compute | ...    again if nothing moves meanwhile
//
// Kernels sleep, as the host's thread does while a GPU works; or they count, as a CPU's kernels do:
// then the copying has no processor of its own, and what is told is what a step loses to it. A
// step's ratio is to its computing, the longer of the two: for as long as that took where it sleeps
// (who sleeps wakes late), and for as long as it takes alone where it counts. Medians over rounds.
//
// 256 KiB take no longer than it takes to wake a thread that could move them (some 30 us): there is
// no goal for a step as short as that, and its time is told.
#include <sys/prctl.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/two_sides.h"
#include "runtime/error.h"
#include "runtime/json.h"

namespace kerf::bench {
namespace {

using runtime::after;
using runtime::Clock;
using runtime::Lane;
using runtime::TransportKind;

constexpr size_t kSizes[] = {size_t{256} << 10, size_t{1} << 20, size_t{4} << 20, size_t{16} << 20};
constexpr size_t kWorthAThread = size_t{1} << 20;
constexpr int kWarmUp = 4;

enum class Kernel { kNone, kSleeps, kCounts };

struct Work {
  TransportKind kind{};
  size_t bytes = 0;
  Kernel kernel = Kernel::kNone;
  std::chrono::duration<double> computing{};

  // One slot to compute into, one to compute from, and one under way.
  Lane lane() const { return {.slot_bytes = bytes, .slots = 3}; }
  int steps() const { return static_cast<int>(std::min(size_t{600}, (size_t{1} << 30) / bytes)); }
};

struct Step {
  double seconds = 0;
  double computing = 0;
};

void count(int64_t times) {
  for (int64_t i = 0; i < times; ++i) asm volatile("" : "+r"(i));  // so that the loop stays
}

// What a processor counts in a second that it has to itself.
double counts_per_second() {
  static const double rate = [] {
    constexpr int64_t kTimes = 20'000'000;
    double best = 0;
    for (int i = 0; i < 5; ++i) {
      const Clock::time_point begin = Clock::now();
      count(kTimes);
      best = std::max(best, static_cast<double>(kTimes) / seconds_since(begin));
    }
    return best;
  }();
  return rate;
}

void compute(const Work& work) {
  if (work.kernel == Kernel::kSleeps)
    std::this_thread::sleep_for(std::chrono::duration_cast<Clock::duration>(work.computing));
  if (work.kernel == Kernel::kCounts)
    count(static_cast<int64_t>(work.computing.count() * counts_per_second()));
}

// Tells the other side how long its steps took, and its computing.
void receive(const Work& work, int socket) {
  const auto endpoint = open_side(work.kind, 1, work.lane(), socket);
  Clock::time_point begin;
  double computing = 0;
  for (int i = 0; i < kWarmUp + work.steps(); ++i) {
    if (i == kWarmUp) {
      begin = Clock::now();
      computing = 0;
    }
    const auto view = endpoint->receiver(0).receive(after(kPatience));
    KERF_CHECK(view.has_value());
    const Clock::time_point begin_computing = Clock::now();
    compute(work);
    computing += seconds_since(begin_computing);
    endpoint->receiver(0).release(*view);
  }
  tell(socket,
       kerf::format("{} {}", seconds_since(begin) / work.steps(), computing / work.steps()));
  hear(socket);  // the sender has all credits
}

Step time_steps(const Work& work) {
  const Child child([&](int socket) { receive(work, socket); });
  const auto endpoint = open_side(work.kind, 0, work.lane(), child.socket());
  for (int i = 0; i < kWarmUp + work.steps(); ++i) {
    const auto slot = endpoint->sender(1).acquire(0, work.bytes, after(kPatience));
    KERF_CHECK(slot.has_value());
    compute(work);
    endpoint->sender(1).commit(*slot, {i, 0, 0, 0});
  }
  KERF_CHECK(endpoint->drain(after(kPatience)));
  Step step;
  std::istringstream(hear(child.socket())) >> step.seconds >> step.computing;
  tell(child.socket(), "done");
  return step;
}

struct Row {
  TransportKind kind{};
  size_t bytes = 0;
  std::vector<double> copies{};  // seconds alone
  std::vector<double> steps{};   // seconds, of kernels that sleep
  std::vector<double> sleeping{};
  std::vector<double> counting{};
};

void measure(Row& row) {
  counts_per_second();  // before any child begins
  Work work{.kind = row.kind, .bytes = row.bytes};
  const double copy = time_steps(work).seconds;
  work.computing = std::chrono::duration<double>(2 * copy);
  for (auto& [kernel, ratios] :
       {std::pair{Kernel::kSleeps, &row.sleeping}, std::pair{Kernel::kCounts, &row.counting}}) {
    work.kernel = kernel;
    const Step step = time_steps(work);
    const bool sleeps = kernel == Kernel::kSleeps;
    if (sleeps) row.steps.push_back(step.seconds);
    ratios->push_back(step.seconds / (sleeps ? step.computing : work.computing.count()));
  }
  row.copies.push_back(copy);
}

void print(const Row& row) {
  const auto range = [](const std::vector<double>& values) {
    const auto [least, most] = std::ranges::minmax(values);
    return kerf::format("{:.2f} [{:.2f} .. {:.2f}]", median(values), least, most);
  };
  fmt::print(
      "{:4} {:>8}  alone {:5.2f} ms, a step {:5.2f} ms;  of its computing: kernels sleep {}{};  "
      "count {}\n",
      to_string(row.kind), human_bytes(static_cast<double>(row.bytes)), 1e3 * median(row.copies),
      1e3 * median(row.steps), range(row.sleeping), row.bytes < kWorthAThread ? "" : ", <= 1.1",
      range(row.counting));
}

Json to_json(const Row& row) {
  return {{"transport", std::string(to_string(row.kind))},
          {"bytes", row.bytes},
          {"tensor_seconds", row.copies},
          {"step_seconds", row.steps},
          {"sleeping_ratios", row.sleeping},
          {"counting_ratios", row.counting}};
}

}  // namespace
}  // namespace kerf::bench

int main(int argc, char** argv) {
  using kerf::bench::Row;
  int rounds = 5;
  bool as_json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--json") {
      as_json = true;
    } else if (flag == "--rounds" && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else {
      fmt::print(stderr, "usage: overlap_bench [--rounds N] [--json]\n");
      return 2;
    }
  }
  // A sleep ends when it is to, not 50 us later as the kernel is free to; of children as well.
  KERF_CHECK(::prctl(PR_SET_TIMERSLACK, 1UL) == 0);
  std::vector<Row> rows;
  for (const size_t bytes : kerf::bench::kSizes)
    for (const auto kind : {kerf::runtime::TransportKind::kIpc, kerf::runtime::TransportKind::kTcp})
      rows.push_back({.kind = kind, .bytes = bytes});
  for (int i = 0; i < rounds; ++i)
    for (Row& row : rows) kerf::bench::measure(row);
  kerf::Json json = kerf::Json::array();
  for (const Row& row : rows) {
    if (as_json) json.push_back(kerf::bench::to_json(row));
    if (!as_json) kerf::bench::print(row);
  }
  if (as_json) fmt::print("{}\n", json.dump(2));
  return 0;
}
