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

#include "partitioner/connector_words.h"
#include "partitioner/fitted_text.h"
#include "partitioner/picture_layout.h"
#include "partitioner/sums.h"
#include "partitioner/svg.h"

namespace kerf::partitioner {

namespace {

constexpr size_t kLabelLetters = 17;  // that fit beside an arrow
constexpr double kTitleWidth = 12.5;  // of a letter of the title, at most on average
constexpr double kLabelLine = 13;     // of a label beside an arrow
constexpr double kAboveLabel = 16;    // of it and the boxes around it
constexpr double kInsideLine = 18;    // of what stands under a box

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
        layout_(model, plan, open),
        sources_(model, plan.division, stages_of_parts(plan)),
        sums_(sources_) {
    find_routes();
    for (const auto& [place, bytes] : inside_) rows_inside_.insert(row_of(place));
    for (const auto& [place, arrivals] : arriving_) {
      const int row = row_of(place);
      const bool inside = row > 0 && rows_inside_.contains(row - 1);
      layout_.make_room(row, kAboveLabel + (inside ? kInsideLine : 0) +
                                 kLabelLine * static_cast<double>(label_of(arrivals).size()));
    }
  }

  std::string draw() {
    draw_head();
    draw_panels();
    draw_local_edges();
    draw_routes();
    draw_boxes();
    draw_labels();
    return svg_.finish(layout_.width(), layout_.height(), title());
  }

 private:
  struct Arrivals {
    std::vector<int64_t> bytes;  // by route
    bool from_left = false;      // any of them
    std::set<std::string> connectors;
  };
  struct Arrow {
    PicturePlace from;
    PicturePlace to;
  };

  int row_of(const PicturePlace& place) const { return layout_.row_of(layout_.boxes().at(place)); }

  std::string title() const {
    return format("{}: {} cut over {} {}", plan_.model, to_string(plan_.cut), layout_.workers(),
                  layout_.workers() == 1 ? "worker" : "workers");
  }

  void draw_head() {
    const auto letters = static_cast<size_t>((layout_.width() - 2 * kPictureMargin) / kTitleWidth);
    svg_.text({kPictureMargin, 44}, "title", "start", elided(title(), letters));
    double y = layout_.legend_top() - 4 - 16 * static_cast<double>(layout_.subtitle().size());
    for (const std::string& line : layout_.subtitle()) {
      svg_.text({kPictureMargin, y}, "subtitle", "start", line);
      y += 16;
    }
    draw_legend();
  }

  void draw_legend() {
    const std::vector<ColouredWorkers>& entries = layout_.colours().all();
    for (size_t i = 0; i < entries.size(); ++i) {
      const Point at = layout_.legend_place(i);
      const PictureColour& colour = entries[i].colour;
      svg_.rectangle(at, kLegendSquare, kLegendSquare, 3, colour.fill, colour.line);
      svg_.text({at.x + kLegendSquare + 6, at.y + 11}, "small", "start", legend_text(entries[i]));
    }
    if (plan_.routes.empty()) return;
    const std::string inserted = words_of_gradients();
    const Point at = layout_.legend_words();
    svg_.text({at.x + 4, at.y + 11}, "small", "start",
              inserted.empty() ? kLegendWords.substr(0, kLegendWords.find(';')) : kLegendWords);
    if (!inserted.empty())
      svg_.text({kPictureMargin, at.y + 28}, "small", "start",
                "inserted for gradients: " + inserted);
  }

  // "bridge -> sum, slice -> bridge": what stands on the way back, which has no arrows of its own;
  // as much as a line holds.
  std::string words_of_gradients() const {
    std::set<std::string> words;
    ConnectorWords words_of(sums_);
    for (const Route& route : plan_.routes)
      if (route.gradient && route.value != kStepVector) words.insert(words_of.of(route));
    if (words.empty()) return {};
    const auto letters =
        static_cast<size_t>((layout_.width() - 2 * kPictureMargin) / kSmallWidth - 26);
    const auto lines = wrapped(format("{}", fmt::join(words, ", ")), letters);
    return lines.size() == 1 ? lines[0] : lines[0] + " ..";
  }

