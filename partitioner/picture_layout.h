// Where things are in a picture: a column for each worker, its boxes below what they read, and a
// head whose legend and subtitle take as many lines as they need. Plain geometry; nothing is drawn.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partitioner/picture_colours.h"
#include "partitioner/picture_segments.h"
#include "partitioner/plan.h"
#include "partitioner/svg.h"

namespace kerf::partitioner {

inline constexpr double kPictureMargin = 32;
inline constexpr double kBoxHeight = 42;
inline constexpr double kFiguresHeight = 142;    // of a column: what is predicted
inline constexpr double kSmallWidth = 7;         // of a small letter, at most on average
inline constexpr double kLeastSmallWidth = 5.8;  // in boxes, where it is mostly lower case
inline constexpr double kLegendSquare = 14;      // beside what it stands for
// What follows the workers in the legend.
inline constexpr std::string_view kLegendWords =
    "arrows: bytes per step; gradients travel the other way";

// A segment's share on a part.
struct PictureBox {
  int segment = -1;
  int part = 0;
  int worker = 0;
  int lane = 0;    // of its row, where a worker has several
  ops::Box share;  // of its one operator
};
using PicturePlace = std::pair<int, int>;  // segment, part

class PictureLayout {
 public:
  PictureLayout(const Model& model, const Plan& plan, std::optional<int> open);

  const PictureSegments& drawn() const { return drawn_; }
  int segments() const { return static_cast<int>(drawn_.segments.size()); }
  const std::vector<NodeId>& nodes_of(int segment) const {
    return drawn_.segments[static_cast<size_t>(segment)].nodes;
  }
  // -1: none.
  int segment_of(NodeId node) const {
    return node < 0 ? -1 : drawn_.of_node[static_cast<size_t>(node)];
  }
  int stage_of(int segment) const { return drawn_.segments[static_cast<size_t>(segment)].stage; }
  // Of an input, which may be absent; -1: no node's.
  NodeId producer_of(ValueId value) const { return value < 0 ? -1 : model_.value(value).producer; }

  const std::map<PicturePlace, PictureBox>& boxes() const { return boxes_; }
  int row_of(const PictureBox& box) const { return row(box.segment); }
  // So much at least between a row's boxes and those above them, for what is written there.
  void make_room(int row, double height);
  // Whether a straight line between two boxes of a column would cross another.
  bool blocked(const PictureBox& from, const PictureBox& to) const;

  // Wide enough for the names of operators, but the longest.
  double box_width() const { return box_width_; }
  // That fit into a box: of a name, and of what stands under it.
  size_t name_letters() const;
  size_t small_letters() const { return static_cast<size_t>(box_width_ / kLeastSmallWidth); }
  Point corner(const PictureBox& box) const;
  Point top(const PictureBox& box) const;
  Point bottom(const PictureBox& box) const;
  Point left(const PictureBox& box) const;

  size_t workers() const { return lanes_.size(); }
  double column(size_t worker) const { return columns_[worker]; }
  double column_width(size_t worker) const;
  double width() const { return width_; }
  double height() const { return panel_bottom() + kPictureMargin; }
  double panel_top() const;
  double rows_bottom() const;
  double panel_bottom() const { return rows_bottom() + kFiguresHeight + 18; }

  // The head: lines of the subtitle, then the legend.
  const std::vector<std::string>& subtitle() const { return subtitle_; }
  double legend_top() const;
  const PictureColours& colours() const { return colours_; }
  Point legend_place(size_t entry) const { return below_subtitle(legend_[entry]); }
  // Of words that follow the workers in the legend: behind the last one, or on a line below.
  Point legend_words() const { return below_subtitle(legend_.back()); }

 private:
  void place_rows();
  bool move_below(int segment, int producer);
  void place_boxes();
  void place_columns();
  int& row(int segment) { return rows_[static_cast<size_t>(segment)]; }
  int row(int segment) const { return rows_[static_cast<size_t>(segment)]; }
  void find_box_width();
  void place_legend();
  Point below_subtitle(Point at) const { return {at.x, at.y + legend_top()}; }

  const Model& model_;
  const Plan& plan_;
  const PictureSegments drawn_;
  const PictureColours colours_;
  double box_width_ = 0;
  std::vector<int> rows_;     // by segment
  std::vector<double> gaps_;  // by row: above it
  double row_top(int row) const;
  std::map<PicturePlace, PictureBox> boxes_;
  std::map<std::pair<int, int>, std::set<int>> rows_in_lane_;  // worker, lane -> rows of boxes
  std::vector<int> lanes_;                                     // by worker: boxes beside each other
  std::vector<double> columns_;                                // by worker: left edge
  double width_ = 0;
  std::vector<Point> legend_;  // by entry, then its words; below the subtitle
  std::vector<std::string> subtitle_;
};

}  // namespace kerf::partitioner
