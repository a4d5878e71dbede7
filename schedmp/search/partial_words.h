// Words in the making: what each stage may do next, and from when on. What a search that builds
// words action by action goes by. Used by one thread.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "schedmp/search/problem.h"

namespace kerf::schedmp {

class PartialWords {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr std::array kKinds = {ActionKind::kForward, ActionKind::kInputGradient,
                                        ActionKind::kWeightGradient};

  explicit PartialWords(const SearchProblem& problem);  // which outlives it

  // From when on the stage may do its next action of this kind; kNever: not before others act, or
  // it does another itself.
  double start(int stage, ActionKind kind) const;
  double cost(int stage, ActionKind kind) const;
  // When the stage is done with what it has.
  double now(int stage) const { return stages_[static_cast<size_t>(stage)].now; }
  // Of its kinds, what is left for it to do.
  double left(int stage) const;
  bool complete() const { return actions_left_ == 0; }

  void take(int stage, ActionKind kind);  // which may start
  void take_back();                       // the last of those

  const std::vector<Word>& words() const { return words_; }
  // All that decides what can follow: where each stage is, and the ends that others still wait for.
  // The first are counts, equal or not; of the others less is never worse.
  std::vector<int> counts() const;
  std::vector<double> times() const;

 private:
  struct Stage {
    double now = 0;
    int weights = 0;                        // weight gradients done
    std::vector<double> forward, gradient;  // ends so far, by micro-batch
  };
  struct Taken {
    int stage = 0;
    double before = 0;  // what `now` was
  };
  const Stage& at_(int stage) const { return stages_[static_cast<size_t>(stage)]; }
  double arrival(const std::vector<int>& others, std::vector<double> Stage::*ends,
                 size_t micro_batch) const;

  const SearchProblem& problem_;
  std::vector<Stage> stages_;
  std::vector<Word> words_;
  std::vector<Taken> taken_;
  int64_t actions_left_;
};

}  // namespace kerf::schedmp
