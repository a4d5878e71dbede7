#include "schedmp/search/refined_words.h"

#include <chrono>
#include <cmath>
#include <random>

#include "partitioner/at.h"
#include "schedmp/search/word_times.h"

namespace kerf::schedmp {

using partitioner::at;

namespace {

// Of the first makespan: what a move may cost at first, and at last.
constexpr double kHot = 5e-3;
constexpr double kCold = 1e-3 * kHot;
constexpr double kMeanDistance = 3;      // of a move, in actions
constexpr int kMovesBetweenLooks = 256;  // at the clock

class Annealing {
 public:
  Annealing(const SearchProblem& problem, std::vector<Word> words, double bound, double seconds,
            uint64_t seed)
      : problem_(problem),
        times_(problem),
        words_(std::move(words)),
        best(words_),
        takes_(times_.makespan(words_)),
        least_(takes_),
        first_(takes_),
        bound_(bound),
        seconds_(seconds),
        random_(seed) {}

  void run(const std::function<void(double)>& sign) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t moves = 0; least_ > bound_; ++moves) {
      if (moves % kMovesBetweenLooks == 0) {
        const std::chrono::duration<double> over = std::chrono::steady_clock::now() - start;
        if (over.count() >= seconds_) return;
        const double part = over.count() / seconds_;
        heat_ = first_ * kHot * std::pow(kCold / kHot, part);
        sign(part);
      }
      move();
    }
  }

 private:
  double uniform() { return (static_cast<double>(random_() >> 11) + 0.5) * 0x1.0p-53; }

  void move() {
    const auto stage = static_cast<size_t>(random_() % words_.size());
    Word& word = words_[stage];
    const auto from = static_cast<int64_t>(random_() % word.size());
    const auto distance = 1 + static_cast<int64_t>(-std::log(uniform()) * kMeanDistance);
    const int64_t to = uniform() < 0.5 ? from - distance : from + distance;
    if (to < 0 || to >= std::ssize(word)) return;
    before_ = word;
    const ActionKind kind = word[static_cast<size_t>(from)];
    word.erase(word.begin() + from);
    word.insert(word.begin() + to, kind);
    if (word == before_) return;
    if (is_legal(word, problem_.micro_batches, problem_.keep[stage]) && accept()) return;
    word = before_;
  }

  bool accept() {
    const double takes = times_.makespan(words_);
    if (!(takes <= takes_ || uniform() < std::exp((takes_ - takes) / heat_))) return false;
    takes_ = takes;
    if (takes < least_) {
      least_ = takes;
      best = words_;
    }
    return true;
  }

  const SearchProblem& problem_;
  WordTimes times_;
  std::vector<Word> words_;

 public:
  std::vector<Word> best;

 private:
  double takes_, least_, first_;
  double bound_, seconds_;
  double heat_ = 0;
  std::mt19937_64 random_;
  Word before_;
};

}  // namespace

std::vector<Word> refined_words(const SearchProblem& problem, std::vector<Word> words, double bound,
                                double seconds, uint64_t seed,
                                const std::function<void(double)>& sign) {
  Annealing annealing(problem, std::move(words), bound, seconds, seed);
  annealing.run(sign);
  return std::move(annealing.best);
}

}  // namespace kerf::schedmp
