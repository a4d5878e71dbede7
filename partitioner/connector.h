// Connectors: what is inserted where layouts differ.
//
// One general rule, run twice. For values: part w needs, of every value that its boxes read, the hull
// of the boxes that their split rules name; what it does not hold comes from the holders:
//     pieces(u -> w) = held by u  intersected with  needed by w.
// For gradients: part u, which holds a box of a value, needs the sum of all contributions to that
// box; a contribution is what one output box of one consumer (one use) gives. They are summed in
// reverse model order (the order in which the backward pass makes them), wherever they come from.
// One route per (value, direction, sender, receiver), however many edges cross. If one part makes all
// contributions of another's box, it sums before it sends: one piece. Together the two are each
// other's adjoint, a replicated element counted once.
//
// In the words of the literature a route is a bridge; it begins with a slice where a piece is not all
// that is held, and ends in a concat or a sum where several pieces meet.
#pragma once

#include <string>
#include <vector>

#include "partitioner/model.h"

namespace kerf::partitioner {

// Output box `box` of `node`, as computed by `part`: what each input needs.
struct Computation {
  NodeId node = -1;
  int part = 0;
  ops::Box box;
  std::vector<ops::SplitRule::Input> inputs;
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
  int id = 0;
  ValueId value = -1;
  bool gradient = false;
  int from = 0;  // part
  int to = 0;    // part
  std::vector<Piece> pieces;
  bool operator==(const Route&) const = default;
};

// layouts[value] must be set for every activation. Throws Error{kUsage} that names node, layout and
// reason where an operator cannot honour its layout.
std::vector<Computation> computations(const Model& model, const std::vector<ops::Layout>& layouts);
// Layouts of inputs, labels and parameters follow from what reads them.
std::vector<ops::Layout> complete_layouts(const Model& model, std::vector<ops::Layout> layouts);
std::vector<Route> connect(const Model& model, const std::vector<ops::Layout>& layouts);

// Bytes of one message on this route for a micro-batch of `samples`.
size_t message_bytes(const Model& model, const Route& route, int64_t samples);
// "slice -> bridge -> concat": the connectors that a route stands for.
std::string connector_words(const Model& model, const std::vector<ops::Layout>& layouts,
                            const Route& route);

}  // namespace kerf::partitioner
