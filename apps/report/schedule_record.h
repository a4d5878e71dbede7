// What `kerf schedule` finds out about a schedule, for programs and for people.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/json.h"
#include "schedmp/idle.h"
#include "schedmp/kept.h"
#include "schedmp/period.h"
#include "schedmp/search/schedule_search.h"
#include "schedmp/staircase.h"
#include "schedmp/verify.h"
#include "schedmp/versions.h"

namespace kerf::apps {

struct ScheduleRecord {
  schedmp::Schedule schedule;                // of an endless one a period, or two
  std::optional<schedmp::Schedule> endless;  // whose periods those are
  partitioner::StageGraph graph;             // of its stages
  schedmp::ActionCosts costs;
  schedmp::Unfolded unfolded;  // under those
  schedmp::Bubble bubble;
  std::vector<schedmp::Idle> idle;            // by worker; empty where somebody waits for ever
  std::optional<double> makespan_p95;         // where costs have jitter
  std::vector<int> peak_activations;          // by worker
  std::vector<schedmp::KeptPeak> kept_peaks;  // likewise, of a schedule that trains
  std::vector<std::vector<schedmp::Kept>>
      kept;  // likewise; empty of one that is too long to look at
  std::optional<schedmp::FoundSchedule> found;  // by a search
  double of_1f1b = 0;                           // likewise: what that would take
  bool transfers = false;                       // the file names its sends and receives
  // By stage, of one that is proved and updates weights within its steps or for ever.
  std::vector<schedmp::StageVersions> versions;
  // Of an endless one that is proved: what it takes once it is under way.
  std::optional<schedmp::Period> period;

  std::optional<bool> verified;  // empty: it is too long for that
  std::vector<std::string> problems;
  // Without a plan: what may be under way, and the least that does; -1: nothing does.
  std::optional<schedmp::Buffering> buffering;
  std::optional<int> smallest_buffer;
  std::optional<bool> safe_under_rendezvous;
  // With one: its slots and the proof.
  int slots = 0;
  std::optional<schedmp::Verdict> verdict;
};

Json to_json(const ScheduleRecord& record);
std::string text_of(const ScheduleRecord& record, bool colour);

}  // namespace kerf::apps
