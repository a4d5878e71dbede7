// What a trace shows beside the spans that workers recorded: what was predicted, which action sends
// to which, and the memory that the actions hold. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/report/traced.h"
#include "schedmp/interpreter.h"

namespace kerf::apps {

// Messages, from the action that sends to the one that receives: those of which both ends are in
// the trace.
void draw_messages(std::vector<runtime::WorkerTrace>& traces);

// A step as it was simulated, from `begin_ns` on, as rows of their own.
struct PredictedStep {
  const schedmp::Timeline& timeline;
  int64_t step = 0;
  int64_t begin_ns = 0;
};
void draw_predicted(std::vector<runtime::WorkerTrace>& traces, const PredictedStep& predicted);

// A worker's memory in use: regions that its actions take as they begin, and give back as they end,
// on top of all that is there throughout: `peak` was proved of both. `rows`: of shown actions.
struct UsedMemory {
  std::vector<schedmp::RegionUse> use;  // by worker, of its lists
  std::vector<int64_t> peak_bytes;      // by worker
};
void draw_memory(std::vector<runtime::WorkerTrace>& traces, const UsedMemory& memory,
                 const std::vector<std::vector<size_t>>& place, const std::string& name,
                 const std::vector<std::vector<schedmp::Moment>>& rows, int64_t begin_ns);

}  // namespace kerf::apps
