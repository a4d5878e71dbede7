// Connectors carry values forward (A) and gradients back (A'), and the two are adjoint: <Ax, y> =
// <x, A'y> for every activation of random models under random divisions, exactly, in whole numbers.
//
//   x: one tensor per distinct box of the producer's iterations (replicas one, partial sums one
//      each)
//   y: one tensor per contribution: a use by a distinct box of the consumer's (replicas are one)
//
// The routes alone are run, with pack and unpack, in memory; no operator computes anything. Ax runs
// values' routes only and A'y gradients' only: neither side knows what the other has. What is
// reduced in slices and gathered again goes that way here, too.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ops/pack.h"
#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "partitioner/rewrite.h"
#include "partitioner/sources.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/random_cut.h"
#include "tests/partitioner/sample_models.h"
#include "tests/partitioner/wide_models.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::Selection;
using Numbers = std::vector<float>;

constexpr int64_t kSamples = 3;  // index sets of the batch are clipped to it

std::byte* bytes(Numbers& numbers) { return reinterpret_cast<std::byte*>(numbers.data()); }

// One activation, its division, and the routes that concern it.
class Crossing {
 public:
  Crossing(const Sources& sources, const std::vector<Route>& routes, ValueId value)
      : model_(sources.model()),
        sources_(sources),
        routes_(routes),
        value_(value),
        spec_(model_.value(value).spec) {}

  struct Products {
    double forward = 0;   // <Ax, y>
    double backward = 0;  // <x, A'y>
  };
  Products run(Random& random) {
    draw(random);
    return {forward(), backward()};
  }

 private:
  using Key = std::tuple<NodeId, int, int>;  // node, operand, box number

  // A tensor that one part makes, or several replicas.
  struct Made {
    Box box;
    std::set<int> makers = {};
    Numbers numbers = {};
  };
  using All = std::map<Key, Made>;

  static Key key_of(const Contribution& c) { return {c.use.node, c.use.input, c.box_number}; }

  Numbers numbers(const Box& box) const {
    return Numbers(static_cast<size_t>(ops::local_shape(box, spec_.shape, kSamples).elements()));
  }
  // to[piece] += from[piece]: what arrives twice counts twice.
  void add(const Box& from_box, Numbers& from, const Box& to_box, Numbers& to,
           const Box& piece) const {
    if (piece.empty()) return;
    Numbers message = numbers(piece);
    Selection(from_box, piece, spec_).pack(bytes(from), bytes(message), kSamples);
    Selection(to_box, piece, spec_).unpack_add(bytes(message), bytes(to), kSamples);
  }
  static double dot(const Numbers& a, const Numbers& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
    return sum;
  }
  Box overlap(const Box& a, const Box& b) const {
    return ops::normalized(ops::intersect(a, b), sources_.shape(value_));
  }

  void make(All& all, const Key& key, int part, const Box& box, Random& random) const {
    if (box.empty()) return;
    const auto [made, fresh] = all.try_emplace(key, Made{box});
    if (fresh) made->second.numbers = random_numbers(numbers(box).size(), random);
    made->second.makers.insert(part);
  }

  void draw(Random& random) {
    const Value& value = model_.value(value_);
    for (const Computation& c : sources_.computations()) {
      if (c.node == value.producer)
        make(x_, {c.node, value.output, c.box_number}, c.part,
             c.outputs[static_cast<size_t>(value.output)], random);
      for (const Use& use : model_.uses(value_))
        if (c.node == use.node)
          make(y_, {use.node, use.input, c.box_number}, c.part,
               c.inputs[static_cast<size_t>(use.input)], random);
    }
  }

  // The one tensor that `part` holds of the value; null if none.
  Made* held(int part) {
    for (auto& [key, made] : x_)
      if (made.makers.contains(part)) return &made;
    return nullptr;
  }

  std::vector<const Route*> routes(bool gradient, Leg leg) const {
    std::vector<const Route*> found;
    for (const Route& route : routes_)
      if (route.value == value_ && route.gradient == gradient && route.leg == leg)
        found.push_back(&route);
    return found;
  }

  // The slice that `part` sums up for others and itself; no axes if it sums none.
  Box slice(int part, bool gradient) const {
    Box box;
    const auto extend = [&](const Route& route) {
      for (const Piece& piece : route.pieces)
        box = box.axes.empty() ? piece.box
                               : overlap(ops::hull(box, piece.box), ops::hull(box, piece.box));
    };
    for (const Route* route : routes(gradient, Leg::kReduceScatter))
      if (route->to == part) extend(*route);
    for (const Route* route : routes(gradient, Leg::kAllGather))
      if (route->from == part) extend(*route);
    return box;
  }

