// A recurrence divided by hidden units, each with its gates (MXNet's and TensorFlow's LSTMs over
// several devices divide by layer; this divides a layer):
//
//   X, W --RecurrentInputs--> what the inputs give, of every step of a direction
//   that, R, B, h, c --RecurrentCell--> h, c                  one step
//   h of every step --Concat--> Y      h, c of the last --Squeeze, Concat--> Y_h, Y_c
//
// A part has the rows of W, R and B of its units' gates, its units of c and of what the inputs
// give; before a step it gets everybody's units of h. The products of the inputs of all steps are
// one. R and B are used once a step; uses by pieces of one node share an accumulator (ADR 39).
#include <algorithm>

#include "partitioner/rewrite.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::IndexSet;
using ops::Layout;

enum RecurrentInput : size_t { kX, kW, kR, kB, kLengths, kInitialH, kInitialC };
enum RecurrentAxis : size_t { kSamples, kDirections, kTime, kHidden };  // iterations

// What a node says of itself.
struct Unrolled {
  std::string name;
  std::string cell;  // RNN, GRU, LSTM
  bool samples_first = false;
  int64_t directions = 1;
  int64_t steps = 1;
  int64_t hidden = 1;
  int64_t gates = 1;
  bool reverse = false;
  std::vector<std::string> activations;

  explicit Unrolled(const Node& node)
      : name(node.name),
        cell(node.op),
        samples_first(ops::attribute_int(node.attributes, "layout", 0) != 0),
        reverse(ops::attribute_string(node.attributes, "direction", "forward") == "reverse"),
        activations(ops::attribute_strings(node.attributes, "activations", {})) {
    const std::vector<ops::IterationAxis>& axes = node.bound->space().axes;
    directions = axes[kDirections].extent;
    steps = axes[kTime].extent;
    hidden = axes[kHidden].extent;
    gates = node.bound->inputs()[kR].spec.shape[1] / hidden;
  }

  bool runs_back(int64_t direction) const { return reverse || direction == 1; }
  // The begin of the names of what a direction is made of.
  std::string chain(int64_t direction) const {
    return format("{}.{}", name, runs_back(direction) ? "backward" : "forward");
  }
  std::string step(int64_t direction, int64_t t) const {
    return format("{}.{}", chain(direction), t);
  }
  int64_t time_axis() const { return samples_first ? 1 : 0; }
  int64_t direction_axis(bool of_state) const {
    return (samples_first ? 1 : 0) + (of_state ? 0 : 1);
  }
};

// Adds the pieces to a model.
class Unrolling {
 public:
  Unrolling(const Unrolled& of, const std::vector<ValueId>& inputs, Model& to)
      : of_(of), inputs_(inputs), to_(to) {}

  // Y and the last states, as many as are named.
  std::vector<ValueId> add(size_t outputs) {
    std::vector<std::vector<ValueId>> y;
    std::vector<std::vector<ValueId>> last(2);
    for (int64_t d = 0; d < of_.directions; ++d) {
      ValueId c = -1;
      y.push_back(add_cells(d, add_product(d), c));
      const auto end = static_cast<size_t>(of_.runs_back(d) ? 0 : of_.steps - 1);
      last[0].push_back(y.back()[end]);
      last[1].push_back(c);
    }
    std::vector<ValueId> result(1);
    for (size_t state = 0; state + 1 < outputs; ++state)
      result.push_back(add_last(last[state], state == 0 ? "last_h" : "last_c"));
    result[0] = join_steps(y);
    return result;
  }

 private:
  ValueId input(size_t i) const { return i < inputs_.size() ? inputs_[i] : -1; }
  const std::vector<ValueId>& outputs(NodeId node) const { return to_.node(node).outputs; }

  // What the inputs give, step by step.
  std::vector<ValueId> add_product(int64_t d) {
    const ops::Attributes attributes{
        {"gates", of_.gates}, {"direction", d}, {"layout", int64_t{of_.samples_first}}};
    return outputs(to_.add_node(of_.chain(d) + ".inputs", "RecurrentInputs", attributes,
                                {input(kX), input(kW)}, static_cast<int>(of_.steps)));
  }

  // By step, h; and the last c.
  std::vector<ValueId> add_cells(int64_t d, const std::vector<ValueId>& given, ValueId& c) {
    const bool is_lstm = of_.cell == "LSTM";
    ops::Attributes attributes{
        {"cell", of_.cell}, {"direction", d}, {"layout", int64_t{of_.samples_first}}};
    if (of_.cell == "RNN" && !of_.activations.empty())
      attributes["activation"] = of_.activations[static_cast<size_t>(d)];
    ValueId h = input(kInitialH);
    c = is_lstm ? input(kInitialC) : -1;
    std::vector<ValueId> all(given.size());
    for (int64_t p = 0; p < of_.steps; ++p) {
      const int64_t t = of_.runs_back(d) ? of_.steps - 1 - p : p;
      std::vector<ValueId> operands{given[static_cast<size_t>(t)], input(kR), input(kB), h, c};
      while (operands.back() < 0) operands.pop_back();
      const NodeId cell =
          to_.add_node(of_.step(d, t), "RecurrentCell", attributes, operands, is_lstm ? 2 : 1);
      h = outputs(cell)[0];
      if (is_lstm) c = outputs(cell)[1];
      all[static_cast<size_t>(t)] = h;
    }
    return all;
  }

