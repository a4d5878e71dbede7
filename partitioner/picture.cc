#include "partitioner/picture.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "partitioner/bound.h"
#include "partitioner/fitted_text.h"
#include "partitioner/picture_segments.h"
#include "partitioner/sums.h"
#include "partitioner/svg.h"

namespace kerf::partitioner {

namespace {

constexpr double kMargin = 32;
constexpr double kBoxWidth = 164;
constexpr double kBoxHeight = 42;
constexpr double kLaneGap = 20;   // between boxes of one row
constexpr double kRowGap = 44;    // where the arrows run
constexpr double kPanelPad = 30;  // between a column's edge and its boxes
constexpr double kColumnGap = 26;
constexpr double kPanelTop = 142;
constexpr double kHeadHeight = 46;      // of a column: the worker's name
constexpr double kFiguresHeight = 142;  // of a column: what is predicted
// Characters that fit: of an operator's name in a box, of what stands under it, of a label beside
// an arrow.
constexpr size_t kNameLetters = 20;
constexpr size_t kSmallLetters = 28;
constexpr size_t kLabelLetters = 17;
constexpr double kSmallWidth = 7;  // of a small letter, at most on average

struct Colour {
  std::string_view fill;
  std::string_view line;
};

// Told apart by hue and, in print or with colour blindness, by lightness too.
constexpr std::array<Colour, 8> kColours = {{{"#d9e8fb", "#2f6fbf"},
                                             {"#fde3c8", "#c76a12"},
                                             {"#d5f0e0", "#1e8a57"},
                                             {"#f8d8e4", "#b63a6f"},
                                             {"#e5dcf7", "#6b4bb8"},
                                             {"#fbf0bf", "#9c7c00"},
                                             {"#cfeef2", "#14808f"},
                                             {"#e6e2dc", "#6d5f4b"}}};

const Colour& colour_of(int stage) {
  return kColours[static_cast<size_t>(std::max(stage, 0)) % kColours.size()];
}

// The share of a node that a part computes: "0-127", "" where it is all of it.
std::string share_text(const ops::Box& box, const ops::Shape& shape) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const ops::IndexSet& set = box.axes[static_cast<size_t>(axis)];
    if (set.is_all()) continue;
    std::string text = ops::to_string(set);
    if (text.size() > 14) text = format("{} of {}", set.size(shape[axis]), shape[axis]);
    return text;
  }
  return {};
}

class Drawing {
 public:
  Drawing(const Model& model, const Plan& plan, std::optional<int> open)
      : model_(model),
        plan_(plan),
        drawn_(picture_segments(model, plan, open)),
        sources_(model, plan.division, stages_of_parts(plan)),
        sums_(sources_) {
    place_rows();
    place_boxes();
    place_columns();
  }

  std::string draw() {
    draw_head();
    draw_panels();
    draw_local_edges();
    draw_routes();
    draw_boxes();
    draw_labels();
    return svg_.finish(width_, panel_bottom() + kMargin, title());
  }

 private:
  struct Box {
    int segment = -1;
    int part = 0;
    int worker = 0;
    int lane = 0;
    ops::Box share;  // of its one operator
  };
  using Place = std::pair<int, int>;  // segment, part
  struct Arrivals {
    std::vector<int64_t> bytes;  // by route
    bool from_left = false;      // any of them
    std::set<std::string> connectors;
  };

  const std::vector<NodeId>& nodes_of(int segment) const {
    return drawn_.segments[static_cast<size_t>(segment)].nodes;
  }
  int segments() const { return static_cast<int>(drawn_.segments.size()); }
  // -1: none.
  int segment_of(NodeId node) const {
    return node < 0 ? -1 : drawn_.of_node[static_cast<size_t>(node)];
  }
  int stage_of(int segment) const { return drawn_.segments[static_cast<size_t>(segment)].stage; }
  int worker_of(int part) const { return plan_.binding[static_cast<size_t>(part)]; }
  size_t workers() const { return static_cast<size_t>(plan_.workers_bound()); }
  // Of an input, which may be absent; -1: no node's.
  NodeId producer_of(ValueId value) const { return value < 0 ? -1 : model_.value(value).producer; }
  ValueId output(NodeId node) const { return model_.node(node).outputs.front(); }

