// What an executor has for steps of training, and again for evaluations: parts, the rows that run
// them, and what walks them.
#include <algorithm>
#include <set>
#include <utility>

#include "partitioner/list_uses.h"
#include "schedmp/training/executor.h"

namespace kerf::schedmp {
namespace {

using partitioner::InstructionList;
using partitioner::Part;

// Leaves of a part the lists that run. Schedules have I and W together or apart: the rest is up to
// half of all instructions, and what vectors have room for beyond their size is as much again.
void keep_busy(const std::set<const InstructionList*>& busy, Part& part) {
  for (InstructionList* list : lists_of(part))
    if (busy.contains(list))
      list->instructions.shrink_to_fit();
    else
      *list = {};
  part.locals.shrink_to_fit();
  part.calls.shrink_to_fit();
}

}  // namespace

Executor::Purpose::Purpose(Work given, int worker, Machine& machine)
    : work(std::move(given)),
      steps(work.schedule),
      parts(parts_of(work.parts, worker)),
      arena(parts, region_needs(parts, steps, worker)),
      interpreter(parts, steps, machine) {
  std::set<const InstructionList*> busy;
  for (const bool fills : {true, false})
    for (const bool drains : {true, false}) {
      if (!steps.go_on() && !(fills && drains)) continue;
      Row& row = rows[{fills, drains}];
      row.runs = steps.runs(worker, {fills, drains});
      for (const ListRun& run : row.runs) {
        row.names.push_back(to_string(run.action));
        for (const Part& part : work.parts)
          if (run.list != nullptr && part.stage == run.action.stage) busy.insert(&(part.*run.list));
      }
    }
  for (Part& part : work.parts) keep_busy(busy, part);  // the arena was planned of all lists
  for (const ListRun& run : rows[Ramps{}].runs) {
    if (run.list != &Part::apply) continue;
    ++updates[run.action.stage];
    takers[run.action.stage].resize(static_cast<size_t>(run.micro_batch) + 1, &run);
    weights.try_emplace(run.action.stage, steps.under_way());
  }
  for (const Part* part : parts) {
    std::vector<int>& of_part = roots.emplace_back();
    for (size_t i = 0; i < part->locals.size(); ++i)
      of_part.push_back(root_of(*part, static_cast<int>(i)));
  }
}

}  // namespace kerf::schedmp
