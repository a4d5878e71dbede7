#include "apps/report/progress.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "apps/report/terminal.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr int kMostCells = 24;
constexpr int kFewestCells = 4;  // a shorter bar tells nothing
constexpr std::string_view kUsualPace = "  99,999 rows/s  99 s left";

// As long as `room` columns allow, with a space behind; empty where they are too few.
std::string bar_of(double done, int room) {
  const int cells = std::min(kMostCells, room - 3);
  if (cells < kFewestCells) return {};
  const int full = static_cast<int>(done * cells);
  return format("[{:<{}}] ", std::string(static_cast<size_t>(full), '='), cells);
}

std::string if_finite(double figure, int digits) {
  return std::isfinite(figure) ? format("{:.{}f}", figure, digits) : "not finite";
}

}  // namespace

Progress::Progress(Options options) : options_(std::move(options)) {
  if (!options_.now) options_.now = [] { return std::chrono::steady_clock::now(); };
}

void Progress::step(const schedmp::StepRecord& record) {
  const Time now = options_.now();
  if (record.epoch != epoch_) {
    close_epoch(nullptr);
    epoch_ = record.epoch;
  }
  if (record.skipped.empty()) {
    tell_skipped();
    epoch_rows_ += record.rows;
    epoch_loss_ += record.loss * static_cast<double>(record.rows);
  } else {
    if (skipped_++ == 0) first_skipped_ = record;
  }
  const int64_t ended = ended_ns(record.end_ns, now);
  if (running_) {
    intervals_.push_back(static_cast<double>(ended - last_ns_) * 1e-9);
    seconds_ += intervals_.back();
    rows_ += record.rows;
  }
  last_ns_ = ended;
  running_ = true;
  const bool last_step = record.step + 1 == options_.total_steps;
  if (options_.terminal && (now - drawn_ >= kRedraw || last_step)) draw(record, now);
}

void Progress::evaluation(const schedmp::EvaluationRecord& record) {
  if (options_.total_steps == 0) return;  // it is all that there is to report
  last_ns_ = ended_ns(record.end_ns, options_.now());
  close_epoch(&record);
}

// Results of several steps may come at once, so when they come says nothing of a step.
int64_t Progress::ended_ns(int64_t on_worker, Time now) const {
  if (on_worker != 0) return on_worker;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
}

// Of steps in a row one line, once they are over: a run that ends among them has an error to tell.
void Progress::tell_skipped() {
  if (skipped_ == 0) return;
  const int64_t first = first_skipped_.step;
  const std::string which =
      skipped_ == 1 ? format("{} {}", options_.words.step, first)
                    : format("{}s {} to {}", options_.words.step, first, first + skipped_ - 1);
  permanent_line(format("{} skipped: {} is not finite", which, first_skipped_.skipped));
  skipped_ = 0;
}

void Progress::finish() {
  tell_skipped();
  close_epoch(nullptr);
  abandon();
}

void Progress::abandon() {
  if (bar_) options_.write("\n");
  bar_ = false;
}

double Progress::rows_per_second() const {
  return seconds_ > 0 ? static_cast<double>(rows_) / seconds_ : 0;
}

double Progress::median_step_seconds() const {
  if (intervals_.empty()) return 0;
  std::vector<double> sorted = intervals_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

void Progress::draw(const schedmp::StepRecord& record, Time now) {
  options_.write("\r\x1b[K" + bar_line(record, options_.width ? options_.width() : 80));
  drawn_ = now;
  bar_ = true;
}

std::string Progress::bar_line(const schedmp::StepRecord& record, int width) {
  const int64_t done = record.step + 1;
  const int64_t total = std::max(options_.total_steps, done);
  const std::string steps = std::to_string(total);
  const Words& words = options_.words;
  std::string line =
      format("{} {}/{}  {} {:>{}}/{}  {} {:.4f}", words.epoch, record.epoch + 1, options_.epochs,
             words.step, done, steps.size(), steps, words.loss, record.loss);
  // Unknown until two steps are done; the bar leaves room for it from the start.
  std::string pace;
  if (!intervals_.empty())
    pace =
        format("  {:>6} {}/s  {:>4} left", human_count(static_cast<long long>(rows_per_second())),
               words.rows, human_seconds(seconds_left(total - done)));
  const int room = std::max(1, width - 1);
  const int used = static_cast<int>(line.size() + std::max(pace.size(), kUsualPace.size()));
  if (width != std::exchange(width_, width)) bar_room_ = room;
  bar_room_ = std::min(bar_room_, room - used);
  line = bar_of(static_cast<double>(done) / static_cast<double>(total), bar_room_) + line + pace;
  if (line.size() > static_cast<size_t>(room)) line.resize(static_cast<size_t>(room));
  return line;
}

double Progress::seconds_left(int64_t steps) const {
  if (steps == 0) return 0;
  const double mean = seconds_ / static_cast<double>(intervals_.size());
  return std::max(1.0, std::round(mean * static_cast<double>(steps)));
}

void Progress::close_epoch(const schedmp::EvaluationRecord* evaluation) {
  if (epoch_rows_ == 0 && evaluation == nullptr) return;
  const double loss = epoch_loss_ / static_cast<double>(epoch_rows_);
  const bool any = std::exchange(epoch_rows_, 0) > 0;
  epoch_loss_ = 0;
  if (!options_.epoch_lines) return;
  std::string line;
  if (any)
    line = format("{} {}/{}: {} {:.4f}", options_.words.epoch, epoch_ + 1, options_.epochs,
                  options_.words.loss, loss);
  if (evaluation != nullptr)
    line += format("{}test loss {}", line.empty() ? "" : ", ", if_finite(evaluation->loss, 4));
  if (evaluation != nullptr && evaluation->of_classes)
    line += format(", test accuracy {:.2f} %", evaluation->accuracy() * 100);
  if (evaluation != nullptr && evaluation->label_axes == 1)
    line += format(", perplexity {}", if_finite(std::exp(evaluation->loss), 2));
  if (evaluation != nullptr && evaluation->in_top)
    line += format(", top-5 {:.2f} %", evaluation->share(*evaluation->in_top) * 100);
  if (any && rows_ > 0)
    line += format(", {} {}/s", human_count(static_cast<long long>(rows_per_second())),
                   options_.words.rows);
  permanent_line(line);
}

void Progress::permanent_line(const std::string& line) {
  options_.write((bar_ ? "\r\x1b[K" : "") + line + "\n");
  bar_ = false;
  drawn_ = {};
}

}  // namespace kerf::apps
