#include "schedmp/training/worker_paces.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

constexpr double kShorter = 0.9;          // step
constexpr double kBetweenSeconds = 60;    // two changes
constexpr double kBetweenTimesCost = 20;  // likewise

}  // namespace

WorkerPaces::WorkerPaces(int workers, PaceOptions options)
    : options_(options), sums_(static_cast<size_t>(workers)) {}

void WorkerPaces::add(std::span<const int64_t> compute_ns, int64_t now_ns) {
  KERF_CHECK(compute_ns.size() == sums_.size(), "{} of {} workers", compute_ns.size(),
             sums_.size());
  // From the end of a step on: what is before the first is not of steps.
  if (!begin_ns_) {
    begin_ns_ = now_ns;
    return;
  }
  for (size_t worker = 0; worker < sums_.size(); ++worker) sums_[worker] += compute_ns[worker];
  ++steps_;
  if (steps_ >= options_.steps && now_ns - *begin_ns_ >= options_.window_ns) end_window(now_ns);
}

void WorkerPaces::start_over() {
  std::ranges::fill(sums_, 0);
  steps_ = 0;
  begin_ns_.reset();
  last_.clear();
}

void WorkerPaces::end_window(int64_t now_ns) {
  const auto steps = static_cast<double>(steps_);
  std::vector<double> seconds;
  for (int64_t& sum : sums_)
    seconds.push_back(std::max(static_cast<double>(std::exchange(sum, 0)), 1.0) * 1e-9 / steps);
  step_seconds_ = static_cast<double>(now_ns - *begin_ns_) * 1e-9 / steps;
  begin_ns_ = now_ns;
  steps_ = 0;
  if (first_.empty()) {
    first_ = std::move(seconds);
    return;
  }
  for (size_t worker = 0; worker < seconds.size(); ++worker) seconds[worker] /= first_[worker];
  const double least = *std::ranges::min_element(seconds);
  for (double& each : seconds) each /= least;
  last_.push_back(std::move(seconds));
  if (last_.size() > options_.windows) last_.erase(last_.begin());
}

std::optional<std::vector<double>> WorkerPaces::slowness() const {
  if (last_.size() < options_.windows) return std::nullopt;
  for (const std::vector<double>& each : last_)
    if (differ(each, last_.back(), options_.agree)) return std::nullopt;
  std::vector<double> mean(sums_.size());
  for (size_t worker = 0; worker < mean.size(); ++worker)
    for (const std::vector<double>& each : last_)
      mean[worker] += each[worker] / static_cast<double>(last_.size());
  return mean;
}

bool differ(const std::vector<double>& some, const std::vector<double>& others, double times) {
  for (size_t worker = 0; worker < some.size(); ++worker)
    if (some[worker] >= times * others[worker] || others[worker] >= times * some[worker])
      return true;
  return false;
}

bool pays(const Prospect& prospect) {
  if (prospect.after > kShorter * prospect.before) return false;
  const double saved = static_cast<double>(prospect.steps_left) * prospect.step *
                       (1 - prospect.after / prospect.before);
  return saved > prospect.cost;
}

bool is_too_soon(double since_last, double cost) {
  return since_last < std::max(kBetweenSeconds, kBetweenTimesCost * cost);
}

}  // namespace kerf::schedmp
