#include "apps/report/drawn_line.h"

#include <algorithm>
#include <utility>

#include "runtime/format.h"

namespace kerf::apps {

namespace {

constexpr auto kDrawnFor = std::chrono::milliseconds(100);
constexpr int kBarCells = 24;

}  // namespace

DrawnLine::DrawnLine(Progress::Options options) : options_(std::move(options)) {
  if (!options_.now) options_.now = [] { return std::chrono::steady_clock::now(); };
}

void DrawnLine::draw(const std::function<std::string()>& line) {
  const Progress::Time now = options_.now();
  if (!options_.terminal || now - drawn_ < kDrawnFor) return;
  drawn_ = now;
  is_there_ = true;
  std::string text = line();
  const auto room = static_cast<size_t>(std::max(1, (options_.width ? options_.width() : 80) - 1));
  if (text.size() > room) text.resize(room);
  options_.write("\r\x1b[K" + text);
}

void DrawnLine::abandon() {
  if (std::exchange(is_there_, false)) options_.write("\n");
}

std::string bar_of_part(double part) {
  const auto cells = static_cast<size_t>(std::clamp(part, 0.0, 1.0) * kBarCells);
  return format("[{:<{}}]", std::string(cells, '='), kBarCells);
}

std::string updates_a_second(int64_t updates, double seconds) {
  if (seconds <= 0) return {};
  return format("{} updates/s",
                human_count(static_cast<long long>(static_cast<double>(updates) / seconds)));
}

}  // namespace kerf::apps
