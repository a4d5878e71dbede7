// Connectors: what is inserted where layouts differ.
//
// One general rule, run twice. For values: part w needs, of every value that its boxes read, the
// hull of the boxes that their split rules name; what it does not hold comes from the holders:
//     pieces(u -> w) = held by u  intersected with  needed by w.
// A box held by several parts comes from the first of them; a box held as partial sums comes from
// all of them, summed in the order of the shares. For gradients: part u, which holds a box of a
// value, needs the sum of all contributions to that box; a contribution is what one output box of
// one consumer (one use) gives. They are summed in reverse model order (the order in which the
// backward pass makes them), wherever they come from; a contribution that replicas make comes from
// u itself if it is one of them, else from the lowest part. One route per (value, direction,
// sender, receiver), however many edges cross. If one part makes all contributions of another's
// box, it sums before it sends: one piece. Together the two are each other's adjoint, a replicated
// element counted once.
//
// In the words of the literature a route is a bridge; it begins with a slice where a piece is not
// all that is held, and ends in a concat or a sum where several pieces meet. Inputs, labels and
// parameters never travel: every part reads or keeps its own.
//
// Plain values and pure functions. sources.h answers the same rule one part and value at a time.
#pragma once

#include <string>
#include <vector>

#include "partitioner/model.h"

namespace kerf::partitioner {

// Output box `box` of `node`, as computed by `part`: what each input needs. Boxes are normalized.
struct Computation {
  NodeId node = -1;
  int part = 0;
  ops::Box box;
  int box_number = 0;  // among the node's distinct output boxes, in the order of the shares;
                       // replicas have the same, partial sums have one each
  std::vector<ops::SplitRule::Input> inputs;
  int64_t workspace = 0;  // bytes while it runs, beside its tensors; by measure_workspace()
};

// One summand of a gradient: use `use` of a value by the computation of distinct output box number
// `box_number` of its node.
struct Contribution {
  Use use;
  int box_number = 0;
  bool operator==(const Contribution&) const = default;
};

struct Piece {
  ops::Box box;                             // of the global value
  std::vector<Contribution> contributions;  // of a gradient: what this piece sums; empty for values
  int partial = -1;                         // of partial-sum values: the share number, else -1
  bool operator==(const Piece&) const = default;
};

struct Route {
  int id = 0;  // its place in the list that connect() returns
  ValueId value = -1;
  bool gradient = false;
  int from = 0;  // part
  int to = 0;    // part
  std::vector<Piece> pieces;
  bool operator==(const Route&) const = default;
};

// layouts[value] must be set for every activation. In model order, then in the order of shares.
// Throws Error{kUsage} that names node, layout and reason where an operator cannot honour its
// layout.
std::vector<Computation> computations(const Model& model, const std::vector<ops::Layout>& layouts);
// Layouts of inputs, labels and parameters follow from what reads them: an input is where it is
// read (whole, where the boxes that are read would be no layout), a parameter where its box is
// used. Throws Error{kUsage} naming the parameter whose gradient would have to be summed over
// parts.
std::vector<ops::Layout> complete_layouts(const Model& model, std::vector<ops::Layout> layouts);
// Values' routes first, by value, receiver, sender; then gradients', by value from the last.
std::vector<Route> connect(const Model& model, const std::vector<ops::Layout>& layouts);

// What a route is there for: the counts of messages between layers are known formulas, what the
// loss adds (gathering the scores, scattering their gradient) is listed apart.
enum class RouteKind : uint8_t { kLayer, kLoss };
RouteKind kind_of(const Model& model, const std::vector<ops::Layout>& layouts, const Route& route);

// Bytes of one message on this route for a micro-batch of `samples`.
size_t message_bytes(const Model& model, const Route& route, int64_t samples);
// "slice -> bridge -> concat": the connectors that a route stands for.
class Sources;
std::string connector_words(const Sources& sources, const Route& route);

}  // namespace kerf::partitioner
