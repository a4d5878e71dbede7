#include "schedmp/training/lbfgs_history.h"

#include <limits>

#include "runtime/error.h"

namespace kerf::schedmp {

LbfgsHistory::LbfgsHistory(int most) : most_(most) {
  KERF_CHECK(most >= 1, "a history of {}", most);
  const auto pairs = static_cast<size_t>(most);
  sy_.resize(pairs * pairs);
  yy_.resize(pairs * pairs);
  gs_.resize(pairs);
  gy_.resize(pairs);
}

bool LbfgsHistory::is_sound() const {
  const auto pairs = static_cast<size_t>(most_);
  return oldest_ >= 0 && oldest_ < most_ && count_ >= 0 && count_ <= most_ &&
         sy_.size() == pairs * pairs && yy_.size() == pairs * pairs && gs_.size() == pairs &&
         gy_.size() == pairs;
}

void LbfgsHistory::add_pair(VectorWork& work) {
  if (count_ == most_)
    oldest_ = (oldest_ + 1) % most_;
  else
    ++count_;
  const int32_t s = change_of_point(number(count_ - 1));
  const int32_t y = change_of_gradient(number(count_ - 1));
  work.set(s, kPoint);
  work.add(s, kBase, -1);
  work.set(y, kGradient);
  work.add(y, kBaseGradient, -1);
}

void LbfgsHistory::ask(VectorWork& work) const {
  work.dot(kGradient, kGradient);
  for (int age = 0; age < count_; ++age) {
    const int32_t newest = change_of_gradient(number(count_ - 1));
    const int32_t s = change_of_point(number(age));
    const int32_t y = change_of_gradient(number(age));
    work.dot(kGradient, s);
    work.dot(kGradient, y);
    work.dot(newest, s);
    work.dot(newest, y);
  }
}

void LbfgsHistory::take(std::span<const double> sums) {
  KERF_CHECK(std::ssize(sums) == 4 * count_ + 1, "{} sums of {} pairs", sums.size(), count_);
  gg_ = sums[0];
  const int newest = count_ - 1;
  for (int age = 0; age < count_; ++age) {
    const auto of_pair = sums.subspan(static_cast<size_t>(4 * age) + 1, 4);
    gs_[static_cast<size_t>(number(age))] = of_pair[0];
    gy_[static_cast<size_t>(number(age))] = of_pair[1];
    sy_[place(age, newest)] = of_pair[2];
    yy_[place(age, newest)] = yy_[place(newest, age)] = of_pair[3];
  }
  if (count_ == 0) return;
  // g.s before is g.s less s.y; where it is negative, as down a hill, this is SciPy's L-BFGS-B's
  // condition, with the precision that vectors have here.
  constexpr auto kPrecision = static_cast<double>(std::numeric_limits<float>::epsilon());
  const double grown = sy(newest, newest);
  if (!(grown > kPrecision * (grown - gs(newest))) || !(yy(newest, newest) > 0)) --count_;
}

void LbfgsHistory::add_direction(VectorWork& work) const {
  const auto pairs = static_cast<size_t>(count_);
  // So many of each s_i and y_i, and of g, are in the vector.
  std::vector<double> s(pairs), y(pairs);
  const auto at = [](std::vector<double>& of, int age) -> double& {
    return of[static_cast<size_t>(age)];
  };
  for (int i = count_ - 1; i >= 0; --i) {
    double product = gs(i);
    for (int j = i + 1; j < count_; ++j) product += at(y, j) * sy(i, j);
    at(s, i) = product / sy(i, i);
    at(y, i) = -at(s, i);
  }
  const int newest = count_ - 1;
  const double g = count_ == 0 ? 1 : sy(newest, newest) / yy(newest, newest);
  for (double& each : y) each *= g;
  for (int i = 0; i < count_; ++i) {
    double product = g * gy(i);
    for (int j = 0; j < count_; ++j) product += at(y, j) * yy(i, j);
    for (int j = 0; j < i; ++j) product += at(s, j) * sy(j, i);
    at(s, i) -= product / sy(i, i);
  }
  work.set(kDirection, kBaseGradient, -g);
  for (int age = 0; age < count_; ++age) {
    work.add(kDirection, change_of_point(number(age)), -at(s, age));
    work.add(kDirection, change_of_gradient(number(age)), -at(y, age));
  }
}

}  // namespace kerf::schedmp
