// Schedules beside one another: what each was simulated to take, what it took, and its memory; as a
// table and as JSON. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/json.h"

namespace kerf::apps {

struct BenchedSchedule {
  std::string name = {};
  // Why it did not run, or was not even simulated; empty: it ran, or nothing was to run.
  std::string why_not = {};
  int stages = 0;
  int micro_batches = 0;
  std::vector<int64_t> given_sizes = {};         // rows of each, where they are not even ones
  int in_flight = 0;                             // micro-batches, on the worker that keeps most
  std::optional<int64_t> peak_bytes = {};        // of the fullest worker, as proved
  std::optional<double> simulated_seconds = {};  // of a step
  double bubble = 0;                        // simulated: of all workers' time until the last action
  std::vector<double> measured_steps = {};  // seconds, in turn

  std::optional<double> measured_seconds() const;  // their median
};

struct ScheduleBench {
  std::string model;
  std::string data;  // empty: nothing ran
  int workers = 0;
  int64_t batch = 0;
  int64_t steps = 0;  // measured of each
  std::vector<BenchedSchedule> own = {}, equal = {};
  int64_t cap = 0;  // of each worker, where memory is equal
  std::string cap_of = {};
  std::vector<int64_t> given_sizes = {};  // rows of each micro-batch, where a person said
};

// Pairs (first, second) of which the first was simulated to be shorter, by more than this, and was
// not. Of those that ran.
inline constexpr double kTellsApart = 0.03;
std::vector<std::pair<std::string, std::string>> wrong_order(
    const std::vector<BenchedSchedule>& all);
// By what they took, else as simulated; those that were not even simulated come last.
void sort_by_time(std::vector<BenchedSchedule>& all);

Json to_json(const ScheduleBench& bench);
std::string text_of(const ScheduleBench& bench, bool colour);

}  // namespace kerf::apps
