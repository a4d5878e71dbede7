#include "tests/partitioner/crossing.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ops/pack.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::Selection;
using Numbers = std::vector<float>;

std::byte* bytes(Numbers& numbers) { return reinterpret_cast<std::byte*>(numbers.data()); }

// One activation, its division, and the routes that concern it.
class Crossing {
 public:
  Crossing(const Sources& sources, const std::vector<Route>& routes, ValueId value, int64_t samples)
      : model_(sources.model()),
        sources_(sources),
        routes_(routes),
        value_(value),
        spec_(model_.value(value).spec),
        samples_(samples) {}

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
    return Numbers(static_cast<size_t>(ops::local_shape(box, spec_.shape, samples_).elements()));
  }
  // to[piece] += from[piece]: what arrives twice counts twice.
  void add(const Box& from_box, Numbers& from, const Box& to_box, Numbers& to,
           const Box& piece) const {
    if (piece.empty()) return;
    Numbers message = numbers(piece);
    Selection(from_box, piece, spec_).pack(bytes(from), bytes(message), samples_);
    Selection(to_box, piece, spec_).unpack_add(bytes(message), bytes(to), samples_);
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
  int64_t samples_;
  All x_;  // by the producer's computations
  All y_;  // by the consumers'
};

void expect_adjoint(const Sources& sources, const std::vector<Route>& routes, int64_t samples,
                    Random& random) {
  const Model& model = sources.model();
  for (ValueId value = 0; value < model.values(); ++value) {
    const NodeId producer = model.value(value).producer;
    if (producer < 0 || producer == model.loss() || model.uses(value).empty()) continue;
    ASSERT_TRUE(sources.differentiable(value)) << model.value(value).name;
    const auto [forward, backward] = Crossing(sources, routes, value, samples).run(random);
    EXPECT_EQ(forward, backward) << model.value(value).name << ", "
                                 << ops::describe({.shares = sources.shares(value)});
  }
}

}  // namespace

void expect_adjoint(const Model& model, const Division& division, Random& random, int64_t samples) {
  const Sources sources(model, division);
  expect_adjoint(sources, connect(sources), samples, random);
}

void expect_adjoint(const Model& model, const Plan& plan, Random& random) {
  expect_adjoint(Sources(model, plan.division, stages_of_parts(plan)), plan.routes,
                 kCrossingSamples, random);
}

}  // namespace kerf::partitioner