  // A segment's row is one below the lowest of what it reads. Segments that follow each other need
  // not be numbered so.
  void place_rows() {
    rows_.resize(drawn_.segments.size());
    bool moved = true;
    for (int round = 0; moved && round <= segments(); ++round) {
      moved = false;
      for (NodeId node = 0; node < model_.nodes(); ++node)
        for (const ValueId value : model_.node(node).inputs)
          moved = move_below(segment_of(node), segment_of(producer_of(value))) || moved;
    }
    for (const int r : rows_) row_count_ = std::max(row_count_, r + 1);
  }
  bool move_below(int segment, int producer) {
    if (segment < 0 || producer < 0 || segment == producer || row(segment) > row(producer))
      return false;
    row(segment) = row(producer) + 1;
    return true;
  }
  int& row(int segment) { return rows_[static_cast<size_t>(segment)]; }
  int row(int segment) const { return rows_[static_cast<size_t>(segment)]; }

  void place_boxes() {
    std::map<std::pair<int, int>, int> used;  // row, worker
    lanes_.assign(workers(), 1);
    for (int segment = 0; segment < segments(); ++segment)
      for (const NodeId node : nodes_of(segment))
        for (const ops::Share& share : plan_.layouts[static_cast<size_t>(output(node))].shares) {
          if (boxes_.contains({segment, share.part})) continue;
          const int worker = worker_of(share.part);
          const int lane = used[{row(segment), worker}]++;
          int& lanes = lanes_[static_cast<size_t>(worker)];
          lanes = std::max(lanes, lane + 1);
          boxes_[{segment, share.part}] = {segment, share.part, worker, lane, share.box};
        }
  }

  void place_columns() {
    double x = kMargin;
    for (const int lanes : lanes_) {
      columns_.push_back(x);
      x += column_width(lanes) + kColumnGap;
    }
    width_ = std::max(x - kColumnGap + kMargin, 620.0);
  }

  static double column_width(int lanes) {
    return 2 * kPanelPad + lanes * kBoxWidth + (lanes - 1) * kLaneGap;
  }
  double rows_bottom() const {
    return kPanelTop + kHeadHeight + row_count_ * kBoxHeight + (row_count_ - 1) * kRowGap;
  }
  double panel_bottom() const { return rows_bottom() + kFiguresHeight + 18; }

  Point corner(const Box& box) const {
    return {
        columns_[static_cast<size_t>(box.worker)] + kPanelPad + box.lane * (kBoxWidth + kLaneGap),
        kPanelTop + kHeadHeight + row(box.segment) * (kBoxHeight + kRowGap)};
  }
  Point top(const Box& box) const {
    const Point at = corner(box);
    return {at.x + kBoxWidth / 2, at.y};
  }
  Point bottom(const Box& box) const {
    const Point at = corner(box);
    return {at.x + kBoxWidth / 2, at.y + kBoxHeight};
  }
  Point left(const Box& box) const {
    const Point at = corner(box);
    return {at.x, at.y + kBoxHeight / 2};
  }

  std::string title() const {
    return format("{}: {} cut over {} {}", plan_.model, to_string(plan_.cut), workers(),
                  workers() == 1 ? "worker" : "workers");
  }

