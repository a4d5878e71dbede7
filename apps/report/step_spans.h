// The spans of a run, sorted by step: what was measured of each action. Pure functions.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "runtime/trace.h"
#include "schedmp/schedule.h"
#include "schedmp/simulate.h"
#include "schedmp/steps.h"

namespace kerf::apps {

// A lane shows the lists of one action that follow each other as one: an update is some five. By
// worker, of a step between two others where steps go on.
std::vector<std::vector<schedmp::Action>> shown_actions(const schedmp::Steps& steps, int workers);
void join_lists(std::vector<runtime::WorkerTrace>& traces);

// Of one step, in order; the spans are the traces'.
struct StepSpans {
  struct OfWorker {
    std::vector<const runtime::Span*> actions, operators, messages, waits;

    // The action that a span of another lane is of; null where its span was lost.
    const runtime::Span* owner(const runtime::Span& span) const;
    // What of an action it waits.
    double waited_seconds(const runtime::Span& action) const;
  };
  int64_t step = 0;
  std::vector<OfWorker> workers;

  int64_t begin_ns() const;  // when the first worker began; of a step with actions
};

// By step, of traces whose lists were joined.
std::vector<StepSpans> spans_by_step(std::span<const runtime::WorkerTrace> traces);
// Of those, the steps of `full` of which every action is there. The first is left out where there
// are others: caches are cold in it.
std::vector<StepSpans> whole_steps(std::span<const runtime::WorkerTrace> traces,
                                   const std::vector<std::vector<schedmp::Action>>& shown,
                                   const std::set<int64_t>& full);

// By worker, seconds from the step's start.
std::vector<std::vector<schedmp::Moment>> measured_rows(
    const StepSpans& step, const std::vector<std::vector<schedmp::Action>>& shown);

// Until the last action of a micro-batch ends. Of a step that goes on, whose rows begin and end one
// after the other among those of its neighbours, of the worker that takes longest.
double seconds_of(const std::vector<std::vector<schedmp::Moment>>& rows, bool goes_on);
// Of several steps, the one that took the median time.
size_t median_step(const std::vector<StepSpans>& steps,
                   const std::vector<std::vector<schedmp::Action>>& shown, bool goes_on);

}  // namespace kerf::apps
