#include "schedmp/search/exact_words.h"

#include <algorithm>
#include <map>

#include "schedmp/search/partial_words.h"

namespace kerf::schedmp {

namespace {

class BranchAndBound {
 public:
  BranchAndBound(const SearchProblem& problem, double below, int64_t most_choices)
      : problem_(problem), words_(problem), below_(below), choices_left_(most_choices) {
    branch();
    found.proved = choices_left_ > 0;
  }

  ExactWords found;

 private:
  // At least this long, whatever follows.
  double bound() const {
    double most = 0;
    for (int stage = 0; stage < problem_.stages(); ++stage)
      most = std::max(most, words_.now(stage) + words_.left(stage));
    return most;
  }

  // Of all that may be done next, what ends first; it is done by a stage that does nothing then
  // which begins after that.
  void branch() {
    if (choices_left_ <= 0 || bound() >= below_ * (1 - kRounding)) return;
    if (words_.complete()) {
      below_ = bound();
      found.words = words_.words();
      return;
    }
    if (is_dominated()) return;
    int stage = -1;
    ActionKind first{};
    double end = PartialWords::kNever;
    for (int each = 0; each < problem_.stages(); ++each)
      for (const ActionKind kind : PartialWords::kKinds)
        if (words_.start(each, kind) + words_.cost(each, kind) < end) {
          stage = each;
          first = kind;
          end = words_.start(each, kind) + words_.cost(each, kind);
        }
    if (stage < 0) return;
    for (const ActionKind kind : PartialWords::kKinds) {
      if (kind != first && words_.start(stage, kind) >= end) continue;
      --choices_left_;
      words_.take(stage, kind);
      branch();
      words_.take_back();
    }
  }

  // Whether the same was done before, each of it no later.
  bool is_dominated() {
    const std::vector<double> times = words_.times();
    std::vector<std::vector<double>>& seen = seen_[words_.counts()];
    for (const std::vector<double>& other : seen)
      if (std::equal(other.begin(), other.end(), times.begin(),
                     [](double a, double b) { return a <= b; }))
        return true;
    seen.push_back(times);
    return false;
  }

  const SearchProblem& problem_;
  PartialWords words_;
  double below_;
  int64_t choices_left_;
  std::map<std::vector<int>, std::vector<std::vector<double>>> seen_;
};

}  // namespace

ExactWords exact_words(const SearchProblem& problem, double below, int64_t most_choices) {
  return std::move(BranchAndBound(problem, below, most_choices).found);
}

}  // namespace kerf::schedmp
