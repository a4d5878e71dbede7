// Pictures: well-formed, reproducible, and they show every operator where it runs.
#include "partitioner/picture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "partitioner/svg.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/sample_models.h"
#include "tests/support/errors.h"

namespace kerf::partitioner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::plan_of;
using testing::request_of;
using testing::sample_plans;
using ::testing::StartsWith;

size_t count(const std::string& text, const std::string& what) {
  size_t result = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++result;
  return result;
}

// The first tag that does not match, "" if all elements are closed in order.
std::string unbalanced(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return xml.substr(at);
    std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.ends_with('/')) continue;
    const std::string name = tag.substr(0, tag.find(' '));
    if (!name.starts_with('/'))
      open.push_back(name);
    else if (open.empty() || open.back() != name.substr(1))
      return tag;
    else
      open.pop_back();
  }
  return open.empty() ? "" : open.back();
}

double number_behind(const std::string& text, const std::string& what) {
  const size_t at = text.find(what);
  return at == std::string::npos ? -1 : std::stod(text.substr(at + what.size()));
}

// The words that begin left of the picture or end right of it, at as many pixels to a letter as the
// style sheet's sizes come to at most.
std::vector<std::string> words_beyond(const std::string& svg) {
  const std::map<std::string, double> letters = {
      {"title", 12.5}, {"subtitle", 7.5}, {"small", 6.5}};
  const double width = number_behind(svg, "width=\"");
  std::vector<std::string> beyond;
  for (size_t at = svg.find("<text "); at != std::string::npos; at = svg.find("<text ", at + 1)) {
    const std::string tag = svg.substr(at, svg.find("</text>", at) - at);
    const std::string words = tag.substr(tag.find('>') + 1);
    for (const auto& [style, wide] : letters) {
      if (tag.find(format("class=\"{}\"", style)) == std::string::npos) continue;
      const double x = number_behind(tag, "x=\"");
      const double length = wide * static_cast<double>(words.size());
      const bool from_start = tag.find("\"start\"") != std::string::npos;
      if (from_start && (x < 0 || x + length > width)) beyond.push_back(words);
    }
  }
  return beyond;
}

// The lowest edge of a panel, a box or a legend's square, or the right one, beyond the picture.
size_t rectangles_beyond(const std::string& svg) {
  const double width = number_behind(svg, "width=\"");
  const double height = number_behind(svg, "height=\"");
  size_t beyond = 0;
  for (size_t at = svg.find("<rect x"); at != std::string::npos; at = svg.find("<rect x", at + 1)) {
    const std::string tag = svg.substr(at, svg.find("/>", at) - at);
    const double right = number_behind(tag, "x=\"") + number_behind(tag, "width=\"");
    const double low = number_behind(tag, "y=\"") + number_behind(tag, "height=\"");
    beyond += right > width || low > height ? 1 : 0;
  }
  return beyond;
}

struct Drawn {
  double left = 0, right = 0, top = 0, bottom = 0;
  std::string words;
};

