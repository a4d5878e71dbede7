#include "partitioner/cuts/every_chain.h"

namespace kerf::partitioner {
namespace {

// Every beginning of a chain leaves a unit for each stage to come, so that none is in vain.
class EveryChain {
 public:
  EveryChain(const Ideals& ideals, int units, size_t most)
      : ideals_(ideals), units_(units), most_(most) {}

  // Whether there were not too many.
  bool divide(int from, int units_had, int stages) {
    if (stages == 1) {
      if (found_.size() == most_) return false;
      found_.push_back(now_);
      found_.back().push_back(ideals_.size() - 1);
      return true;
    }
    return grow(from, -1, units_had, stages);
  }
  std::vector<Chain> take() { return std::move(found_); }

 private:
  // A stage by units of ascending rank, so that each end of it comes once.
  bool grow(int ideal, int rank, int units_had, int stages) {
    if (units_had + stages > units_) return true;
    for (const Ideals::Step& step : ideals_.steps(ideal)) {
      if (ideals_.rank(step.unit) < rank) continue;
      now_.push_back(step.ideal);
      const bool few = divide(step.ideal, units_had + 1, stages - 1);
      now_.pop_back();
      if (!few || !grow(step.ideal, ideals_.rank(step.unit), units_had + 1, stages)) return false;
    }
    return true;
  }

  const Ideals& ideals_;
  const int units_;
  const size_t most_;
  Chain now_;
  std::vector<Chain> found_;
};

}  // namespace

std::optional<std::vector<Chain>> every_chain(const Ideals& ideals, int units, int stages,
                                              size_t most) {
  if (stages > units) return std::vector<Chain>();
  EveryChain every(ideals, units, most);
  if (!every.divide(0, 0, stages)) return std::nullopt;
  return every.take();
}

}  // namespace kerf::partitioner
