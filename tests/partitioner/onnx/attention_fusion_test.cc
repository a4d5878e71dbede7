// Attention as exporters write it becomes one operator, in any of their forms, and nothing else
// does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/partitioner/onnx/made_graphs.h"

namespace kerf::partitioner::onnx {
namespace {

using testing::Contains;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();

enum class Scaled { kNowhere, kByDivision, kByProduct, kOnQueries, kOnBoth };
enum class Turned { kAtOnce, kTwice, kByRows };
enum class Masked {
  kNothing,
  kCausalSum,     // of -inf
  kCausalLowest,  // of the least number there is, in four axes
  kCausalChoice,  // Where(seen, scores, low)
  kCausalHidden,  // Where(hidden, low, scores)
  kConstantSum,   // any numbers
  kGiven,         // an input of the model
  kSeen,          // any truth values
  kHidden,
};
enum class Axes { kFour, kThree, kHeadsInFront };

struct Form {
  Scaled scaled = Scaled::kByDivision;
  Turned turned = Turned::kAtOnce;
  Masked masked = Masked::kNothing;
  Axes axes = Axes::kFour;
  int64_t heads = 3;
  int64_t queries = 5;
  int64_t keys = 5;  // of another input where they are not the queries
  int64_t width = 4;
  int64_t value_width = 4;
  bool guarded = false;  // NaN becomes 0

  bool is_causal() const {
    return masked == Masked::kCausalSum || masked == Masked::kCausalLowest ||
           masked == Masked::kCausalChoice || masked == Masked::kCausalHidden;
  }
};

constexpr int64_t kFeatures = 6;

class AttentionGraph {
 public:
  explicit AttentionGraph(const Form& form) : form_(form) {
    graph_ = graph_of({form.queries, kFeatures}, {}, {});
    if (form.keys != form.queries) add_input(graph_, "memory", {form.keys, kFeatures});
    const std::string memory = form.keys == form.queries ? "x" : "memory";
    const std::string q =
        scaled_if(Scaled::kOnQueries, heads_of("x", "q", form.queries, form.width));
    const std::string k = turned(heads_of(memory, "k", form.keys, form.width));
    const std::string v = heads_of(memory, "v", form.keys, form.value_width);
    std::string scores = add("MatMul", {both(q), both(k)}, "scores");
    scores = masked(scaled_after(scores));
    std::string weights = add("Softmax", {scores}, "weights", {{"axis", int64_t{-1}}});
    if (form.guarded) {
      const std::string asked = add("IsNaN", {weights}, "asked");
      weights = add("Where", {asked, number("nothing", 0), weights}, "guarded");
    }
    joined(add("MatMul", {weights, v}, "answers"));
  }

  Graph& graph() { return graph_; }

 private:
  std::string add(const std::string& op, std::vector<std::string> inputs, const std::string& output,
                  ops::Attributes attributes = {}) {
    graph_.nodes.push_back(node_of(op, std::move(inputs), output, std::move(attributes)));
    return output;
  }
  std::string keep(Stored constant) {
    std::string name = constant.name;
    graph_.initializers.emplace(name, std::move(constant));
    return name;
  }
  std::string number(const std::string& name, float number) {
    return keep(stored(name, {}, {number}));
  }
  float root() const { return std::sqrt(static_cast<float>(form_.width)); }
  int64_t heads() const { return form_.axes == Axes::kThree ? 1 : form_.heads; }

  // A projection, its heads apart.
  std::string heads_of(const std::string& from, const std::string& name, int64_t length,
                       int64_t width) {
    std::string y =
        add("MatMul", {from, keep(stored_random("w" + name, {kFeatures, heads() * width}))},
            name + "_flat");
    if (form_.axes == Axes::kThree) return y;
    y = add("Reshape", {y}, name + "_apart", {{"shape", Ints{0, length, heads(), width}}});
    const bool turns = name == "k" && form_.turned == Turned::kAtOnce;
    const bool in_front = form_.axes == Axes::kHeadsInFront;
    y = add("Transpose", {y}, name + "_heads",
            {{"perm", turns && !in_front ? Ints{0, 2, 3, 1} : Ints{0, 2, 1, 3}}});
    if (!in_front) return y;
    return add("Reshape", {y}, name + "_front", {{"shape", Ints{-1, length, width}}});
  }