  void draw_panels() {
    for (size_t w = 0; w < layout_.workers(); ++w) {
      const double x = layout_.column(w);
      const double wide = layout_.column_width(w);
      svg_.rectangle({x, layout_.panel_top() - 14}, wide,
                     layout_.panel_bottom() - layout_.panel_top() + 14, 12, "#f5f7fa");
      svg_.text({x + wide / 2, layout_.panel_top() + 12}, "worker", "middle",
                format("worker {}", w));
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
    double y = layout_.rows_bottom() + 36;
    svg_.rectangle({x + 14, y - 16}, wide - 28, kFiguresHeight - 14, 8, "#ffffff", "#e4e7eb");
    for (const auto& [what, figure] : rows) {
      svg_.text({x + 26, y + 4}, "small", "start", what);
      svg_.text({x + wide - 26, y + 4}, "figure", "end", figure);
      y += 19;
    }
  }

  void draw_local_edges() {
    constexpr std::string_view kGrey = "#9aa5b1";
    for (const auto& [place, to] : layout_.boxes()) {
      std::set<int> drawn;  // segments that it reads of
      for (const NodeId node : layout_.nodes_of(to.segment))
        for (const ValueId value : model_.node(node).inputs) {
          const int producer = layout_.segment_of(layout_.producer_of(value));
          const auto from = layout_.boxes().find({producer, to.part});
          if (producer == to.segment || from == layout_.boxes().end()) continue;
          if (layout_.nodes_of(to.segment).size() > 1 && !drawn.insert(producer).second) continue;
          if (layout_.blocked(from->second, to))
            svg_.bow(layout_.left(from->second), layout_.left(to), 26, "local", kGrey);
          else
            svg_.curve(layout_.bottom(from->second), layout_.top(to), "local", kGrey, false);
        }
    }
  }

  // The box at which a route ends: the first reader of its value there.
  const PictureBox* reader(const Route& route) const {
    for (const Use& use : model_.uses(route.value))
      if (const auto at = layout_.boxes().find({layout_.segment_of(use.node), route.to});
          at != layout_.boxes().end())
        return &at->second;
    return nullptr;
  }

  // Arrows, what they bring, and what stays within a box.
  void find_routes() {
    const std::vector<Traffic> traffic = predict_traffic(model_, plan_, plan_.batch);
    std::set<std::pair<PicturePlace, PicturePlace>> drawn;
    ConnectorWords words_of(sums_);
    for (size_t r = 0; r < plan_.routes.size(); ++r) {
      const Route& route = plan_.routes[r];
      if (route.gradient) continue;
      const int producer = layout_.segment_of(model_.value(route.value).producer);
      const auto from = layout_.boxes().find({producer, route.from});
      const PictureBox* to = reader(route);
      if (from == layout_.boxes().end() || to == nullptr) continue;
      const PicturePlace end{to->segment, to->part};
      if (producer == to->segment) {
        inside_[end] += traffic[r].bytes;
        continue;
      }
      if (drawn.insert({from->first, end}).second || !layout_.drawn().opened)
        arrows_.push_back({from->first, end});
      Arrivals& arrivals = arriving_[end];
      arrivals.bytes.push_back(traffic[r].bytes);
      arrivals.connectors.insert(words_of.of(route));
      arrivals.from_left =
          arrivals.from_left || layout_.bottom(from->second).x <= layout_.top(*to).x;
    }
  }

  void draw_routes() {
    for (const Arrow& arrow : arrows_) {
      const PictureBox& from = layout_.boxes().at(arrow.from);
      svg_.curve(layout_.bottom(from), layout_.top(layout_.boxes().at(arrow.to)), "bridge",
                 coloured(from).colour.line, true);
    }
  }

  const ColouredWorkers& coloured(const PictureBox& box) const {
    return layout_.colours().of(layout_.stage_of(box.segment), box.part);
  }

  void draw_boxes() {
    const double width = layout_.box_width();
    for (const auto& [place, box] : layout_.boxes()) {
      const PictureColour& colour = coloured(box).colour;
      const Words words =
          layout_.nodes_of(box.segment).size() == 1 ? words_of_one(box) : words_of_many(box);
      const Point at = layout_.corner(box);
      svg_.open_group(words.tip);
      svg_.rectangle(at, width, kBoxHeight, 9, colour.fill, colour.line);
      svg_.text({at.x + width / 2, at.y + 18}, "name", "middle",
                elided(words.name, layout_.name_letters()));
      svg_.text({at.x + width / 2, at.y + 33}, "small", "middle",
                elided(words.small, layout_.small_letters()));
      svg_.close_group();
    }
  }

  struct Words {
    std::string name;
    std::string small;
    std::string tip;
  };
  Words words_of_one(const PictureBox& box) const {
    const Node& node = model_.node(layout_.nodes_of(box.segment)[0]);
    const ops::Shape& shape = model_.value(node.outputs.front()).spec.shape;
    const std::string share = share_text(box.share, shape);
    const int stage = layout_.stage_of(box.segment);
    std::string small = share.empty() ? node.op : format("{} {}", node.op, share);
    // The colour does not tell it.
    if (coloured(box).stages.size() > 1) small += format(", stage {}", stage);
    return {node.name, std::move(small),
            format("{}: {} gives {}, here {}; stage {}", node.name, node.op, ops::to_string(shape),
                   ops::to_string(box.share), stage)};
  }
  Words words_of_many(const PictureBox& box) const {
    const std::vector<NodeId>& nodes = layout_.nodes_of(box.segment);
    const std::string& first = model_.node(nodes.front()).name;
    const std::string& last = model_.node(nodes.back()).name;
    const std::string count = plural(std::ssize(nodes), "operator");
    const std::string tip =
        format("stage {}: {} to {}", layout_.stage_of(box.segment), first, last);
    const size_t each = (layout_.small_letters() - 3) / 2;
    const bool closed = layout_.stage_of(box.segment) != layout_.drawn().opened;
    return {closed ? format("stage {}", layout_.stage_of(box.segment)) : count,
            closed ? count : format("{} - {}", elided(first, each), elided(last, each)), tip};
  }

  void draw_labels() {
    for (const auto& [place, arrivals] : arriving_)
      draw_arrivals(layout_.boxes().at(place), arrivals);
    for (const auto& [place, bytes] : inside_) {
      const PictureBox& box = layout_.boxes().at(place);
      svg_.label({layout_.corner(box).x + layout_.box_width(), layout_.bottom(box).y + 13}, "end",
                 human_bytes(static_cast<double>(bytes)) + " inside");
    }
  }

  // Over the heads of a box's arrows: what was inserted, and under that "3 x 64 KiB" where several
  // are alike.
  std::vector<std::string> label_of(const Arrivals& arrivals) const {
    const std::vector<int64_t>& bytes = arrivals.bytes;
    const int64_t total = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
    const bool alike =
        std::adjacent_find(bytes.begin(), bytes.end(), std::not_equal_to<>()) == bytes.end();
    const std::string size = human_bytes(static_cast<double>(alike ? bytes.front() : total));
    auto lines = wrapped(format("{}", fmt::join(arrivals.connectors, ", ")), kLabelLetters);
    lines.push_back(bytes.size() == 1 ? size
                    : alike           ? format("{} x {}", bytes.size(), size)
                                      : format("{}, {} in all", bytes.size(), size));
    return lines;
  }

  void draw_arrivals(const PictureBox& box, const Arrivals& arrivals) {
    const bool right = arrivals.from_left;  // away from the lines
    Point at{layout_.top(box).x + (right ? 10 : -10), layout_.top(box).y - 7};
    for (auto lines = label_of(arrivals); !lines.empty(); lines.pop_back()) {
      svg_.label(at, right ? "start" : "end", lines.back());
      at.y -= kLabelLine;
    }
  }

  const Model& model_;
  const Plan& plan_;
  PictureLayout layout_;
  const Sources sources_;
  const Sums sums_;
  std::map<PicturePlace, Arrivals> arriving_;
  std::map<PicturePlace, int64_t> inside_;  // bytes between operators of one segment
  std::set<int> rows_inside_;
  std::vector<Arrow> arrows_;
  Svg svg_;
};

}  // namespace

std::string draw_svg(const Model& model, const Plan& plan, std::optional<int> open) {
  return Drawing(model, plan, open).draw();
}

}  // namespace kerf::partitioner
