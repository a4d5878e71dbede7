// Connectors: what is inserted where layouts differ.
//
// A node's *division* is a layout of its iterations (ops/iteration.h): which part computes which
// box of them. Layouts of values follow from it, and so does all that travels, by one general rule
// that is run twice. For values: part w needs, of every value that its calls read, the hull of the
// boxes that their iterations touch; what it does not hold comes from the holders:
//     pieces(u -> w) = held by u  intersected with  needed by w.
// A box held by several parts comes from the first of them; a box held as partial sums comes from
// all of them, summed in the order of the division's boxes. For gradients: part u, which holds a
// box of a value, needs the sum of all contributions to that box; a contribution is what one box of
// iterations of one consumer (one use) gives. They are summed in reverse model order (the order in
// which the backward pass makes them), wherever they come from; a contribution that replicas make
// comes from u itself if it is one of them, else from the lowest part. One route per (value,
// direction, leg, sender, receiver), however many edges cross. Together the two are each other's
// adjoint, a replicated element counted once. Sums may be made on the way (sums.h): a part that
// makes several contributions sends their sum, to an earlier stage's part that makes some as well
// if there is one; partial sums that several parts need are reduced and gathered in slices.
//
// Parameters are values too: their homes (homes.h) hold them, gradients are summed into homes by
// the second rule, once a step, after every micro-batch; what parts read beyond their homes is
// published by the first, after the update. Inputs and labels never travel: every part reads its
// own.
//
// In the words of the literature a route is a bridge; it begins with a slice where a piece is not
// all that is held, and ends in a concat or a sum where several pieces meet.
//
// Plain values and pure functions. sources.h answers the same rule one part and value at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "partitioner/model.h"

namespace kerf::partitioner {

// How a plan divides a model: by node, a layout of its iterations; index sets of symbolic axes
// refer to micro-batches of `largest` samples.
struct Division {
  std::vector<ops::Layout> nodes;
  int64_t largest = 1;
  // Replica r (replicas.h) has as many parts, from this number times r on; 0: there is one replica.
  int replica_parts = 0;
  int replica_of(int part) const { return replica_parts > 0 ? part / replica_parts : 0; }
  bool operator==(const Division&) const = default;
};

// A box of a node's iterations, as computed by `part`: what of each operand it touches. Boxes are
// normalized; without axes where an operand is absent, empty where it is not used.
struct Computation {
  NodeId node = -1;
  int part = 0;
  ops::Box iterations;
  int box_number = 0;  // among the node's distinct boxes, in the order of the shares; parts that
                       // compute one box of the same micro-batches have the same
  std::vector<ops::Box> inputs = {};
  std::vector<ops::Box> outputs = {};
};

// One summand of a tensor: of a gradient, what box number `box_number` of the consumer's iterations
// gives for its input `use.input`; of a value, what the producer's gives for its output
// `use.input`.
struct Contribution {
  Use use;
  int box_number = 0;
  bool operator==(const Contribution&) const = default;
};

struct Piece {
  ops::Box box;  // of the global value
  // What this piece sums; empty where it is no summand but the value itself.
  std::vector<Contribution> contributions = {};
  bool operator==(const Piece&) const = default;
};

// What a route of the step vector (step_vector.h), which is no value of the model, has for a value.
inline constexpr ValueId kStepVector = -1;

// How a message takes part in a sum that parts share (sums.h).
enum class Leg : uint8_t {
  kDirect,  // from where it is made, or summed so far, to where it is read, held or summed on
  kReduceScatter,  // a summand of the slice that its receiver sums up
  kAllGather,      // the slice that its sender summed up
};

std::string_view to_string(Leg leg);  // "direct", "reduce-scatter", "all-gather"
// Throws Error{kUsage, ..., where} on anything else.
Leg parse_leg(const std::string& name, const std::string& where);

struct Route {
  int id = 0;  // its place in the plan's list: connect()'s, then the step vector's
  ValueId value = kStepVector;
  bool gradient = false;
  int from = 0;  // part
  int to = 0;    // part
  std::vector<Piece> pieces;
  Leg leg = Leg::kDirect;
  bool operator==(const Route&) const = default;
};

// In model order, then in the order of shares. Throws Error{kUsage} that names node, division and
// reason where an operator cannot be divided so.
std::vector<Computation> computations(const Model& model, const Division& division);
// Whole nodes on the parts: what a layer cut is made of.
ops::Layout whole_division(const Model& model, NodeId node, int part);
// The layouts of all values: of activations those that the division gives; an input is where it is
// read (whole, where the boxes that are read would be no layout); of a parameter its homes.
std::vector<ops::Layout> layouts_of(const Model& model, const Division& division);
// The division of a node whose output 0 has this layout; nothing where its boxes are no boxes of
// iterations.
std::optional<ops::Layout> division_of(const Model& model, NodeId node, const ops::Layout& output,
                                       int64_t largest);
// Values' routes first, by value, receiver, leg, sender; then gradients', by value from the last.
// `stage_of`: part -> stage, by which gradients are summed on their way; empty: one stage.
std::vector<Route> connect(const Model& model, const Division& division,
                           const std::vector<int>& stage_of = {});
class Sources;
std::vector<Route> connect(const Sources& sources);
class Sums;
std::vector<Route> connect(const Sums& sums);

// What a route is there for: the counts of messages between layers are known formulas, what the
// loss adds (gathering the scores, scattering their gradient), what parameters cost once a step and
// what the step vector does are listed apart.
enum class RouteKind : uint8_t { kLayer, kLoss, kWeight, kStep };
RouteKind kind_of(const Model& model, const Division& division, const Route& route);

// Whether it carries a parameter, its gradient, or the step vector: one message a step.
bool is_of_step(const Model& model, const Route& route);
// Whether a step carries anything on it: one of forward passes alone has neither gradients nor what
// goes once a step.
inline bool is_carried(const Model& model, const Route& route, bool trains) {
  return trains || (!route.gradient && !is_of_step(model, route));
}
// "relu1.output", "the step vector"; and with "the gradient of" before what goes backward.
const std::string& value_name(const Model& model, const Route& route);
std::string name_of(const Model& model, const Route& route);

// Bytes of one message on this route for a micro-batch of `samples`.
size_t message_bytes(const Model& model, const Route& route, int64_t samples);
// "slice -> bridge -> concat", "bridge -> sum (reduce-scatter)": the connectors that a route stands
// for; none of the step vector's, which no cut inserts.
std::string connector_words(const Sums& sums, const Route& route);

}  // namespace kerf::partitioner