  std::string turned(const std::string& k) {
    const bool four = form_.axes == Axes::kFour;
    if (four && form_.turned == Turned::kAtOnce) return k;
    if (!four || form_.turned == Turned::kTwice)
      return add("Transpose", {k}, "k_turned", {{"perm", four ? Ints{0, 1, 3, 2} : Ints{0, 2, 1}}});
    const std::string rows =
        add("Reshape", {k}, "k_rows", {{"shape", Ints{-1, form_.keys, form_.width}}});
    const std::string turned = add("Transpose", {rows}, "k_rows_turned", {{"perm", Ints{0, 2, 1}}});
    return add("Reshape", {turned}, "k_turned",
               {{"shape", Ints{-1, heads(), form_.width, form_.keys}}});
  }

  std::string scaled_if(Scaled here, const std::string& value) {
    if (form_.scaled != here) return value;
    return add("Mul", {value, number(value + "_scale", 1 / root())}, value + "_scaled");
  }
  std::string both(const std::string& value) {
    if (form_.scaled != Scaled::kOnBoth) return value;
    return add("Mul", {value, number(value + "_root", 1 / std::sqrt(root()))}, value + "_scaled");
  }
  std::string scaled_after(const std::string& scores) {
    if (form_.scaled == Scaled::kByDivision)
      return add("Div", {scores, number("root", root())}, "scaled");
    return scaled_if(Scaled::kByProduct, scores);
  }

  bool sees(int64_t t, int64_t s) const {
    return form_.is_causal() ? s <= t : (t + 2 * s) % 3 != 1;
  }

  std::string masked(const std::string& scores) {
    const int64_t queries = form_.queries;
    const int64_t keys = form_.keys;
    std::vector<bool> seen;
    std::vector<float> sum;
    for (int64_t t = 0; t < queries; ++t)
      for (int64_t s = 0; s < keys; ++s) {
        seen.push_back(sees(t, s));
        sum.push_back(seen.back() ? 0 : form_.masked == Masked::kCausalSum ? -kInfinity : kLowest);
      }
    switch (form_.masked) {
      case Masked::kNothing:
        return scores;
      case Masked::kCausalSum:
        return add("Add", {scores, keep(stored("mask", {queries, keys}, sum))}, "masked");
      case Masked::kCausalLowest:
        return add("Add", {keep(stored("mask", {1, 1, queries, keys}, sum)), scores}, "masked");
      case Masked::kConstantSum:
        return add("Add", {scores, keep(stored_random("mask", {queries, keys}))}, "masked");
      case Masked::kGiven:
        add_input(graph_, "mask", form_.axes == Axes::kThree ? Ints{1, keys} : Ints{1, 1, keys});
        return add("Add", {scores, "mask"}, "masked");
      case Masked::kCausalChoice:
      case Masked::kSeen:
        return add(
            "Where",
            {keep(stored_truths("seen", {queries, keys}, seen)), scores, number("low", kLowest)},
            "masked");
      case Masked::kCausalHidden:
      case Masked::kHidden:
        seen.flip();
        return add("Where",
                   {keep(stored_truths("hidden", {queries, keys}, seen)), number("low", -kInfinity),
                    scores},
                   "masked");
    }
    return scores;
  }

  void joined(const std::string& answers) {
    std::string y = answers;
    const int64_t width = heads() * form_.value_width;
    if (form_.axes == Axes::kHeadsInFront)
      y = add("Reshape", {y}, "answers_heads",
              {{"shape", Ints{-1, heads(), form_.queries, form_.value_width}}});
    if (form_.axes != Axes::kThree) {
      y = add("Transpose", {y}, "answers_apart", {{"perm", Ints{0, 2, 1, 3}}});
      y = add("Reshape", {y}, "joined", {{"shape", Ints{0, form_.queries, width}}});
    }
    add("MatMul", {y, keep(stored_random("wo", {width, 4}))}, "y");
  }

