#include "partitioner/picture_layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "partitioner/bound.h"
#include "partitioner/fitted_text.h"

namespace kerf::partitioner {

namespace {

constexpr double kLaneGap = 20;   // between boxes of one row
constexpr double kRowGap = 44;    // where the arrows run
constexpr double kPanelPad = 30;  // between a column's edge and its boxes
constexpr double kColumnGap = 26;
constexpr double kLeastWidth = 620;
constexpr double kHeadHeight = 46;   // of a column: the worker's name
constexpr double kSubtitleTop = 66;  // its first line
constexpr double kSubtitleLine = 16;
constexpr double kSubtitleWidth = 7.5;  // of a letter, at most on average
constexpr double kLegendLine = 20;
constexpr double kLegendGap = 18;   // between its entries
constexpr double kNameWidth = 8.2;  // of a letter of a name, at most on average
constexpr size_t kLeastName = 20;   // letters that a box has room for
constexpr size_t kMostName = 44;
constexpr double kUnderLegend = 56;  // room for what is inserted for gradients

std::string opened_text(const Plan& plan, const PictureSegments& drawn) {
  std::string text = format("; stage {} is opened", *drawn.opened);
  const auto is_several = [&](const PictureSegment& segment) {
    return segment.stage == drawn.opened && segment.nodes.size() > 1;
  };
  if (std::any_of(drawn.segments.begin(), drawn.segments.end(), is_several))
    text += ", in boxes of several operators";
  if (plan.stages.size() > 1) text += ", others are one box each";
  return text;
}

std::string subtitle_text(const Plan& plan, const PictureSegments& drawn) {
  std::string text = format("batch {} in {}, schedule {}", plan.batch,
                            sizes_in_words(plan.micro_batches, plan.given_sizes), plan.schedule);
  if (const auto gap = known_gap(plan.bottleneck, plan.bound))
    text += format("; the slowest worker is {:.1f} % above the lower bound", 100 * *gap);
  if (drawn.opened) text += opened_text(plan, drawn);
  return text;
}

}  // namespace

PictureLayout::PictureLayout(const Model& model, const Plan& plan, std::optional<int> open)
    : model_(model), plan_(plan), drawn_(picture_segments(model, plan, open)), colours_(plan) {
  find_box_width();
  place_rows();
  place_boxes();
  place_columns();
  const auto letters = static_cast<size_t>((width_ - 2 * kPictureMargin) / kSubtitleWidth);
  for (const std::string& line : wrapped(subtitle_text(plan, drawn_), letters))
    subtitle_.push_back(elided(line, letters));
  place_legend();
}

void PictureLayout::find_box_width() {
  size_t letters = kLeastName;
  for (const PictureSegment& segment : drawn_.segments)
    if (segment.nodes.size() == 1)
      letters = std::max(letters, model_.node(segment.nodes[0]).name.size());
  box_width_ = kNameWidth * static_cast<double>(std::min(letters, kMostName));
}

size_t PictureLayout::name_letters() const {
  return static_cast<size_t>(std::lround(box_width_ / kNameWidth));
}

// A segment's row is one below the lowest of what it reads. Segments that follow each other need
// not be numbered so.
void PictureLayout::place_rows() {
  rows_.resize(drawn_.segments.size());
  bool moved = true;
  for (int round = 0; moved && round <= segments(); ++round) {
    moved = false;
    for (NodeId node = 0; node < model_.nodes(); ++node)
      for (const ValueId value : model_.node(node).inputs)
        moved = move_below(segment_of(node), segment_of(producer_of(value))) || moved;
  }
  const auto last = std::max_element(rows_.begin(), rows_.end());
  gaps_.assign(last == rows_.end() ? 0 : static_cast<size_t>(*last) + 1, kRowGap);
  if (!gaps_.empty()) gaps_[0] = 0;
}

void PictureLayout::make_room(int row, double height) {
  double& gap = gaps_[static_cast<size_t>(row)];
  gap = std::max(gap, height);
}

double PictureLayout::row_top(int row) const {
  const double gaps = std::accumulate(gaps_.begin(), gaps_.begin() + row + 1, 0.0);
  return panel_top() + kHeadHeight + row * kBoxHeight + gaps;
}

bool PictureLayout::move_below(int segment, int producer) {
  if (segment < 0 || producer < 0 || segment == producer || row(segment) > row(producer))
    return false;
  row(segment) = row(producer) + 1;
  return true;
}

void PictureLayout::place_boxes() {
  std::map<std::pair<int, int>, int> used;  // row, worker
  lanes_.assign(static_cast<size_t>(plan_.workers_bound()), 1);
  for (int segment = 0; segment < segments(); ++segment)
    for (const NodeId node : nodes_of(segment)) {
      const ValueId output = model_.node(node).outputs.front();
      for (const ops::Share& share : plan_.layouts[static_cast<size_t>(output)].shares) {
        if (boxes_.contains({segment, share.part})) continue;
        const int worker = plan_.binding[static_cast<size_t>(share.part)];
        const int lane = used[{row(segment), worker}]++;
        int& lanes = lanes_[static_cast<size_t>(worker)];
        lanes = std::max(lanes, lane + 1);
        boxes_[{segment, share.part}] = {segment, share.part, worker, lane, share.box};
        rows_in_lane_[{worker, lane}].insert(row(segment));
      }
    }
}

void PictureLayout::place_columns() {
  double x = kPictureMargin;
  for (size_t worker = 0; worker < lanes_.size(); ++worker) {
    columns_.push_back(x);
    x += column_width(worker) + kColumnGap;
  }
  width_ = std::max(x - kColumnGap + kPictureMargin, kLeastWidth);
}

bool PictureLayout::blocked(const PictureBox& from, const PictureBox& to) const {
  for (const int lane : {from.lane, to.lane}) {
    const auto rows = rows_in_lane_.find({from.worker, lane});
    if (rows == rows_in_lane_.end()) continue;
    const auto below = rows->second.upper_bound(row(from.segment));
    if (below != rows->second.end() && *below < row(to.segment)) return true;
  }
  return false;
}

double PictureLayout::column_width(size_t worker) const {
  const int lanes = lanes_[worker];
  return 2 * kPanelPad + lanes * box_width_ + (lanes - 1) * kLaneGap;
}

double PictureLayout::legend_top() const {
  return kSubtitleTop + kSubtitleLine * static_cast<double>(subtitle_.size() - 1) + 20;
}

// Entries follow each other as words do.
void PictureLayout::place_legend() {
  std::vector<double> lengths;
  for (const ColouredWorkers& each : colours_.all())
    lengths.push_back(kLegendSquare + 6 +
                      kSmallWidth * static_cast<double>(legend_text(each).size()) + kLegendGap);
  lengths.push_back(kSmallWidth * static_cast<double>(kLegendWords.size()));
  Point at{kPictureMargin, 0};
  for (const double length : lengths) {
    if (at.x > kPictureMargin && at.x + length + kPictureMargin > width_)
      at = {kPictureMargin, at.y + kLegendLine};
    legend_.push_back(at);
    at.x += length;
  }
}

double PictureLayout::panel_top() const { return legend_words().y + kUnderLegend; }

double PictureLayout::rows_bottom() const {
  return row_top(static_cast<int>(gaps_.size()) - 1) + kBoxHeight;
}

Point PictureLayout::corner(const PictureBox& box) const {
  return {
      columns_[static_cast<size_t>(box.worker)] + kPanelPad + box.lane * (box_width_ + kLaneGap),
      row_top(row(box.segment))};
}

Point PictureLayout::top(const PictureBox& box) const {
  const Point at = corner(box);
  return {at.x + box_width_ / 2, at.y};
}

Point PictureLayout::bottom(const PictureBox& box) const {
  const Point at = corner(box);
  return {at.x + box_width_ / 2, at.y + kBoxHeight};
}

Point PictureLayout::left(const PictureBox& box) const {
  const Point at = corner(box);
  return {at.x, at.y + kBoxHeight / 2};
}

}  // namespace kerf::partitioner