bool overlap(const Drawn& a, const Drawn& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

// Labels beside arrows and under boxes, with the room that their letters take at most, and boxes.
std::vector<Drawn> labels_and_boxes(const std::string& svg) {
  std::vector<Drawn> found;
  for (size_t at = svg.find("<text "); at != std::string::npos; at = svg.find("<text ", at + 1)) {
    const std::string tag = svg.substr(at, svg.find("</text>", at) - at);
    if (tag.find("class=\"bytes\"") == std::string::npos) continue;
    const std::string words = tag.substr(tag.find('>') + 1);
    const double x = number_behind(tag, "x=\"");
    const double y = number_behind(tag, "y=\"");
    const double letters = static_cast<double>(words.size() - 3 * count(words, "&gt;"));
    const double length = 6 * letters;
    const bool from_start = tag.find("\"start\"") != std::string::npos;
    found.push_back(
        {from_start ? x : x - length, from_start ? x + length : x, y - 9, y + 2, words});
  }
  for (size_t at = svg.find("<g>"); at != std::string::npos; at = svg.find("<g>", at + 1)) {
    const std::string tag = svg.substr(svg.find("<rect ", at), 200);
    const double x = number_behind(tag, "x=\"");
    const double y = number_behind(tag, "y=\"");
    found.push_back(
        {x, x + number_behind(tag, "width=\""), y, y + number_behind(tag, "height=\""), "a box"});
  }
  return found;
}

void expect_apart(const std::string& svg) {
  const std::vector<Drawn> drawn = labels_and_boxes(svg);
  for (size_t i = 0; i < drawn.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      EXPECT_FALSE(overlap(drawn[i], drawn[j])) << drawn[i].words << " and " << drawn[j].words;
}

// Many connectors end at a box, below what its neighbour keeps inside.
TEST(Picture, WritesNothingOverAnything) {
  for (const auto& [model, plan] : sample_plans()) expect_apart(draw_svg(model, plan));
  for (const char* name : {"densenet121", "inception-v3"})
    for (const Cut cut : {Cut::kFeature, Cut::kFree}) {
      PlanRequest request = request_of(cut, 3, 12, 2);
      request.shares.clear();
      const Model model = model_for(
          make_zoo_model(name, {.width = 0.125, .image = name[0] == 'd' ? 64 : 75}), request);
      const std::string svg = draw_svg(model, plan_of(model, request));
      EXPECT_GT(count(svg, " inside</text>"), 10u);
      expect_apart(svg);
    }
}

TEST(Picture, KeepsWithinItsEdges) {
  for (const auto& [model, plan] : sample_plans()) {
    EXPECT_THAT(words_beyond(draw_svg(model, plan)), ::testing::IsEmpty()) << model.name();
    EXPECT_EQ(rectangles_beyond(draw_svg(model, plan)), 0u);
  }
  const Model model = make_zoo_model("squeezenet", {.width = 0.125, .image = 64});
  for (const int turns : {2, 4, 8, 16}) {
    PlanRequest request = request_of(Cut::kLayer, 2);
    request.steering.stages_per_worker = turns;
    Plan plan = plan_of(model, request);
    plan.schedule =
        "a/folder/of/a/folder/of/a/folder/of/a/folder/whose/name/is/not/short/at/all/"
        "schedules/of/mine/the-seventeenth-of-them.txt";
    const std::string svg = draw_svg(model, plan);
    EXPECT_THAT(words_beyond(svg), ::testing::IsEmpty()) << turns;
    EXPECT_EQ(rectangles_beyond(svg), 0u) << turns;
    EXPECT_THAT(svg, HasSubstr("worker 0: stages 0, 2"));
    EXPECT_THAT(svg, HasSubstr(format(" {}</text>", 2 * turns - 1))) << "the last of worker 1";
    EXPECT_THAT(svg, HasSubstr("arrows: bytes per step"));
  }
}

TEST(Picture, OpensNoStageWhereAllIsDrawn) {
  const Model model = testing::small_mlp();
  const Plan plan = plan_of(model, request_of(Cut::kLayer, 2));
  const auto error = kerf::tests::error_of([&] { draw_svg(model, plan, 1); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("shows all of them"));
}

TEST(Picture, IsWellFormedAndReproducible) {
  for (const auto& [model, plan] : sample_plans()) {
    const std::string svg = draw_svg(model, plan);
    EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    EXPECT_EQ(unbalanced(svg), "") << model.name();
    EXPECT_EQ(svg, draw_svg(model, plan));
    EXPECT_EQ(count(svg, "http"), 1u);  // the name space: nothing is loaded from elsewhere
    EXPECT_EQ(count(svg, "nan"), 0u);
  }
}

// A decoder's LSTM has no lengths, but the states behind them.
TEST(Picture, AnInputThatIsAbsentIsNoEdge) {
  const Model model = make_zoo_model("seq2seq", {{3, 4, 5, 6, 7, 2}});
  const std::string svg = draw_svg(model, plan_of(model, request_of(Cut::kLayer, 2)));
  EXPECT_EQ(unbalanced(svg), "");
  EXPECT_THAT(svg, HasSubstr("decoder.l1"));
}

TEST(Picture, ShowsEveryShareOfEveryOperatorOnce) {
  for (const auto& [model, plan] : sample_plans()) {
    const std::string svg = draw_svg(model, plan);
    size_t shares = 0;
    for (NodeId node = 0; node < model.nodes(); ++node)
      shares += plan.layouts[static_cast<size_t>(model.node(node).outputs[0])].shares.size();
    EXPECT_EQ(count(svg, "<g>"), shares) << model.name() << " " << to_string(plan.cut);
    size_t forward = 0;
    for (const Route& route : plan.routes)
      forward += route.gradient || is_of_step(model, route) ? 0 : 1;
    EXPECT_EQ(count(svg, "class=\"bridge\""), forward);
  }
}

// By a box's left edge its fill: of a picture without rows of several boxes a worker's.
std::map<double, std::set<std::string>> fills_by_column(const std::string& svg) {
  std::map<double, std::set<std::string>> fills;
  for (size_t at = svg.find("<g>"); at != std::string::npos; at = svg.find("<g>", at + 1)) {
    const std::string tag = svg.substr(svg.find("<rect ", at), 200);
    const size_t fill = tag.find("fill=\"") + 6;
    fills[number_behind(tag, "x=\"")].insert(tag.substr(fill, tag.find('"', fill) - fill));
  }
  return fills;
}

// A worker's stages look alike, no other worker's do, and worker 0 looks the same elsewhere.
TEST(Picture, IsColouredByWorker) {
  const Model model = make_zoo_model("lenet5", {});
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.steering.stages_per_worker = 2;
  const std::string svg = draw_svg(model, plan_of(model, request));
  const auto fills = fills_by_column(svg);
  ASSERT_EQ(fills.size(), 2u);
  const auto& first = fills.begin()->second;
  const auto& second = fills.rbegin()->second;
  EXPECT_EQ(first.size(), 1u);
  EXPECT_EQ(second.size(), 1u);
  EXPECT_NE(first, second);
  EXPECT_THAT(svg, HasSubstr(">worker 0: stages 0, 2</text>"));
  EXPECT_THAT(svg, HasSubstr(">worker 1: stages 1, 3</text>"));
  EXPECT_THAT(svg, HasSubstr(", stage 2</text>")) << "which the colour does not tell";
  const auto others = fills_by_column(draw_svg(model, plan_of(model, request_of(Cut::kLayer, 3))));
  ASSERT_EQ(others.size(), 3u);
  EXPECT_EQ(others.begin()->second, first);
}

// A stage on several workers has their group's colour, which no worker has by itself.
TEST(Picture, AGroupOfWorkersHasAColourOfItsOwn) {
  const Model model = make_zoo_model("lenet5", {});
  const auto alone = fills_by_column(draw_svg(model, plan_of(model, request_of(Cut::kLayer, 4))));
  std::set<std::string> of_workers;
  for (const auto& [column, fills] : alone) of_workers.insert(fills.begin(), fills.end());
  EXPECT_EQ(of_workers.size(), 4u);
  for (const auto& [cut, legend] : std::map<Cut, std::vector<std::string>>{
           {Cut::kFeature, {">workers 0-3: stage 0</text>"}},
           {Cut::kHybrid, {">workers 0, 1: stage 0</text>", ">workers 2, 3: stage 1</text>"}}}) {
    PlanRequest request = request_of(cut, 4);
    if (cut == Cut::kHybrid) request.stages = 2;
    const std::string svg = draw_svg(model, plan_of(model, request));
    std::set<std::string> of_groups;
    for (const auto& [column, fills] : fills_by_column(svg)) {
      EXPECT_EQ(fills.size(), 1u);
      of_groups.insert(fills.begin(), fills.end());
    }
    EXPECT_EQ(of_groups.size(), legend.size());
    for (const std::string& fill : of_groups) EXPECT_FALSE(of_workers.contains(fill)) << fill;
    for (const std::string& entry : legend) EXPECT_THAT(svg, HasSubstr(entry));
  }
}

// 600 operators: a box for each stage, but the one that is opened, operator by operator.
TEST(Picture, OfALargeModelShowsOneStageOpened) {
  const Model model = make_zoo_model("densenet121", {.width = 0.125, .image = 64});
  const Plan plan = plan_of(model, request_of(Cut::kLayer, 4));
  const auto slowest =
      std::max_element(plan.workers.begin(), plan.workers.end(),
                       [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  const std::string svg = draw_svg(model, plan);
  EXPECT_EQ(unbalanced(svg), "");
  EXPECT_THAT(svg, HasSubstr(format("stage {} is opened", slowest->worker)));
  for (int stage = 0; stage < 4; ++stage) {
    const std::string opened = draw_svg(model, plan, stage);
    const std::vector<NodeId>& nodes = plan.stages[static_cast<size_t>(stage)].nodes;
    EXPECT_EQ(count(opened, "<g>"), 3 + nodes.size());
    for (const NodeId node : nodes)
      EXPECT_EQ(count(opened, format(">{}</text>", model.node(node).name)), 1u)
          << model.node(node).name;
    EXPECT_THAT(opened, HasSubstr(format("stage {} is opened, others", stage)));
    for (int other = 0; other < 4; ++other)
      EXPECT_EQ(count(opened, format(">stage {}</text>", other)), other == stage ? 0u : 1u);
    EXPECT_GE(count(opened, "class=\"bridge\""), 3u);
  }
  const auto error = kerf::tests::error_of([&] { draw_svg(model, plan, 4); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("no stage 4 to open; the plan has stages 0 to 3"));
}

// What was inserted stands in lines that are short enough for the room beside an arrow.
TEST(Picture, LabelsAreBrokenIntoShortLines) {
  const Model model = make_zoo_model("bvlc-alexnet", {.width = 0.125});
  const std::string svg = draw_svg(model, plan_of(model, request_of(Cut::kFeature, 2)));
  EXPECT_THAT(svg, HasSubstr(">slice -&gt; bridge</text>"));
  EXPECT_THAT(svg, HasSubstr(">-&gt; concat</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("slice -&gt; bridge -&gt; concat</text>")));
}

TEST(Picture, OfALargeModelDividedShowsEachWorkersPart) {
  const Model model = make_zoo_model("densenet121", {.width = 0.125, .image = 64});
  const std::string svg = draw_svg(model, plan_of(model, request_of(Cut::kFeature, 2)));
  EXPECT_EQ(unbalanced(svg), "");
  EXPECT_GE(count(svg, "<g>"), 48u);
  EXPECT_LE(count(svg, "<g>"), 96u);
  EXPECT_THAT(svg, HasSubstr("stage 0 is opened, in boxes of several operators"));
  EXPECT_THAT(svg, HasSubstr(" inside</text>"));
}

TEST(Picture, SaysWhoDoesWhatAndWhatItCosts) {
  const Model model = testing::small_mlp();
  const Plan plan = plan_of(model, request_of(Cut::kFeature, 3));
  const std::string svg = draw_svg(model, plan);
  EXPECT_THAT(svg, HasSubstr("mlp: feature cut over 3 workers"));
  EXPECT_THAT(svg, HasSubstr("worker 2"));
  EXPECT_THAT(svg, HasSubstr("Gemm 0-5"));
  EXPECT_THAT(svg, HasSubstr("2 x "));  // arrivals from both others
  EXPECT_THAT(svg, HasSubstr(human_bytes(static_cast<double>(plan.workers[0].peak_bytes))));
}

TEST(Picture, TellsTheGapWhereABoundIsKnown) {
  const Model model = testing::small_mlp();
  Plan plan = plan_of(model, request_of(Cut::kLayer, 2));
  plan.bound = plan.bottleneck / 2;
  EXPECT_THAT(draw_svg(model, plan), ::testing::AllOf(HasSubstr("slowest worker is 100.0 %"),
                                                      HasSubstr("the lower bound")));
  plan.bound = std::nullopt;
  EXPECT_THAT(draw_svg(model, plan), Not(HasSubstr("lower bound")));
}

TEST(Picture, EscapesWhateverNamesHold) {
  EXPECT_EQ(escape_xml("<a href=\"x\">&'\n\x01\xff"), "&lt;a href=&quot;x&quot;&gt;&amp;&apos;???");
  Builder b("<script>&");
  const ValueId x = b.input("x", {ops::kBatch, 4});
  b.loss(b.gemm(b.relu(x, "\"]]><!--"), 3, "</svg>"));
  const Model model = b.build();
  const std::string svg = draw_svg(model, plan_of(model, request_of(Cut::kLayer, 2)));
  EXPECT_EQ(unbalanced(svg), "");
  EXPECT_EQ(count(svg, "<script"), 0u);
  EXPECT_EQ(count(svg, "</svg>"), 1u);
}

}  // namespace
}  // namespace kerf::partitioner
