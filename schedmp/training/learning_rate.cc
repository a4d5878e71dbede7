#include "schedmp/training/learning_rate.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <string_view>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

template <class T>
bool read_number(std::string_view text, T& number) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc() && end == text.data() + text.size();
}

// "EVERY:FACTOR"
bool read_steps(std::string_view text, RateSchedule& schedule) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  std::string_view every = text.substr(0, colon);
  schedule.epochs = every.ends_with('e');
  if (schedule.epochs) every.remove_suffix(1);
  return read_number(every, schedule.every) && schedule.every >= 1 &&
         read_number(text.substr(colon + 1), schedule.factor) && schedule.factor > 0 &&
         schedule.factor <= 1;
}

}  // namespace

std::string to_string(const RateSchedule& schedule) {
  if (schedule.kind == RateSchedule::Kind::kConstant) return "constant";
  if (schedule.kind == RateSchedule::Kind::kCosine) return "cosine";
  return format("step:{}{}:{}", schedule.every, schedule.epochs ? "e" : "", schedule.factor);
}

RateSchedule parse_rate_schedule(const std::string& text) {
  constexpr std::string_view kSteps = "step:";
  RateSchedule schedule;
  if (text == "constant") return schedule;
  schedule.kind = RateSchedule::Kind::kCosine;
  if (text == "cosine") return schedule;
  schedule.kind = RateSchedule::Kind::kStep;
  if (text.starts_with(kSteps) &&
      read_steps(std::string_view(text).substr(kSteps.size()), schedule))
    return schedule;
  throw Error(ErrorCode::kUsage,
              format("\"{}\" is no schedule of learning rates; there are constant, cosine, and "
                     "step:EVERY:FACTOR with steps or epochs, as step:1000:0.5 or step:30e:0.1",
                     text));
}

double learning_rate_of(const RateSchedule& schedule, double base, int64_t step, int64_t steps,
                        int64_t steps_per_epoch) {
  if (step < schedule.warm_up)
    return base * static_cast<double>(step + 1) / static_cast<double>(schedule.warm_up);
  const int64_t since = step - schedule.warm_up;
  switch (schedule.kind) {
    case RateSchedule::Kind::kConstant:
      return base;
    case RateSchedule::Kind::kStep: {
      const int64_t unit = schedule.epochs ? std::max<int64_t>(steps_per_epoch, 1) : 1;
      const int64_t falls = since / unit / schedule.every;
      return base * std::pow(schedule.factor, static_cast<double>(falls));
    }
    case RateSchedule::Kind::kCosine:
      return base * 0.5 *
             (1 + std::cos(std::numbers::pi * static_cast<double>(since) /
                           static_cast<double>(std::max<int64_t>(steps - schedule.warm_up, 1))));
  }
  KERF_CHECK(false, "a schedule of learning rates");
}

}  // namespace kerf::schedmp
