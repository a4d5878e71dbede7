// What a search for a schedule is about: stages of known costs, a worker or group each, and how
// many micro-batches each may keep. Rows are words: of each stage the kinds of its actions (F, I,
// W) in their order; the n-th F is that of micro-batch n. Plain values, pure functions.
#pragma once

#include <vector>

#include "partitioner/stage_graph.h"
#include "schedmp/unfold.h"

namespace kerf::schedmp {

using Word = std::vector<ActionKind>;

// How far sums of the same times may be apart, as a fraction.
inline constexpr double kRounding = 1e-9;

struct SearchProblem {
  partitioner::StageGraph graph;
  int micro_batches = 1;
  std::vector<StageCosts> costs;  // by stage
  double transfer = 0;            // of a message between stages
  std::vector<int> keep;          // by stage: micro-batches whose F is done and whose W is not

  int stages() const { return graph.stages(); }
  double work(int stage) const;  // of all micro-batches
};

// What no schedule of the problem can take less than: the most, over the stages, of three sums. A
// stage begins once its first micro-batch is there; until that one's gradient can be back it can do
// no more than the forwards that it may keep; and behind its last input gradient come those of the
// stages before it, while of its weight gradients only as many as it may keep can be left.
double least_makespan(const SearchProblem& problem);

// Whether the word has every action, none before what it builds on, and keeps no more than it may.
bool is_legal(const Word& word, int micro_batches, int keep);

}  // namespace kerf::schedmp
