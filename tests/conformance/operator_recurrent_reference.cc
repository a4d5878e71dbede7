// Recurrences by plain loops, one sample, one direction and one step at a time.
#include "tests/conformance/reference_loops.h"

namespace kerf::ops {
namespace {

using namespace reference;  // NOLINT(google-build-using-namespace)
using Row = std::vector<double>;

class Recurrence {
 public:
  Recurrence(const OperatorCase& scene, const std::vector<HostTensor>& in)
      : scene_(scene),
        in_(in),
        gates_(scene.op == "RNN"   ? 1
               : scene.op == "GRU" ? 3
                                   : 4),
        hidden_(in[2].shape[2]),
        first_(number("layout") != 0),
        clip_(attribute_float(scene.attributes, "clip", 0)) {}

  int64_t steps() const { return in_[0].shape[first_ ? 1 : 0]; }
  bool samples_first() const { return first_; }

  struct Run {
    std::vector<Row> y;  // of all steps
    Row h;               // after the last
    Row c;
  };
  Run run(int64_t sample, int64_t d) const {
    const std::string direction = attribute_string(scene_.attributes, "direction", "forward");
    const bool back = direction == "reverse" || d == 1;
    const bool counted = in_.size() > 4 && scene_.inputs[4].present;
    const int64_t length = counted ? in_[4].integers[static_cast<size_t>(sample)] : steps();
    Row h = state(5, sample, d);
    Row c = state(6, sample, d);
    std::vector<Row> y(static_cast<size_t>(steps()), Row(h.size(), 0.0));
    for (int64_t p = 0; p < length; ++p) {
      const int64_t t = back ? length - 1 - p : p;
      step(sample, d, t, h, c);
      y[static_cast<size_t>(t)] = h;
    }
    return {y, h, c};
  }

 private:
  int64_t number(const char* name) const { return attribute_int(scene_.attributes, name, 0); }
  bool has(size_t i) const { return i < in_.size() && scene_.inputs[i].present; }

  Row state(size_t i, int64_t sample, int64_t d) const {
    Row row(static_cast<size_t>(hidden_), 0.0);
    for (int64_t j = 0; j < hidden_ && has(i); ++j)
      row[static_cast<size_t>(j)] = at(in_[i], first_ ? Index{sample, d, j} : Index{d, sample, j});
    return row;
  }

  // Row `row` of W or R, times a vector.
  double product(size_t i, int64_t d, int64_t row, const Row& by) const {
    double sum = 0;
    for (size_t j = 0; j < by.size(); ++j)
      sum += at(in_[i], {d, row, static_cast<int64_t>(j)}) * by[j];
    return sum;
  }
  double bias(int64_t d, int64_t row) const { return has(3) ? at(in_[3], {d, row}) : 0; }

  double function(int64_t d, size_t which, double x) const {
    const std::vector<std::string> usual =
        scene_.op == "RNN" ? std::vector<std::string>{"Tanh"}
                           : std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"};
    const auto named = attribute_strings(scene_.attributes, "activations", {});
    const size_t count = scene_.op == "RNN" ? 1 : scene_.op == "GRU" ? 2 : 3;
    const std::string name =
        named.empty() ? usual[which] : named[static_cast<size_t>(d) * count + which];
    if (clip_ > 0 && which < 2) x = std::min(std::max(x, -clip_), clip_);
    if (name == "Sigmoid") return 1 / (1 + std::exp(-x));
    if (name == "Tanh") return std::tanh(x);
    if (name == "HardSigmoid") return std::min(std::max(0.2 * x + 0.5, 0.0), 1.0);
    if (name == "Softsign") return x / (1 + std::abs(x));
    if (name == "Elu") return x < 0 ? std::exp(x) - 1 : x;
    KERF_CHECK(name == "ScaledTanh", "no reference for {}", name);
    return 1.5 * std::tanh(0.7 * x);  // as the case has it
  }

  void step(int64_t sample, int64_t d, int64_t t, Row& h, Row& c) const {
    Row x;
    for (int64_t j = 0; j < in_[0].shape[2]; ++j)
      x.push_back(at(in_[0], first_ ? Index{sample, t, j} : Index{t, sample, j}));
    // Of block `block`: what comes from x, and from h.
    const auto of_x = [&](int64_t block, int64_t j) {
      const int64_t row = block * hidden_ + j;
      return product(1, d, row, x) + bias(d, row);
    };
    const auto of_h = [&](int64_t block, int64_t j, const Row& from) {
      const int64_t row = block * hidden_ + j;
      return product(2, d, row, from) + bias(d, gates_ * hidden_ + row);
    };
    const Row before = h;
    if (scene_.op == "GRU") return gru(d, of_x, of_h, before, h);
    for (int64_t j = 0; j < hidden_; ++j) {
      const auto k = static_cast<size_t>(j);
      const auto gate = [&](int64_t block) { return of_x(block, j) + of_h(block, j, before); };
      if (scene_.op == "RNN") {
        h[k] = function(d, 0, gate(0));
        continue;
      }
      const auto peep = [&](int64_t block) {
        return has(7) ? at(in_[7], {d, block * hidden_ + j}) * c[k] : 0;
      };
      const double i = function(d, 0, gate(0) + peep(0));
      const double f = number("input_forget") != 0 ? 1 - i : function(d, 0, gate(2) + peep(2));
      c[k] = f * c[k] + i * function(d, 1, gate(3));
      h[k] = function(d, 0, gate(1) + peep(1)) * function(d, 2, c[k]);
    }
  }