  // Whether what `part` has in `own` counts in the slices that parts sum up.
  bool scattered(int part, const Box& own, bool gradient) const {
    for (const Route* route : routes(gradient, Leg::kReduceScatter))
      if ((route->from == part && !gradient) || route->to == part) return true;
    for (const Route* route : routes(gradient, Leg::kAllGather)) {
      if (route->from == part) return true;
      if (route->to == part && !ops::intersect(route->pieces[0].box, own).empty()) return true;
    }
    return false;
  }

  // What `part` has of the value once everything has arrived.
  Numbers arrived(int part, const Box& need) {
    Numbers local = numbers(need);
    Made* own = held(part);
    if (own != nullptr && !scattered(part, own->box, false))
      add(own->box, own->numbers, need, local, overlap(own->box, need));
    else if (const Box mine = slice(part, false); !mine.axes.empty())
      add_slice(part, overlap(mine, need), need, local);
    for (const Route* route : routes(false, Leg::kDirect)) {
      if (route->to != part) continue;
      Made& from = *held(route->from);
      for (const Piece& piece : route->pieces) {
        for (const Contribution& c : piece.contributions)
          EXPECT_TRUE(x_.at(key_of(c)).makers.contains(route->from)) << "sent by another";
        add(from.box, from.numbers, need, local, piece.box);
      }
    }
    for (const Route* route : routes(false, Leg::kAllGather))
      for (const Piece& piece : route->pieces)
        if (route->to == part) add_slice(route->from, piece.box, need, local);
    return local;
  }

  // to += `piece` of what `part` summed up: its own summand and those that were scattered to it.
  void add_slice(int part, const Box& piece, const Box& box, Numbers& to) {
    const Box mine = slice(part, false);
    EXPECT_TRUE(mine.contains(piece)) << ops::to_string(piece);
    Made& own = *held(part);
    add(own.box, own.numbers, box, to, overlap(own.box, piece));
    for (const Route* route : routes(false, Leg::kReduceScatter)) {
      if (route->to != part) continue;
      Made& from = *held(route->from);
      for (const Piece& summand : route->pieces)
        add(from.box, from.numbers, box, to, overlap(summand.box, piece));
    }
  }

  double forward() {
    std::map<int, Numbers> at;  // by part
    for (const int part : sources_.readers(value_))
      at[part] = arrived(part, *sources_.need(value_, part));
    double sum = 0;
    for (auto& [key, made] : y_) {
      Numbers first;
      for (const int part : made.makers) {
        Numbers read = numbers(made.box);
        add(*sources_.need(value_, part), at.at(part), made.box, read, made.box);
        if (part == *made.makers.begin())
          first = read;
        else
          EXPECT_EQ(read, first) << "replicas read the same";
      }
      sum += dot(first, made.numbers);
    }
    return sum;
  }

  // What `part` sums up to the gradient of its box.
  Numbers gathered(int part, const Box& held) {
    Numbers sum = numbers(held);
    if (!scattered(part, held, true)) {
      add_made(part, held, held, sum);
    } else if (const Box mine = slice(part, true); !mine.axes.empty()) {
      add_made(part, mine, held, sum);
      add_pieces(Leg::kReduceScatter, part, mine, held, sum);
    }
    add_pieces(Leg::kDirect, part, held, held, sum);
    for (const Route* route : routes(true, Leg::kAllGather)) {
      if (route->to != part) continue;
      for (const Piece& piece : route->pieces) {
        EXPECT_EQ(slice(route->from, true), piece.box);
        add_made(route->from, piece.box, held, sum);
        add_pieces(Leg::kReduceScatter, route->from, piece.box, held, sum);
      }
    }
    return sum;
  }

  // to += `piece` of all contributions that `part` makes.
  void add_made(int part, const Box& piece, const Box& box, Numbers& to) {
    for (auto& [key, made] : y_)
      if (made.makers.contains(part))
        add(made.box, made.numbers, box, to, overlap(made.box, piece));
  }