  ValueId concat(const std::string& name, int64_t axis, const std::vector<ValueId>& parts) {
    return outputs(to_.add_node(name, "Concat", {{"axis", axis}}, parts))[0];
  }

  ValueId join_steps(const std::vector<std::vector<ValueId>>& y) {
    if (y.size() == 1) return concat(of_.name, of_.time_axis(), y[0]);
    std::vector<ValueId> chains;
    for (size_t d = 0; d < y.size(); ++d)
      chains.push_back(concat(of_.chain(static_cast<int64_t>(d)), of_.time_axis(), y[d]));
    return concat(of_.name, of_.direction_axis(false), chains);
  }

  ValueId add_last(const std::vector<ValueId>& states, const std::string& which) {
    std::vector<ValueId> chains;
    for (size_t d = 0; d < states.size(); ++d)
      chains.push_back(outputs(
          to_.add_node(format("{}.{}", of_.chain(static_cast<int64_t>(d)), which), "Squeeze",
                       {{"axes", std::vector<int64_t>{of_.time_axis()}}}, {states[d]}))[0]);
    if (chains.size() == 1) return chains[0];
    return concat(format("{}.{}", of_.name, which), of_.direction_axis(true), chains);
  }

  const Unrolled& of_;
  const std::vector<ValueId>& inputs_;
  Model& to_;
};

std::vector<int64_t> no_numbers_of_steps(const Node& /*node*/, const Layout& /*division*/,
                                         int64_t /*largest*/) {
  return {};
}

std::vector<ValueId> replace_recurrence(const Node& node, const std::vector<ValueId>& inputs,
                                        const std::vector<int64_t>& numbers, Model& to) {
  if (!numbers.empty()) throw Error(ErrorCode::kUsage, "its rewrite has no numbers");
  const Unrolled of(node);
  return Unrolling(of, inputs, to).add(node.outputs.size());
}

DividedPieces divide_recurrence(const Node& node, const std::vector<int64_t>& /*numbers*/,
                                const Layout& division, int64_t /*largest*/) {
  const Unrolled of(node);
  const IndexSet all = IndexSet::all();
  DividedPieces pieces;
  const auto add = [&](const std::string& name, int part, std::vector<IndexSet> axes) {
    pieces[name].shares.push_back({part, Box{std::move(axes)}});
  };
  // [T, D, N, H] or [N, T, D, H]; without the steps [D, N, H] or [N, D, H].
  const auto states = [&](const IndexSet& samples, const IndexSet& directions,
                          const IndexSet& units, bool steps) {
    std::vector<IndexSet> axes = of.samples_first ? std::vector<IndexSet>{samples, directions}
                                                  : std::vector<IndexSet>{directions, samples};
    axes.push_back(units);
    if (steps) axes.insert(axes.begin() + of.time_axis(), all);
    return axes;
  };
  const size_t kept = node.outputs.size() - 1;  // states that are named
  for (const ops::Share& share : division.shares) {
    const IndexSet& samples = share.box.axes[kSamples];
    const IndexSet& directions = share.box.axes[kDirections];
    const IndexSet& units = share.box.axes[kHidden];
    for (int64_t d = 0; d < of.directions; ++d) {
      if (!directions.is_all() && !directions.contains(d)) continue;
      add(of.chain(d) + ".inputs", share.part, {samples, all, all, all, units, all});
      for (int64_t t = 0; t < of.steps; ++t)
        add(of.step(d, t), share.part, {samples, all, all, all, units});
      if (of.directions > 1) add(of.chain(d), share.part, states(samples, all, units, true));
      for (size_t state = 0; state < kept; ++state)
        add(of.chain(d) + (state == 0 ? ".last_h" : ".last_c"), share.part,
            states(samples, all, units, true));
    }
    add(of.name, share.part, states(samples, directions, units, true));
    for (size_t state = 0; state < kept && of.directions > 1; ++state)
      add(of.name + (state == 0 ? ".last_h" : ".last_c"), share.part,
          states(samples, directions, units, false));
  }
  return pieces;
}

RewriteRow unroll_row(std::string_view name, std::string_view help, std::string_view op) {
  return {.name = name,
          .help = help,
          .op = op,
          .divides =
              [](const ops::IterationAxis& axis) {
                return axis.kind == ops::AxisKind::kFeature && !axis.undivided.empty();
              },
          .follows = false,
          .numbers = no_numbers_of_steps,
          .replace = replace_recurrence,
          .divide = divide_recurrence};
}

}  // namespace

RewriteRow unroll_lstm() {
  return unroll_row("unroll-lstm",
                    "an LSTM divided by hidden units, each with its gates: a node a step", "LSTM");
}

RewriteRow unroll_gru() {
  return unroll_row("unroll-gru",
                    "a GRU (linear_before_reset 1) divided by hidden units: a node a step", "GRU");
}

RewriteRow unroll_rnn() {
  return unroll_row("unroll-rnn", "an RNN divided by hidden units: a node a step", "RNN");
}

}  // namespace kerf::partitioner
