#include "apps/report/schedule_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "partitioner/svg.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

using schedmp::Action;
using schedmp::ActionKind;

constexpr double kLeft = 90;
constexpr double kTop = 64;
constexpr double kRow = 30;     // of a worker
constexpr double kBox = 24;     // high
constexpr double kBand = 18;    // more where what is kept is drawn below
constexpr double kGap = 3;      // above that
constexpr double kUnit = 26;    // wide, of the shortest action
constexpr double kMost = 4000;  // wide, of all; then boxes are narrower
constexpr double kRoomForText = 14;

constexpr std::array<const char*, 3> kForward = {"#4a90d9", "#8fbdea", "#c3dcf5"};
constexpr std::array<const char*, 3> kAgain = {"#5fb7b3", "#9ad4d1", "#cbeae8"};
constexpr std::array<const char*, 3> kInputs = {"#3f9c5a", "#84c597", "#bfe3c9"};
constexpr std::array<const char*, 3> kWeights = {"#e08a2e", "#efb878", "#f7dcbb"};
constexpr std::array<const char*, 3> kBoth = {"#8a63c9", "#b59be0", "#d9cdf0"};

constexpr char kKept[] = "#9aa3ad";

const std::array<const char*, 3>* colours_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return &kForward;
    case ActionKind::kRecompute:
      return &kAgain;
    case ActionKind::kInputGradient:
      return &kInputs;
    case ActionKind::kWeightGradient:
      return &kWeights;
    case ActionKind::kBackward:
      return &kBoth;
    default:
      return nullptr;
  }
}

class Picture {
 public:
  Picture(const schedmp::Schedule& schedule, const schedmp::Unfolded& unfolded,
          const std::vector<std::vector<schedmp::Kept>>& kept)
      : schedule_(schedule), unfolded_(unfolded), kept_(kept), chunk_of_(schedule.groups.size()) {
    std::vector<size_t> chunks(schedule.rows.size());
    for (size_t stage = 0; stage < schedule.groups.size(); ++stage)
      chunk_of_[stage] = chunks[static_cast<size_t>(schedule.groups[stage].front())]++;
    for (const auto& row : schedule.rows)
      recomputes_ = recomputes_ || std::ranges::any_of(row, [](const Action& action) {
                      return action.kind == ActionKind::kRecompute;
                    });
    double shortest = 0;
    for (const auto& row : unfolded.rows)
      for (const schedmp::Interval& each : row) {
        end_ = std::max(end_, each.end);
        const double length = each.end - each.begin;
        if (length > 0 && (shortest == 0 || length < shortest)) shortest = length;
      }
    if (end_ > 0) per_unit_ = std::min(kUnit / shortest, kMost / end_);
    for (const auto& of_worker : kept)
      for (const schedmp::Kept& each : of_worker) {
        in_bytes_ = in_bytes_ || each.bytes > 0;
        most_ = {0, std::max(most_.micro_batches, each.micro_batches),
                 std::max(most_.bytes, each.bytes)};
      }
    row_ = most_.micro_batches > 0 ? kRow + kBand : kRow;
  }

  std::string draw() {
    svg_.text({16, 28}, "title", "start", schedule_.name);
    svg_.text({16, 48}, "subtitle", "start",
              format("{}, {}, {}", plural(schedule_.workers(), "worker"),
                     plural(schedule_.stages(), "stage"),
                     plural(schedule_.micro_batches, "micro-batch")));
    for (size_t worker = 0; worker < unfolded_.rows.size(); ++worker) {
      const double y = kTop + row_ * static_cast<double>(worker);
      svg_.text({16, y + 17}, "name", "start", format("worker {}", worker));
      for (size_t i = 0; i < unfolded_.rows[worker].size(); ++i)
        draw(schedule_.rows[worker][i], unfolded_.rows[worker][i], y);
      if (row_ > kRow && worker < kept_.size()) draw_kept(kept_[worker], y + kBox + kBand);
    }
    const double bottom = kTop + row_ * static_cast<double>(unfolded_.rows.size());
    legend(bottom + 12);
    return svg_.finish(std::max(kLeft + end_ * per_unit_ + 20, 460.0), bottom + 48, schedule_.name);
  }

