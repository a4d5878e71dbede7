// The built-in schedules, as tests ask for them.
#pragma once

#include <string>
#include <vector>

#include "runtime/error.h"
#include "schedmp/schedules.h"

namespace kerf::tests {

// Whether there is one of so many workers and micro-batches: pipelines of opposite ways take an
// even number of workers, and 2BW as many micro-batches as a stage is ahead.
inline bool takes(const std::string& name, int workers, int micro_batches) {
  if (schedmp::replicas_of(name) == 2) return workers % 2 == 0;
  return name != "pipedream-2bw" || micro_batches >= workers - 1;
}

inline std::vector<std::string> schedules_of(int workers, int micro_batches) {
  std::vector<std::string> names = schedmp::schedule_names();
  std::erase_if(names,
                [&](const std::string& name) { return !takes(name, workers, micro_batches); });
  return names;
}

// Those that run with one worker's bits: of one replica, with an end.
inline std::vector<std::string> schedules_of_one_replica() {
  std::vector<std::string> names = schedmp::schedule_names();
  std::erase_if(names, [](const std::string& name) {
    return schedmp::replicas_of(name) > 1 || schedmp::is_endless(name);
  });
  return names;
}

inline std::vector<std::string> training_schedules() {
  std::vector<std::string> names = schedules_of_one_replica();
  std::erase_if(names, [](const std::string& name) { return !schedmp::trains(name); });
  return names;
}

// How the text of a schedule is refused.
inline std::string complaint(const std::string& text) {
  try {
    schedmp::parse_schedule(text, "s.txt");
  } catch (const Error& error) {
    return error.code() == ErrorCode::kUsage ? error.what() : "refused with another code";
  }
  return "accepted";
}

// Of one worker a stage, or as many stages as it has by itself.
inline schedmp::Schedule made(const std::string& name, int workers, int micro_batches) {
  return schedmp::make_schedule(name, schedmp::chain_of_shape(name, workers), micro_batches);
}

}  // namespace kerf::tests