  Form form_;
  Graph graph_;
};

Node attention_in(const Model& model) {
  for (NodeId id = 0; id < model.nodes(); ++id)
    if (model.node(id).op == "Attention") return model.node(id);
  return {};
}

void expect_one_attention(const Form& form) {
  const Graph graph = AttentionGraph(form).graph();
  const Imported imported = import_graph(graph);
  const Model& model = imported.model;
  model.check();
  ASSERT_EQ(count_of(model, "Attention"), 1);
  EXPECT_THAT(imported.notes, Contains("1 attention put together"));
  for (const char* gone : {"Softmax", "Mul", "Div", "Add", "Where", "IsNaN"})
    EXPECT_EQ(count_of(model, gone), 0) << gone;
  // Of the forms of four axes the heads are read side by side.
  EXPECT_EQ(count_of(model, "Transpose"), form.axes == Axes::kHeadsInFront ? 4 : 0);
  const Node attention = attention_in(model);
  EXPECT_EQ(ops::attribute_int(attention.attributes, "is_causal", 0), form.is_causal() ? 1 : 0);
  EXPECT_EQ(attention.inputs.size(), form.is_causal() || form.masked == Masked::kNothing ? 3U : 4U);
  expect_same_answers(graph);
}

TEST(FusedAttention, InEveryFormOfItsScale) {
  for (const Scaled scaled : {Scaled::kNowhere, Scaled::kByDivision, Scaled::kByProduct,
                              Scaled::kOnQueries, Scaled::kOnBoth})
    for (const Turned turned : {Turned::kAtOnce, Turned::kTwice, Turned::kByRows}) {
      SCOPED_TRACE(testing::Message() << int(scaled) << int(turned));
      expect_one_attention({.scaled = scaled, .turned = turned});
    }
}

TEST(FusedAttention, WithEveryMask) {
  for (int masked = 0; masked <= static_cast<int>(Masked::kHidden); ++masked)
    for (const Axes axes : {Axes::kFour, Axes::kThree, Axes::kHeadsInFront}) {
      const auto mask = static_cast<Masked>(masked);
      if (axes != Axes::kFour && mask == Masked::kCausalLowest) continue;  // of four axes
      if (axes == Axes::kHeadsInFront && mask == Masked::kGiven) continue;
      SCOPED_TRACE(testing::Message() << masked << int(axes));
      expect_one_attention({.masked = mask, .axes = axes, .guarded = masked % 2 == 0});
    }
}

// Forms drawn at random; answers, and what is learnt.
TEST(FusedAttention, LearnsTheSame) {
  std::mt19937 random(11);
  const auto draw = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  for (int i = 0; i < 24; ++i) {
    Form form{.scaled = static_cast<Scaled>(draw(5)),
              .turned = static_cast<Turned>(draw(3)),
              .masked = static_cast<Masked>(draw(9)),
              .axes = static_cast<Axes>(draw(3)),
              .heads = 1 + draw(4),
              .queries = 1 + draw(7),
              .width = 1 + draw(5),
              .value_width = 1 + draw(5),
              .guarded = draw(2) == 1};
    form.keys = form.is_causal() || draw(2) == 0 ? form.queries : 3 + draw(5);
    if (form.axes != Axes::kFour &&
        (form.masked == Masked::kCausalLowest || form.masked == Masked::kGiven))
      form.masked = Masked::kNothing;
    SCOPED_TRACE(testing::Message() << "form " << i);
    const Graph graph = AttentionGraph(form).graph();
    if ((form.masked == Masked::kSeen || form.masked == Masked::kHidden) && form.keys < 3) continue;
    EXPECT_EQ(count_of(import_graph(graph).model, "Attention"), 1);
    expect_same_answers(graph);
    expect_same_training(graph);
  }
}

// ---- near misses

int attentions_in(const Graph& graph, const ImportOptions& options = {}) {
  return count_of(import_graph(graph, options).model, "Attention");
}

GraphNode& node_named(Graph& graph, const std::string& output) {
  for (GraphNode& node : graph.nodes)
    if (node.outputs[0] == output) return node;
  throw std::out_of_range(output);
}

TEST(FusedAttention, NotOfWeightsThatSomebodyElseReads) {
  for (const char* also : {"weights", "scores", "scaled"}) {
    Graph graph = AttentionGraph({}).graph();
    graph.outputs.emplace_back(also);
    EXPECT_EQ(attentions_in(graph), 0) << also;
    Graph read = AttentionGraph({}).graph();
    read.nodes.push_back(node_of("Relu", {also}, "twice"));
    read.outputs.emplace_back("twice");
    EXPECT_EQ(attentions_in(read), 0) << also;
  }
}

TEST(FusedAttention, HeadsThatSomebodyElseReadsStayApart) {
  Graph graph = AttentionGraph({.turned = Turned::kTwice}).graph();
  graph.outputs.emplace_back("v_heads");
  EXPECT_EQ(attentions_in(graph), 1);
  EXPECT_EQ(attention_in(import_graph(graph).model).attributes.count("q_num_heads"), 0U);
  expect_same_answers(graph);
}

TEST(FusedAttention, NotOfASoftmaxOverAnythingButKeys) {
  Graph graph = AttentionGraph({}).graph();
  node_named(graph, "weights").attributes["axis"] = int64_t{2};
  EXPECT_EQ(attentions_in(graph), 0);
  expect_same_answers(graph);
}

TEST(FusedAttention, NotWithAMaskThatIsTrained) {
  const Graph graph =
      AttentionGraph({.scaled = Scaled::kOnQueries, .masked = Masked::kConstantSum}).graph();
  EXPECT_EQ(attentions_in(graph, {.train = {"mask"}}), 0);
  EXPECT_EQ(attentions_in(graph), 1);
}

TEST(FusedAttention, AScaleThatIsTrainedStays) {
  const Graph graph = AttentionGraph({.scaled = Scaled::kOnQueries}).graph();
  const Model model = import_graph(graph, {.train = {"*_scale"}}).model;
  EXPECT_EQ(count_of(model, "Mul"), 1);
  expect_same_training(graph, {.train = {"*_scale"}});
}

TEST(FusedAttention, NotOfAScaleForEachHeadNorANegativeOne) {
  Graph graph = AttentionGraph({}).graph();
  graph.initializers["root"] = stored("root", {3, 1, 1}, {1, 2, 3});
  EXPECT_EQ(attentions_in(graph), 0);
  graph.initializers["root"] = stored("root", {}, {-2});
  EXPECT_EQ(attentions_in(graph), 0);
}

TEST(FusedAttention, NotOfAChoiceThatHidesEverythingNorOfAnythingButTheLowest) {
  Graph blind = AttentionGraph({.masked = Masked::kSeen}).graph();
  EXPECT_EQ(attentions_in(blind), 1);
  std::vector<bool> seen(25, true);
  std::fill_n(seen.begin() + 5, 5, false);
  blind.initializers["seen"] = stored_truths("seen", {5, 5}, seen);
  EXPECT_EQ(attentions_in(blind), 0);
  Graph high = AttentionGraph({.masked = Masked::kSeen}).graph();
  high.initializers["low"] = stored("low", {}, {-100});
  EXPECT_EQ(attentions_in(high), 0);
}

TEST(FusedAttention, AMaskThatOnlyLooksCausalIsAnInput) {
  Graph graph = AttentionGraph({.masked = Masked::kCausalSum}).graph();
  std::vector<float> mask(25, 0);
  for (size_t t = 0; t < 5; ++t)
    for (size_t s = t + 1; s < 5; ++s) mask[t * 5 + s] = -kInfinity;
  mask[3 * 5 + 1] = 0.5F;
  graph.initializers["mask"] = stored("mask", {5, 5}, mask);
  const Model model = import_graph(graph).model;
  EXPECT_EQ(attention_in(model).inputs.size(), 4U);
  EXPECT_EQ(attention_in(model).attributes.count("is_causal"), 0U);
  expect_same_answers(graph);
}

// A large number hides everything from a query: it sees all keys alike.
TEST(FusedAttention, OfAQueryThatSeesNothingLearnsTheSame) {
  for (const float hides : {kLowest, -1e9F, -1e5F}) {
    Graph graph = AttentionGraph({.masked = Masked::kConstantSum}).graph();
    std::vector<float> mask(25, 0);
    std::fill_n(mask.begin() + 5, 5, hides);
    mask[3] = mask[17] = hides;
    graph.initializers["mask"] = stored("mask", {5, 5}, mask);
    EXPECT_EQ(attentions_in(graph), 1);
    expect_same_answers(graph);
    expect_same_training(graph);
  }
}

TEST(FusedAttention, NotWhileItsWeightsDrop) {
  Graph graph = AttentionGraph({}).graph();
  node_named(graph, "answers").inputs[0] = "dropped";
  const auto answers = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                    [](const GraphNode& n) { return n.outputs[0] == "answers"; });
  graph.nodes.insert(answers, node_of("Dropout", {"weights"}, "dropped"));
  EXPECT_EQ(attentions_in(graph), 1);
  EXPECT_EQ(attentions_in(graph, {.loss = kCrossEntropy}), 0);
}

}  // namespace
}  // namespace kerf::partitioner::onnx
