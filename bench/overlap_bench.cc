// Does the data plane move while workers compute? Worker 0 sends a tensor each step, worker 1
// receives it and computes for twice as long as the tensor takes on its way alone.
//
//   overlap_bench [--rounds N] [--steps N] [--json]
//
//   worker 0  | compute | compute | compute          a step is as long as its computing if the next
//   the way        | copy |  | copy |  | copy |      tensor is in its slot by then, half as long
//   worker 1            | compute | compute | ...    again if nothing moves meanwhile
//
// Kernels sleep, as the host's thread does while a GPU works; or they spin, as a CPU's kernels do:
// then the copying has no processor of its own, and what is told is what a step loses to it. A
// step's ratio is to its computing, the longer of the two; medians over rounds.
#include <algorithm>
#include <cstdlib>
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

// One slot to compute into, one to compute from, and one under way.
constexpr Lane kLane{.slot_bytes = size_t{16} << 20, .slots = 3};
constexpr int kWarmUp = 4;

enum class Kernel { kNone, kSleeps, kSpins };

struct Work {
  TransportKind kind{};
  int steps = 0;
  Kernel kernel = Kernel::kNone;
  std::chrono::duration<double> computing{};
};

void compute(const Work& work) {
  const auto end = after(std::chrono::duration_cast<Clock::duration>(work.computing));
  if (work.kernel == Kernel::kSleeps) std::this_thread::sleep_until(end);
  if (work.kernel == Kernel::kSpins)
    while (Clock::now() < end) {
    }
}

// Tells the other side how long its steps took.
void receive(const Work& work, int socket) {
  const auto endpoint = open_side(work.kind, 1, kLane, socket);
  Clock::time_point begin;
  for (int i = 0; i < kWarmUp + work.steps; ++i) {
    if (i == kWarmUp) begin = Clock::now();
    const auto view = endpoint->receiver(0).receive(after(kPatience));
    KERF_CHECK(view.has_value());
    compute(work);
    endpoint->receiver(0).release(*view);
  }
  tell(socket, std::to_string(seconds_since(begin) / work.steps));
  hear(socket);  // the sender has all credits
}

// Seconds a step.
double time_steps(const Work& work) {
  const Child child([&](int socket) { receive(work, socket); });
  const auto endpoint = open_side(work.kind, 0, kLane, child.socket());
  for (int i = 0; i < kWarmUp + work.steps; ++i) {
    const auto slot = endpoint->sender(1).acquire(0, kLane.slot_bytes, after(kPatience));
    KERF_CHECK(slot.has_value());
    compute(work);
    endpoint->sender(1).commit(*slot, {i, 0, 0, 0});
  }
  KERF_CHECK(endpoint->drain(after(kPatience)));
  const double result = std::stod(hear(child.socket()));
  tell(child.socket(), "done");
  return result;
}

struct Row {
  TransportKind kind{};
  std::vector<double> copies{};  // seconds alone
  std::vector<double> sleeping{};
  std::vector<double> spinning{};
};

void measure(Row& row, int steps) {
  Work work{.kind = row.kind, .steps = steps};
  const double copy = time_steps(work);
  work.computing = std::chrono::duration<double>(2 * copy);
  work.kernel = Kernel::kSleeps;
  const double sleeping = time_steps(work);
  work.kernel = Kernel::kSpins;
  const double spinning = time_steps(work);
  row.copies.push_back(copy);
  row.sleeping.push_back(sleeping / (2 * copy));
  row.spinning.push_back(spinning / (2 * copy));
}

void print(const Row& row) {
  const auto range = [](const std::vector<double>& values) {
    const auto [least, most] = std::ranges::minmax(values);
    return kerf::format("{:.2f} [{:.2f} .. {:.2f}]", median(values), least, most);
  };
  fmt::print(
      "{:5}  a tensor alone {:5.2f} ms;  a step of its computing: kernels sleep {}, <= 1.1;  "
      "spin {}\n",
      to_string(row.kind), 1e3 * median(row.copies), range(row.sleeping), range(row.spinning));
}

Json to_json(const Row& row) {
  return {{"tensor_seconds", row.copies},
          {"sleeping_ratios", row.sleeping},
          {"spinning_ratios", row.spinning}};
}

}  // namespace
}  // namespace kerf::bench

int main(int argc, char** argv) {
  using kerf::bench::Row;
  int rounds = 5;
  int steps = 60;
  bool as_json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--json") {
      as_json = true;
    } else if (flag == "--rounds" && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else if (flag == "--steps" && i + 1 < argc) {
      steps = std::max(1, std::atoi(argv[++i]));
    } else {
      fmt::print(stderr, "usage: overlap_bench [--rounds N] [--steps N] [--json]\n");
      return 2;
    }
  }
  std::vector<Row> rows{{.kind = kerf::runtime::TransportKind::kIpc},
                        {.kind = kerf::runtime::TransportKind::kTcp}};
  for (int i = 0; i < rounds; ++i)
    for (Row& row : rows) kerf::bench::measure(row, steps);
  kerf::Json json = kerf::Json::object();
  for (const Row& row : rows) {
    if (as_json) json[std::string(to_string(row.kind))] = kerf::bench::to_json(row);
    if (!as_json) kerf::bench::print(row);
  }
  if (as_json) fmt::print("{}\n", json.dump(2));
  return 0;
}