  template <class OfX, class OfH>
  void gru(int64_t d, const OfX& of_x, const OfH& of_h, const Row& before, Row& h) const {
    Row reset = before;
    for (int64_t j = 0; j < hidden_; ++j)
      reset[static_cast<size_t>(j)] *= function(d, 0, of_x(1, j) + of_h(1, j, before));
    for (int64_t j = 0; j < hidden_; ++j) {
      const auto k = static_cast<size_t>(j);
      const double r = function(d, 0, of_x(1, j) + of_h(1, j, before));
      const double z = function(d, 0, of_x(0, j) + of_h(0, j, before));
      const double inner =
          number("linear_before_reset") != 0 ? r * of_h(2, j, before) : of_h(2, j, reset);
      h[k] = (1 - z) * function(d, 1, of_x(2, j) + inner) + z * before[k];
    }
  }

  const OperatorCase& scene_;
  const std::vector<HostTensor>& in_;
  int64_t gates_;
  int64_t hidden_;
  bool first_;
  double clip_;
};

}  // namespace

namespace {

// A step of a direction, as a sequence of one step: W is the identity, so that X is what the inputs
// give.
std::optional<Reference> cell_reference(const OperatorCase& scene,
                                        const std::vector<HostTensor>& in, const Shape& output,
                                        int which) {
  const bool first = attribute_int(scene.attributes, "layout", 0) != 0;
  const int64_t hidden = in[1].shape[2];
  const int64_t rows = in[1].shape[1];
  const auto has = [&](size_t i) { return i < in.size() && scene.inputs[i].present; };
  OperatorCase sequence;
  sequence.op = attribute_string(scene.attributes, "cell", "LSTM");
  sequence.attributes = {{"layout", int64_t{1}}, {"linear_before_reset", int64_t{1}}};
  if (scene.attributes.contains("activation"))
    sequence.attributes["activations"] =
        std::vector<std::string>{attribute_string(scene.attributes, "activation", "")};
  const int64_t samples = in[0].shape[first ? 0 : 1];
  const auto tensor = [&](bool present, const Shape& shape, const auto& number) {
    sequence.inputs.push_back(present ? activation(shape) : absent());
    HostTensor to;
    to.shape = shape;
    if (!present) return to;
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < shape[1]; ++j)
        for (int64_t k = 0; k < (shape.rank() > 2 ? shape[2] : 1); ++k)
          to.floats.push_back(static_cast<float>(number(i, j, k)));
    return to;
  };
  const auto state = [&](size_t i) {
    return tensor(has(i), {samples, 1, hidden}, [&](int64_t s, int64_t, int64_t j) {
      if (in[i].shape.rank() == 4) return at(in[i], first ? Index{s, 0, 0, j} : Index{0, 0, s, j});
      return at(in[i], first ? Index{s, 0, j} : Index{0, s, j});
    });
  };
  const auto none = [&] {
    return tensor(false, {1, 1}, [](int64_t, int64_t, int64_t) { return 0; });
  };
  std::vector<HostTensor> operands;
  operands.push_back(tensor(true, {samples, 1, rows}, [&](int64_t s, int64_t, int64_t k) {
    return at(in[0], first ? Index{s, 0, 0, k} : Index{0, s, 0, k});
  }));
  operands.push_back(
      tensor(true, {1, rows, rows}, [](int64_t, int64_t j, int64_t k) { return j == k ? 1 : 0; }));
  operands.push_back(tensor(true, {1, rows, hidden}, [&](int64_t, int64_t j, int64_t k) {
    return at(in[1], {0, j, k});
  }));
  operands.push_back(tensor(has(2), {1, 2 * rows}, [&](int64_t, int64_t j, int64_t) {
    return at(in[2], {0, j});
  }));
  operands.push_back(none());
  operands.push_back(state(3));
  operands.push_back(state(4));
  const Recurrence recurrence(sequence, operands);
  return for_each_element(output, [&](const Index& i) {
    const Recurrence::Run run = recurrence.run(i[first ? 0 : 2], 0);
    Sum sum;
    sum.add(1);
    sum.become((which == 1 ? run.c : run.h)[static_cast<size_t>(i.back())], 60);
    return sum;
  });
}

Reference inputs_reference(const OperatorCase& scene, const std::vector<HostTensor>& in,
                           const Shape& output, int which) {
  const bool first = attribute_int(scene.attributes, "layout", 0) != 0;
  return for_each_element(output, [&](const Index& i) {
    Sum sum;
    for (int64_t k = 0; k < in[1].shape[2]; ++k)
      sum.add(at(in[0], first ? Index{i[0], which, k} : Index{which, i[1], k}) *
              at(in[1], {0, i[3], k}));
    return sum;
  });
}

}  // namespace

std::optional<Reference> recurrent_reference(const OperatorCase& scene,
                                             const std::vector<HostTensor>& in, const Shape& output,
                                             int which) {
  if (scene.op == "RecurrentInputs") return inputs_reference(scene, in, output, which);
  if (scene.op == "RecurrentCell") return cell_reference(scene, in, output, which);
  if (scene.op != "RNN" && scene.op != "GRU" && scene.op != "LSTM") return std::nullopt;
  const Recurrence recurrence(scene, in);
  const bool first = recurrence.samples_first();
  return for_each_element(output, [&](const Index& i) {
    const bool state = which > 0;
    const int64_t sample = first ? i[0] : i[state ? 1 : 2];
    const Recurrence::Run run = recurrence.run(sample, state ? i[first ? 1 : 0] : i[first ? 2 : 1]);
    const Row& row = which == 1   ? run.h
                     : which == 2 ? run.c
                                  : run.y[static_cast<size_t>(i[first ? 1 : 0])];
    Sum sum;
    sum.add(1);  // as large as a hidden unit may be
    sum.become(row[static_cast<size_t>(i.back())], 60);
    return sum;
  });
}

}  // namespace kerf::ops
