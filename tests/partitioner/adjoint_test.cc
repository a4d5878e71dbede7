// Connectors carry values forward (A) and gradients back (A'), and the two are adjoint: <Ax, y> =
// <x, A'y> for every value of random models under random layouts, exactly, in whole numbers.
//
//   x: one tensor per distinct box of the layout (replicas are one, partial sums one each)
//   y: one tensor per contribution: a use by a distinct output box (replicas are one)
//
// The routes alone are run, with pack and unpack, in memory; no operator computes anything.
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <tuple>

#include "ops/pack.h"
#include "partitioner/sources.h"
#include "tests/partitioner/random_cut.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::Region;
using Numbers = std::vector<float>;

constexpr int64_t kSamples = 3;

std::byte* bytes(Numbers& numbers) { return reinterpret_cast<std::byte*>(numbers.data()); }

// One value, its layout, and the routes that concern it.
class Crossing {
 public:
  Crossing(const Model& model, const std::vector<ops::Layout>& layouts,
           const std::vector<Route>& routes, ValueId value)
      : model_(model),
        sources_(model, layouts),
        routes_(routes),
        value_(value),
        spec_(model.value(value).spec) {}

  struct Products {
    double forward = 0;   // <Ax, y>
    double backward = 0;  // <x, A'y>
  };
  Products run(Random& random) {
    draw(random);
    return {forward(), backward()};
  }

 private:
  using Key = std::tuple<NodeId, int, int>;  // node, input, box number

  Numbers numbers(const Box& box) const {
    return Numbers(
        static_cast<size_t>(ops::local_shape(box, spec_.shape).with_batch(kSamples).elements()));
  }
  // to[piece] (+)= from[piece]
  void move(const Box& from_box, Numbers& from, const Box& to_box, Numbers& to, const Box& piece,
            bool add) const {
    if (piece.empty()) return;
    Numbers message = numbers(piece);
    Region(from_box, piece, spec_).pack(bytes(from), bytes(message), kSamples);
    const Region into(to_box, piece, spec_);
    if (add)
      into.unpack_add(bytes(message), bytes(to), kSamples);
    else
      into.unpack(bytes(message), bytes(to), kSamples);
  }
  static double dot(const Numbers& a, const Numbers& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
    return sum;
  }
  Box overlap(const Box& a, const Box& b) const {
    return ops::normalized(ops::intersect(a, b), spec_.shape);
  }

  void draw(Random& random) {
    const auto& shares = sources_.shares(value_);
    for (size_t i = 0; i < shares.size(); ++i) {
      held_[shares[i].part] = random_numbers(numbers(shares[i].box).size(), random);
      for (size_t j = 0; j < i; ++j)
        if (shares[j].box == shares[i].box && !shares[i].partial)
          held_[shares[i].part] = held_[shares[j].part];
    }
    for (const Computation& c : sources_.computations())
      for (const Use& use : model_.uses(value_)) {
        if (c.node != use.node) continue;
        const Box& box = c.inputs[static_cast<size_t>(use.input)].box;
        const Key key{use.node, use.input, c.box_number};
        boxes_[key] = box;
        makers_[key].insert(c.part);
        if (!y_.contains(key)) y_[key] = random_numbers(numbers(box).size(), random);
      }
  }

  // What `part` has of the value once everything has arrived.
  Numbers arrived(int part, const Box& need) {
    Numbers local = numbers(need);
    if (const ops::Share* own = sources_.held(value_, part))
      move(own->box, held_[part], need, local, overlap(own->box, need), own->partial);
    for (const Route& route : routes_)
      if (route.value == value_ && !route.gradient && route.to == part)
        for (const Piece& piece : route.pieces)
          move(sources_.held(value_, route.from)->box, held_[route.from], need, local, piece.box,
               piece.partial >= 0);
    return local;
  }

  double forward() {
    double sum = 0;
    for (const auto& [key, box] : boxes_)
      for (const int part : makers_[key]) {
        const Box& need = *sources_.need(value_, part);
        Numbers whole = arrived(part, need);
        Numbers read = numbers(box);
        move(need, whole, box, read, box, false);
        const double product = dot(read, y_[key]);
        if (part == *makers_[key].begin())
          sum += product;
        else  // a replica reads the same
          EXPECT_EQ(product, dot(read, y_[key]));
      }
    return sum;
  }

  // What `part` sums up to the gradient of its box.
  Numbers gathered(int part, const Box& held) {
    Numbers sum = numbers(held);
    for (const auto& [key, box] : boxes_)
      if (makers_[key].contains(part)) move(box, y_[key], held, sum, overlap(box, held), true);
    for (const Route& route : routes_) {
      if (route.value != value_ || !route.gradient || route.to != part) continue;
      for (const Piece& piece : route.pieces)
        for (const Contribution& c : piece.contributions) {
          const Key key{c.use.node, c.use.input, c.box_number};
          EXPECT_TRUE(makers_[key].contains(route.from)) << "sent by one that does not make it";
          move(boxes_[key], y_[key], held, sum, overlap(boxes_[key], piece.box), true);
        }
    }
    return sum;
  }

  double backward() {
    double sum = 0;
    const auto& shares = sources_.shares(value_);
    for (size_t i = 0; i < shares.size(); ++i) {
      const Numbers gradient = gathered(shares[i].part, shares[i].box);
      bool replica = false;
      for (size_t j = 0; j < i && !replica; ++j) {
        replica = shares[j].box == shares[i].box && !shares[i].partial;
        if (replica) {
          EXPECT_EQ(gathered(shares[j].part, shares[j].box), gradient);
        }
      }
      if (!replica) sum += dot(held_[shares[i].part], gradient);
    }
    return sum;
  }

  const Model& model_;
  Sources sources_;
  const std::vector<Route>& routes_;
  ValueId value_;
  ops::ValueSpec spec_;
  std::map<int, Numbers> held_;  // by part
  std::map<Key, Box> boxes_;
  std::map<Key, std::set<int>> makers_;
  std::map<Key, Numbers> y_;
};

class Adjoint : public ::testing::TestWithParam<int> {};

TEST_P(Adjoint, OfEveryValueUnderRandomLayouts) {
  Random random(static_cast<Random::result_type>(GetParam()));
  for (int round = 0; round < 10; ++round) {
    const Model model = random_model(random);
    const auto layouts = random_layouts(model, 1 + GetParam() % 5, random);
    const auto routes = connect(model, layouts);
    for (ValueId value = 0; value < model.values(); ++value) {
      if (!Sources(model, layouts).differentiable(value) || model.uses(value).empty()) continue;
      const auto [forward, backward] = Crossing(model, layouts, routes, value).run(random);
      EXPECT_EQ(forward, backward)
          << model.value(value).name << ", " << ops::describe(layouts[static_cast<size_t>(value)]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Adjoint, ::testing::Range(1, 31));

}  // namespace
}  // namespace kerf::partitioner
