// A step that was traced: action by action what it was predicted to take and what it took, and
// where the idle time of each worker goes. Part of a run's record; made by apps/report/traced.h.
//
// Plain values; no threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf::apps {

struct TracedStep {
  // Seconds from the step's start: from when an action first computes or copies to its end, and
  // what of that computes or copies.
  struct Times {
    double begin = 0;
    double end = 0;
    double busy = 0;
  };
  struct Done {
    std::string action;  // "2F0"
    bool priced = true;  // the prediction knows what it takes; of updates it does not
    Times predicted;
    Times measured;
  };
  // Seconds that a worker does nothing until the last action of a micro-batch ends; of a step that
  // goes on, until it begins the next.
  struct Idle {
    double fill = 0;           // before its first action
    double dependency = 0;     // for what others have yet to compute
    double communication = 0;  // for what is under way
    double imbalance = 0;      // as others have more to do
    double within = 0;         // within its actions: for what they exchange
    double drain = 0;          // after its last action
    double total() const { return fill + dependency + communication + imbalance + within + drain; }
  };
  struct Worker {
    int worker = 0;
    Idle predicted;
    Idle measured;
    std::vector<Done> actions;  // in the order of its row
  };
  struct Missed {
    int worker = 0;
    std::string action;
    double predicted_seconds = 0;
    double measured_seconds = 0;
    std::optional<double> ratio;  // empty: it was to take no time
    bool operator==(const Missed&) const = default;
  };

  int64_t step = 0;  // from 0: of those that were traced whole, the one that took the median time
  // Until the last action of a micro-batch ends; of a step that goes on, in the longest row.
  double predicted_seconds = 0;
  double measured_seconds = 0;
  std::vector<Worker> workers;

  // The ten priced actions whose busy time is farthest from the predicted one, farthest first.
  std::vector<Missed> missed() const;
};

// What an earlier writer could not have meant: throws Error{kUsage} at `where`.
void check_traced(const TracedStep& traced, size_t workers, const std::string& where);

template <class Fields>
void fields(Fields& f, TracedStep::Times& times) {
  f("begin", times.begin);
  f("end", times.end);
  f("busy", times.busy);
}

template <class Fields>
void fields(Fields& f, TracedStep::Done& done) {
  f("action", done.action);
  f("priced", done.priced);
  f("predicted", done.predicted);
  f("measured", done.measured);
}

template <class Fields>
void fields(Fields& f, TracedStep::Idle& idle) {
  f("fill", idle.fill);
  f("dependency", idle.dependency);
  f("communication", idle.communication);
  f("imbalance", idle.imbalance);
  f("within", idle.within);
  f("drain", idle.drain);
  f.derived("total", idle.total());
}

template <class Fields>
void fields(Fields& f, TracedStep::Worker& worker) {
  f("worker", worker.worker);
  f("predicted_idle", worker.predicted);
  f("measured_idle", worker.measured);
  f("actions", worker.actions);
}

template <class Fields>
void fields(Fields& f, TracedStep::Missed& missed) {
  f("worker", missed.worker);
  f("action", missed.action);
  f("predicted_seconds", missed.predicted_seconds);
  f("measured_seconds", missed.measured_seconds);
  f("ratio", missed.ratio);
}

template <class Fields>
void fields(Fields& f, TracedStep& traced) {
  f("step", traced.step);
  f("predicted_seconds", traced.predicted_seconds);
  f("measured_seconds", traced.measured_seconds);
  f("workers", traced.workers);
  f.derived("missed", traced.missed());
}

}  // namespace kerf::apps