 private:
  void draw(const Action& action, const schedmp::Interval& when, double y) {
    const auto* colours = colours_of(action.kind);
    if (colours == nullptr) return;
    const size_t chunk =
        std::min(chunk_of_[static_cast<size_t>(action.stage)], colours->size() - 1);
    const double x = kLeft + when.begin * per_unit_;
    const double width = (when.end - when.begin) * per_unit_;
    svg_.open_group(format("{}: {} to {}", schedmp::to_string(action), when.begin, when.end));
    svg_.rectangle({x, y}, width, kBox, 2, (*colours)[chunk], "#ffffff");
    if (width >= kRoomForText)
      svg_.text({x + width / 2, y + 16}, "small", "middle", format("{}", action.micro_batch));
    svg_.close_group();
  }

  double height_of(const schedmp::Kept& kept) const {
    return in_bytes_ ? kept.bytes / most_.bytes : 1.0 * kept.micro_batches / most_.micro_batches;
  }
  std::string amount_text(const schedmp::Kept& kept) const {
    const std::string micro_batches = plural(kept.micro_batches, "micro-batch");
    return in_bytes_ ? format("{}, {}", human_bytes(kept.bytes), micro_batches) : micro_batches;
  }

  // A box from each change to the next, standing on `base`.
  void draw_kept(const std::vector<schedmp::Kept>& kept, double base) {
    for (size_t i = 0; i < kept.size(); ++i) {
      const double until = i + 1 < kept.size() ? kept[i + 1].time : end_;
      const double height = height_of(kept[i]) * (kBand - kGap);
      if (height <= 0 || until <= kept[i].time) continue;
      svg_.open_group(format("keeps {}: {} to {}", amount_text(kept[i]), kept[i].time, until));
      svg_.rectangle({kLeft + kept[i].time * per_unit_, base - height},
                     (until - kept[i].time) * per_unit_, height, 0, kKept);
      svg_.close_group();
    }
  }

  void legend(double y) {
    double x = kLeft;
    for (const auto& [kind, words] :
         {std::pair{ActionKind::kForward, "F"}, std::pair{ActionKind::kInputGradient, "I"},
          std::pair{ActionKind::kWeightGradient, "W"}, std::pair{ActionKind::kBackward, "B"},
          std::pair{ActionKind::kRecompute, "F again"}}) {
      if (kind == ActionKind::kRecompute && !recomputes_) continue;
      svg_.rectangle({x, y}, 18, 18, 2, (*colours_of(kind))[0], "#ffffff");
      svg_.text({x + 24, y + 14}, "small", "start", words);
      x += 56;
    }
    if (row_ == kRow) return;
    svg_.rectangle({x, y}, 18, 18, 0, kKept);
    svg_.text({x + 24, y + 14}, "small", "start", format("kept, {} at most", amount_text(most_)));
  }

  const schedmp::Schedule& schedule_;
  const schedmp::Unfolded& unfolded_;
  const std::vector<std::vector<schedmp::Kept>>& kept_;
  schedmp::Kept most_;  // of any worker, of either
  bool in_bytes_ = false;
  bool recomputes_ = false;
  double row_ = kRow;
  std::vector<size_t> chunk_of_;  // stage -> which of its worker's
  double end_ = 0;
  double per_unit_ = 1;
  partitioner::Svg svg_;
};

}  // namespace

std::string draw_schedule(const schedmp::Schedule& schedule, const schedmp::Unfolded& unfolded,
                          const std::vector<std::vector<schedmp::Kept>>& kept) {
  return Picture(schedule, unfolded, kept).draw();
}

}  // namespace kerf::apps