  // to += `within` of what comes to `part` so, made by who sends it.
  void add_pieces(Leg leg, int part, const Box& within, const Box& box, Numbers& to) {
    for (const Route* route : routes(true, leg)) {
      if (route->to != part) continue;
      for (const Piece& piece : route->pieces)
        for (const Contribution& c : piece.contributions) {
          Made& made = y_.at(key_of(c));
          EXPECT_TRUE(made.makers.contains(route->from) || is_passed_on(route->from, c))
              << "sent by one that neither makes nor gets it";
          add(made.box, made.numbers, box, to, overlap(made.box, overlap(piece.box, within)));
        }
    }
  }

  // Whether a part of a stage between gets it, to add its own.
  bool is_passed_on(int part, const Contribution& c) const {
    for (const Route* route : routes(true, Leg::kDirect))
      if (route->to == part)
        for (const Piece& piece : route->pieces)
          if (std::find(piece.contributions.begin(), piece.contributions.end(), c) !=
              piece.contributions.end())
            return true;
    return false;
  }

  double backward() {
    double sum = 0;
    for (const auto& [key, made] : x_) {
      const Numbers first = gathered(*made.makers.begin(), made.box);
      for (const int part : made.makers)
        if (part != *made.makers.begin()) {
          EXPECT_EQ(gathered(part, made.box), first) << "replicas get the same gradient";
        }
      sum += dot(made.numbers, first);
    }
    return sum;
  }

  const Model& model_;
  const Sources& sources_;
  const std::vector<Route>& routes_;
  ValueId value_;
  ops::ValueSpec spec_;
  All x_;  // by the producer's computations
  All y_;  // by the consumers'
};

void expect_adjoint(const Sources& sources, const std::vector<Route>& routes, Random& random) {
  const Model& model = sources.model();
  for (ValueId value = 0; value < model.values(); ++value) {
    const NodeId producer = model.value(value).producer;
    if (producer < 0 || producer == model.loss() || model.uses(value).empty()) continue;
    ASSERT_TRUE(sources.differentiable(value)) << model.value(value).name;
    const auto [forward, backward] = Crossing(sources, routes, value).run(random);
    EXPECT_EQ(forward, backward) << model.value(value).name << ", "
                                 << ops::describe({.shares = sources.shares(value)});
  }
}

void expect_adjoint(const Model& model, const Division& division, Random& random) {
  const Sources sources(model, division);
  expect_adjoint(sources, connect(sources), random);
}

// With its stages, between which gradients are summed on their way.
void expect_adjoint(const Model& model, const Plan& plan, Random& random) {
  expect_adjoint(Sources(model, plan.division, stages_of_parts(plan)), plan.routes, random);
}

class Adjoint : public ::testing::TestWithParam<int> {};

TEST_P(Adjoint, OfEveryActivationUnderRandomDivisions) {
  Random random(static_cast<Random::result_type>(GetParam()));
  for (int round = 0; round < 10; ++round) {
    const Model model = random_model(random);
    expect_adjoint(model, random_division(model, 1 + GetParam() % 5, kSamples + round % 4, random),
                   random);
  }
}

// Of pieces that rewrites make, and of operators with several outputs.
TEST_P(Adjoint, OfRewrittenAndWideModels) {
  Random random(static_cast<Random::result_type>(GetParam()));
  const std::vector<Model> models{
      rewritten(random_model(random), {{"split-cross-entropy", "loss", {0, 1, 4}}}),
      rewritten(testing::normalized_images(),
                {{"sync-batch-norm", "bn1"}, {"sync-batch-norm", "bn2"}}),
      rewritten(make_zoo_model("lstm-lm", {{3, 8, 4, 6}}), {{"unroll-lstm", "lstm"}}),
      testing::attention(),
      testing::tied(),
      testing::stretches()};
  for (const Model& model : models)
    expect_adjoint(model, random_division(model, 1 + GetParam() % 5, kSamples + 1, random), random);
}

// What feature and hybrid cuts insert by themselves: pairs, heads, normalisations and losses that
// exchange sums, groups of channels; and by sample what has one feature.
class AdjointOfSpread : public ::testing::TestWithParam<std::string> {};

TEST_P(AdjointOfSpread, OfEveryActivation) {
  Random random(5);
  for (const bool pairs : {true, false})
    for (const Cut cut : {Cut::kFeature, Cut::kHybrid}) {
      PlanRequest request;
      request.cut = cut;
      request.workers = 4;
      request.batch = 6;
      request.micro_batches = 1;
      request.pairs = pairs;
      const Model model = model_for(make_zoo_model_of(GetParam()), request);
      expect_adjoint(model, std::get<Plan>(make_plan(model, request, *hold_everything())), random);
    }
}