  void draw_head() {
    svg_.text({kMargin, 44}, "title", "start", title());
    std::string text = format("batch {} in {} micro-batches, schedule {}", plan_.batch,
                              plan_.micro_batches, plan_.schedule);
    if (const auto gap = known_gap(plan_.bottleneck, plan_.bound))
      text += format("; the slowest worker is {:.1f} % above the lower bound", 100 * *gap);
    if (drawn_.opened) text += format("; stage {} is opened", *drawn_.opened);
    if (drawn_.opened && plan_.stages.size() > 1) text += ", others are one box each";
    svg_.text({kMargin, 66}, "subtitle", "start", text);
    double x = kMargin;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const Colour& colour = colour_of(static_cast<int>(s));
      svg_.rectangle({x, 86}, 14, 14, 3, colour.fill, colour.line);
      svg_.text({x + 20, 97}, "small", "start", format("stage {}", s));
      x += 76;
    }
    if (plan_.routes.empty()) return;
    const std::string inserted = words_of_gradients();
    svg_.text({x + 4, 97}, "small", "start",
              inserted.empty() ? "arrows: bytes per step"
                               : "arrows: bytes per step; gradients travel the other way");
    if (!inserted.empty())
      svg_.text({kMargin, 114}, "small", "start", "inserted for gradients: " + inserted);
  }

  // "bridge -> sum, slice -> bridge": what stands on the way back, which has no arrows of its own;
  // as much as a line holds.
  std::string words_of_gradients() const {
    std::set<std::string> words;
    for (const Route& route : plan_.routes)
      if (route.gradient && route.value != kStepVector) words.insert(connector_words(sums_, route));
    if (words.empty()) return {};
    const auto letters = static_cast<size_t>((width_ - 2 * kMargin) / kSmallWidth - 26);
    const auto lines = wrapped(format("{}", fmt::join(words, ", ")), letters);
    return lines.size() == 1 ? lines[0] : lines[0] + " ..";
  }

  void draw_panels() {
    for (size_t w = 0; w < workers(); ++w) {
      const double x = columns_[w];
      const double wide = column_width(lanes_[w]);
      svg_.rectangle({x, kPanelTop - 14}, wide, panel_bottom() - kPanelTop + 14, 12, "#f5f7fa");
      svg_.text({x + wide / 2, kPanelTop + 12}, "worker", "middle", format("worker {}", w));
      if (w < plan_.workers.size()) draw_figures(x, wide, plan_.workers[w]);
    }
  }

  void draw_figures(double x, double wide, const WorkerPrediction& worker) {
    const std::array<std::pair<std::string, std::string>, 6> rows = {
        {{"forward", human_flops(worker.forward_flops)},
         {"compute", human_seconds(worker.seconds)},
         {"weights", human_bytes(static_cast<double>(worker.weight_bytes))},
         {"activations", human_bytes(static_cast<double>(worker.activation_bytes))},
         {"peak memory", human_bytes(static_cast<double>(worker.peak_bytes))},
         {"sends", format("{} x, {}", human_count(worker.messages),
                          human_bytes(static_cast<double>(worker.bytes_out)))}}};
    double y = rows_bottom() + 36;
    svg_.rectangle({x + 14, y - 16}, wide - 28, kFiguresHeight - 14, 8, "#ffffff", "#e4e7eb");
    for (const auto& [what, figure] : rows) {
      svg_.text({x + 26, y + 4}, "small", "start", what);
      svg_.text({x + wide - 26, y + 4}, "figure", "end", figure);
      y += 19;
    }
  }

  // Whether a straight line between two boxes of a column would cross another.
  bool blocked(const Box& from, const Box& to) const {
    for (const auto& [place, box] : boxes_)
      if (box.worker == from.worker && row(box.segment) > row(from.segment) &&
          row(box.segment) < row(to.segment) && (box.lane == from.lane || box.lane == to.lane))
        return true;
    return false;
  }

  void draw_local_edges() {
    constexpr std::string_view kGrey = "#9aa5b1";
    for (const auto& [place, to] : boxes_) {
      std::set<int> drawn;  // segments that it reads of
      for (const NodeId node : nodes_of(to.segment))
        for (const ValueId value : model_.node(node).inputs) {
          const int producer = segment_of(producer_of(value));
          const auto from = boxes_.find({producer, to.part});
          if (producer == to.segment || from == boxes_.end()) continue;
          if (nodes_of(to.segment).size() > 1 && !drawn.insert(producer).second) continue;
          if (blocked(from->second, to))
            svg_.bow(left(from->second), left(to), 26, "local", kGrey);
          else
            svg_.curve(bottom(from->second), top(to), "local", kGrey, false);
        }
    }
  }

  // The box at which a route ends: the first reader of its value there.
  const Box* reader(const Route& route) const {
    for (const Use& use : model_.uses(route.value))
      if (const auto at = boxes_.find({segment_of(use.node), route.to}); at != boxes_.end())
        return &at->second;
    return nullptr;
  }

  void draw_routes() {
    const std::vector<Traffic> traffic = predict_traffic(model_, plan_, plan_.batch);
    std::set<std::pair<Place, Place>> drawn;
    for (size_t r = 0; r < plan_.routes.size(); ++r) {
      const Route& route = plan_.routes[r];
      if (route.gradient) continue;
      const int producer = segment_of(model_.value(route.value).producer);
      const auto from = boxes_.find({producer, route.from});
      const Box* to = reader(route);
      if (from == boxes_.end() || to == nullptr) continue;
      const Place end{to->segment, to->part};
      if (producer == to->segment) {
        inside_[end] += traffic[r].bytes;
        continue;
      }
      if (drawn.insert({from->first, end}).second || !drawn_.opened)
        svg_.curve(bottom(from->second), top(*to), "bridge", colour_of(stage_of(producer)).line,
                   true);
      Arrivals& arrivals = arriving_[end];
      arrivals.bytes.push_back(traffic[r].bytes);
      arrivals.connectors.insert(connector_words(sums_, route));
      arrivals.from_left = arrivals.from_left || bottom(from->second).x <= top(*to).x;
    }
  }

  void draw_boxes() {
    for (const auto& [place, box] : boxes_) {
      const Colour& colour = colour_of(stage_of(box.segment));
      const Words words =
          nodes_of(box.segment).size() == 1 ? words_of_one(box) : words_of_many(box);
      const Point at = corner(box);
      svg_.open_group(words.tip);
      svg_.rectangle(at, kBoxWidth, kBoxHeight, 9, colour.fill, colour.line);
      svg_.text({at.x + kBoxWidth / 2, at.y + 18}, "name", "middle",
                elided(words.name, kNameLetters));
      svg_.text({at.x + kBoxWidth / 2, at.y + 33}, "small", "middle",
                elided(words.small, kSmallLetters));
      svg_.close_group();
    }
  }

  struct Words {
    std::string name;
    std::string small;
    std::string tip;
  };
  Words words_of_one(const Box& box) const {
    const Node& node = model_.node(nodes_of(box.segment)[0]);
    const ops::Shape& shape = model_.value(node.outputs.front()).spec.shape;
    const std::string share = share_text(box.share, shape);
    return {node.name, share.empty() ? node.op : format("{} {}", node.op, share),
            format("{}: {} gives {}, here {}", node.name, node.op, ops::to_string(shape),
                   ops::to_string(box.share))};
  }
  Words words_of_many(const Box& box) const {
    const std::vector<NodeId>& nodes = nodes_of(box.segment);
    const std::string& first = model_.node(nodes.front()).name;
    const std::string& last = model_.node(nodes.back()).name;
    const std::string count = plural(std::ssize(nodes), "operator");
    const std::string tip = format("stage {}: {} to {}", stage_of(box.segment), first, last);
    const bool closed = stage_of(box.segment) != drawn_.opened;
    return {closed ? format("stage {}", stage_of(box.segment)) : count,
            closed ? count : format("{} - {}", elided(first, 12), elided(last, 12)), tip};
  }

  void draw_labels() {
    for (const auto& [place, arrivals] : arriving_) draw_arrivals(boxes_.at(place), arrivals);
    for (const auto& [place, bytes] : inside_) {
      const Box& box = boxes_.at(place);
      svg_.label({corner(box).x + kBoxWidth, bottom(box).y + 13}, "end",
                 human_bytes(static_cast<double>(bytes)) + " inside");
    }
  }

  // One label over the heads of a box's arrows: "3 x 64 KiB" where several are alike, and over that
  // what was inserted.
  void draw_arrivals(const Box& box, const Arrivals& arrivals) {
    const std::vector<int64_t>& bytes = arrivals.bytes;
    const int64_t total = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
    const bool alike =
        std::adjacent_find(bytes.begin(), bytes.end(), std::not_equal_to<>()) == bytes.end();
    const std::string size = human_bytes(static_cast<double>(alike ? bytes.front() : total));
    const bool right = arrivals.from_left;  // away from the lines
    Point at{top(box).x + (right ? 10 : -10), top(box).y - 7};
    const auto write = [&](const std::string& line) {
      svg_.label(at, right ? "start" : "end", line);
      at.y -= 13;
    };
    write(bytes.size() == 1 ? size
          : alike           ? format("{} x {}", bytes.size(), size)
                            : format("{} from {}", size, bytes.size()));
    auto lines = wrapped(format("{}", fmt::join(arrivals.connectors, ", ")), kLabelLetters);
    for (; !lines.empty(); lines.pop_back()) write(lines.back());
  }

  const Model& model_;
  const Plan& plan_;
  const PictureSegments drawn_;
  const Sources sources_;
  const Sums sums_;
  std::vector<int> rows_;  // by segment
  int row_count_ = 0;
  std::map<Place, Box> boxes_;
  std::vector<int> lanes_;       // by worker: boxes beside each other
  std::vector<double> columns_;  // by worker: left edge
  double width_ = 0;
  std::map<Place, Arrivals> arriving_;
  std::map<Place, int64_t> inside_;  // bytes between operators of one segment
  Svg svg_;
};

}  // namespace

std::string draw_svg(const Model& model, const Plan& plan, std::optional<int> open) {
  return Drawing(model, plan, open).draw();
}

}  // namespace kerf::partitioner