// A skip over two stages: its gradient is summed with that of the stage between.
TEST(AdjointOfStages, OfWhatSeveralRead) {
  Random random(5);
  Builder b("skips");
  const ValueId x = b.gemm(b.input("x", {ops::kBatch, 4}), 8, "fc1");
  const ValueId y = b.add(b.gemm(x, 8, "fc2"), x, "add1");
  b.loss(b.gemm(b.add(b.gemm(y, 8, "fc3"), x, "add2"), 5, "fc4"));
  const Model model = b.build();
  const auto is_relayed = [](const Route& route) {
    return route.gradient &&
           std::any_of(route.pieces.begin(), route.pieces.end(),
                       [](const Piece& piece) { return piece.contributions.size() > 1; });
  };
  size_t relayed = 0;
  for (const int workers : {3, 4, 5, 6}) {
    PlanRequest request = testing::request_of(Cut::kHybrid, workers, 6, 1);
    request.stages = 3;
    const Model made = model_for(model, request);
    const Plan plan = testing::plan_of(made, request);
    if (std::any_of(plan.routes.begin(), plan.routes.end(), is_relayed)) ++relayed;
    expect_adjoint(made, plan, random);
  }
  EXPECT_GT(relayed, 0U);
}

INSTANTIATE_TEST_SUITE_P(Zoo, AdjointOfSpread,
                         ::testing::Values("mlp 12-16-16-12", "gpt 1-16-4-4-24",
                                           "lenet5-bn width=0.125",
                                           "shufflenet width=0.06 image=32 classes=8"),
                         [](const auto& each) {
                           return each.param.substr(0, each.param.find_first_of(" -")) +
                                  std::to_string(each.index);
                         });

struct FileOfShares {
  std::string name;
  Model model;
  std::string shares;
};

// What a free cut's file says: pairs of column and row, the batch, space, heads, the vocabulary.
class AdjointOfFile : public ::testing::TestWithParam<FileOfShares> {};

TEST_P(AdjointOfFile, OfEveryActivation) {
  PlanRequest request;
  request.cut = Cut::kFree;
  request.workers = 2;
  request.batch = 4;
  request.micro_batches = 1;
  request.shares = "{\"kerf_shares\": 1, \"shares\": " + GetParam().shares + "}";
  request.shares_origin = "shares";
  Random random(5);
  const Model model = model_for(GetParam().model, request);
  expect_adjoint(model, cut_free(model, request).division, random);
}

INSTANTIATE_TEST_SUITE_P(
    Files, AdjointOfFile,
    ::testing::Values(FileOfShares{"ColumnThenRow", make_zoo_model("mlp", {{6, 8, 5}}),
                                   R"({"fc1": {"0": "0-4", "1": "5-7"},
                         "fc2": {"0": {"inputs": "0-4"}, "1": {"inputs": "5-7"}}})"},
                      FileOfShares{"Batch", testing::normalized_images(),
                                   R"({"conv1": {"0": {"samples": "0-2"}, "1": {"samples": "3"}},
                         "conv2": {"0": {"samples": "0"}, "1": {"samples": "1-3"}},
                         "head": {"0": {"samples": "0-1"}, "1": {"samples": "2-3"}},
                         "loss": {"0": {"samples": "0-1"}, "1": {"samples": "2-3"}}})"},
                      FileOfShares{"Space", testing::normalized_images(),
                                   R"({"conv1": {"0": {"rows": "0-2"}, "1": {"rows": "3-5"}},
                         "conv2": {"0": {"rows": "0-1"}, "1": {"rows": "2-3"}}})"},
                      FileOfShares{"Heads", testing::attention(),
                                   R"({"qkv": {"0": {"columns": "0-3,8-11,16-19"},
                                 "1": {"columns": "4-7,12-15,20-23"}},
                         "out": {"0": {"inner": "0-3"}, "1": {"inner": "4-7"}}})"},
                      FileOfShares{
                          "Vocabulary", testing::tied(),
                          R"({"embedding": {"0": {"vocabulary": "0-3"}, "1": {"vocabulary": "4-8"}},
                         "scores": {"0": {"outputs": "0-3"}, "1": {"outputs": "4-8"}},
                         "loss": {"0": {"classes": "0-3"}, "1": {"classes": "4-8"}}})"}),
    [](const auto& each) { return each.param.name; });

INSTANTIATE_TEST_SUITE_P(Seeds, Adjoint, ::testing::Range(1, 31));

}  // namespace
}  // namespace kerf::partitioner
