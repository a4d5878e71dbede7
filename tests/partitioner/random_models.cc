#include "tests/partitioner/random_models.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>

#include "partitioner/channels_last.h"

namespace kerf::partitioner {
namespace {

using ops::Attributes;
using ops::Initializer;
using ops::kBatch;
using ops::Shape;
using Ints = std::vector<int64_t>;

class Generator {
 public:
  Generator(Family family, Random& random)
      : exact_(family == Family::kExact), scales_(family == Family::kScaled), random_(random) {}

  Model run() {
    for (int sources = 1 + pick(2); sources > 0; --sources) add_source();
    for (int left = 3 + pick(exact_ ? 4 : 6); left > 0; --left) add_operator();
    add_loss();
    model_.check();
    return std::move(model_);
  }

 private:
  struct Open {
    ValueId value = -1;
    bool used = false;
    bool optional = false;  // an output beside the first
  };

  int pick(int below) { return draw(random_, below); }
  bool chance(int of) { return pick(of) == 0; }
  // A copy: nodes that are added move the values.
  Shape shape(ValueId value) const { return model_.value(value).spec.shape; }
  bool batch_first(ValueId value) const { return shape(value)[0] < 0; }
  bool one_row(ValueId value) const { return shape(value)[0] == kBatch; }

  // ---- nodes and what they read

  ValueId node(const std::string& op, const Attributes& attributes,
               const std::vector<ValueId>& inputs, int outputs = 1) {
    for (const ValueId input : inputs)
      for (Open& open : open_)
        if (open.value == input) open.used = true;
    const std::string name = format("{}{}", op, model_.nodes());
    const NodeId id = model_.add_node(name, op, attributes, inputs, outputs);
    const auto made = model_.node(id).outputs;
    for (size_t i = 0; i < made.size(); ++i) open_.push_back({made[i], false, i > 0});
    return made[0];
  }

  // One that is there already, if there is one of this shape: a tie.
  ValueId weight(const Shape& wanted) {
    std::vector<ValueId> same;
    for (const ValueId each : weights_)
      if (shape(each) == wanted) same.push_back(each);
    if (!same.empty() && chance(2)) return same[static_cast<size_t>(pick(std::ssize(same)))];
    const double fan = static_cast<double>(wanted.elements()) / static_cast<double>(wanted[0]);
    const Role role = chance(8) ? Role::kFrozen : Role::kParameter;
    weights_.push_back(kept(wanted, {Initializer::Kind::kUniform, 1 / std::sqrt(fan)}, role));
    return weights_.back();
  }
  ValueId kept(const Shape& wanted, const Initializer& initializer, Role role = Role::kParameter) {
    return model_.add_parameter(format("kept{}", model_.values()), {ops::DType::kFloat32, wanted},
                                initializer, role);
  }
  ValueId bias(const Shape& wanted) {
    if (!chance(4)) return kept(wanted, {Initializer::Kind::kUniform, 0.5});
    ops::TensorLiteral literal{ops::DType::kFloat32, wanted, {}};
    for (int64_t i = 0; i < wanted.elements(); ++i) {
      const float number = static_cast<float>(pick(5) - 2);
      literal.bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
    }
    return model_.add_constant(format("constant{}", model_.values()), std::move(literal));
  }

  void add_source() {
    const std::string name = format("input{}", model_.values());
    const auto floats = [&](const Shape& wanted) {
      open_.push_back({model_.add_input(name, {ops::DType::kFloat32, wanted}), false, false});
    };
    switch (pick(4)) {
      case 0:
        return floats({kBatch, 4 + pick(5)});
      case 1:
        return floats({kBatch, 2 + pick(3), 2 + pick(4)});
      case 2:
        return floats({kBatch, 1 + pick(4), 4 + 2 * pick(2), 4 + pick(3)});
      default:
        node("Gather", {},
             {weight({3 + pick(4), 2 + pick(4)}),
              model_.add_input(name, {ops::DType::kInt64, {kBatch, 2 + pick(3)}})});
    }
  }

  // ---- operators: each answers whether it can read x

  using Try = bool (Generator::*)(ValueId);

  void add_operator() {
    static const std::vector<Try> exact{
        &Generator::relu,   &Generator::add,     &Generator::add_bias, &Generator::split,
        &Generator::concat, &Generator::product, &Generator::move,     &Generator::reshape,
        &Generator::conv,   &Generator::conv,    &Generator::pool,     &Generator::pool};
    static const std::vector<Try> any{&Generator::squash,     &Generator::softmax,
                                      &Generator::attention,  &Generator::layer_norm,
                                      &Generator::batch_norm, &Generator::batch_norm,
                                      &Generator::recurrence};
    static const std::vector<Try> scaled{&Generator::squash,     &Generator::softmax,
                                         &Generator::scale,      &Generator::attention,
                                         &Generator::layer_norm, &Generator::batch_norm,
                                         &Generator::batch_norm, &Generator::recurrence};
    for (;;) {
      const ValueId x = open_[static_cast<size_t>(pick(std::ssize(open_)))].value;
      const auto& family = exact_ || chance(2) ? exact : scales_ ? scaled : any;
      if ((this->*family[static_cast<size_t>(pick(std::ssize(family)))])(x)) return;
    }
  }

  bool relu(ValueId x) {
    node("Relu", {}, {x});
    return true;
  }
  bool add_bias(ValueId x) {
    const Shape s = shape(x);
    if (s[s.rank() - 1] < 0) return false;
    node("Add", {}, {x, bias(s.rank() == 4 ? Shape{s[1], 1, 1} : Shape{s[s.rank() - 1]})});
    return true;
  }
  // By a parameter that is repeated over it.
  bool scale(ValueId x) {
    const Shape s = shape(x);
    if (s[s.rank() - 1] < 0) return false;
    const ValueId factor = bias(s.rank() == 4 ? Shape{s[1], 1, 1} : Shape{s[s.rank() - 1]});
    node(chance(2) ? "Mul" : "Sub", {}, {x, factor});
    return true;
  }
  // Another value of this shape.
  std::optional<ValueId> partner(ValueId x) {
    std::vector<ValueId> found;
    for (const Open& open : open_)
      if (open.value != x && shape(open.value) == shape(x)) found.push_back(open.value);
    if (found.empty()) return {};
    return found[static_cast<size_t>(pick(std::ssize(found)))];
  }
  bool add(ValueId x) {
    const auto other = partner(x);
    if (other) node("Add", {}, {x, *other});
    return other.has_value();
  }
  bool concat(ValueId x) {
    const auto other = partner(x);
    if (!other || !batch_first(x) || shape(x).elements_per_sample() > 60) return false;
    node("Concat", {{"axis", int64_t{1} + pick(shape(x).rank() - 1)}}, {x, *other});
    return true;
  }
  bool split(ValueId x) {
    const int axis = 1 + pick(shape(x).rank() - 1);
    const int64_t extent = shape(x)[axis];
    if (!batch_first(x) || extent < 2) return false;
    const int64_t first = 1 + pick(static_cast<int>(extent) - 1);
    node("Split", {{"axis", int64_t{axis}}, {"split", Ints{first, extent - first}}}, {x}, 2);
    return true;
  }
  bool product(ValueId x) {
    const Shape s = shape(x);
    const int64_t inner = s[s.rank() - 1];
    const int64_t outputs = chance(3) ? inner : 2 + pick(6);
    if (inner < 0) return false;
    if (s.rank() > 2 || chance(4)) {
      node("MatMul", {}, {x, weight({inner, outputs})});
      return true;
    }
    const bool transposed = chance(2);
    std::vector<ValueId> inputs{x,
                                weight(transposed ? Shape{outputs, inner} : Shape{inner, outputs})};
    if (chance(2)) inputs.push_back(bias({outputs}));
    node("Gemm", {{"transB", int64_t{transposed}}, {"alpha", chance(4) ? 0.5 : 1.0}}, inputs);
    return true;
  }
  bool move(ValueId x) {
    const int rank = shape(x).rank();
    if (rank < 3) return false;
    Ints perm;
    for (int64_t axis = 0; axis < rank; ++axis) perm.push_back(axis);
    const bool with_batch = rank == 3 && (!batch_first(x) || chance(3));
    if (with_batch)
      std::swap(perm[0], perm[1]);
    else
      std::shuffle(perm.begin() + 1, perm.end(), random_);
    node("Transpose", {{"perm", perm}}, {x});
    return true;
  }
  bool reshape(ValueId x) {
    const Shape s = shape(x);
    if (!batch_first(x)) return false;
    if (s[0] != kBatch) {
      Ints wanted{-1, -s[0]};
      wanted.insert(wanted.end(), s.begin() + 1, s.end());
      if (wanted.size() > 4) return false;
      node("Reshape", {{"shape", wanted}}, {x});
      return true;
    }
    if (s.rank() == 3 && chance(2)) {
      node("Reshape", {{"shape", Ints{-1, s[2]}}}, {x});
      return true;
    }
    if (s.rank() > 2) {
      node("Flatten", {}, {x});
      return true;
    }
    const int64_t factor = 2 + pick(3);
    if (s[1] % factor != 0) return false;
    const Ints wanted = chance(2) ? Ints{0, factor, s[1] / factor} : Ints{0, factor, 1, -1};
    node("Reshape", {{"shape", wanted}}, {x});
    return true;
  }
  bool conv(ValueId x) {
    const Shape s = shape(x);
    if (s.rank() != 4 || !one_row(x)) return false;
    const int64_t kernel = 1 + pick(3);
    const int64_t pad = kernel == 3 ? pick(2) : 0;
    if (s[2] + 2 * pad < kernel || s[3] + 2 * pad < kernel) return false;
    const int64_t groups = s[1] % 2 == 0 && chance(3) ? 2 : 1;
    const int64_t filters = groups * (1 + pick(3));
    std::vector<ValueId> inputs{x, weight({filters, s[1] / groups, kernel, kernel})};
    if (chance(2)) inputs.push_back(bias({filters}));
    const int64_t stride = 1 + pick(2);
    node("Conv",
         {{"group", groups}, {"pads", Ints{pad, pad, pad, pad}}, {"strides", Ints{stride, stride}}},
         inputs);
    return true;
  }
  bool pool(ValueId x) {
    const Shape s = shape(x);
    if (s.rank() != 4 || !one_row(x) || s[2] < 2 || s[3] < 2) return false;
    const int64_t stride = 1 + pick(2);
    node(chance(2) ? "MaxPool" : "AveragePool",
         {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{stride, stride}}}, {x});
    return true;
  }

  // ---- those that round

  bool squash(ValueId x) {
    node(chance(2) ? "Tanh" : "Sigmoid", {}, {x});
    return true;
  }
  bool softmax(ValueId x) {
    const Shape s = shape(x);
    if (s[s.rank() - 1] < 2) return false;
    node("Softmax", {{"axis", int64_t{-1}}}, {x});
    return true;
  }
  // [..., T, D] times its own transpose.
  bool attention(ValueId x) {
    const Shape s = shape(x);
    if (s.rank() < 3 || !batch_first(x) || s[s.rank() - 2] > 6) return false;
    Ints perm;
    for (int64_t axis = 0; axis < s.rank(); ++axis) perm.push_back(axis);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    node("MatMul", {}, {x, node("Transpose", {{"perm", perm}}, {x})});
    return true;
  }
  bool layer_norm(ValueId x) {
    const Shape s = shape(x);
    const int64_t row = s[s.rank() - 1];
    if (row < 3) return false;
    std::vector<ValueId> inputs{x, kept({row}, {Initializer::Kind::kOne})};
    if (chance(2)) inputs.push_back(kept({row}, {Initializer::Kind::kUniform, 0.5}));
    node("LayerNormalization", {{"epsilon", 1e-2}}, inputs);
    return true;
  }
  bool batch_norm(ValueId x) {
    if (!one_row(x)) return false;
    const Shape c{shape(x)[1]};
    const bool training = !chance(4);
    const Role role = training || chance(2) ? Role::kState : Role::kFrozen;
    node("BatchNormalization", {{"training_mode", int64_t{training}}, {"epsilon", 1e-2}},
         {x, kept(c, {Initializer::Kind::kOne}), kept(c, {Initializer::Kind::kUniform, 0.5}),
          kept(c, {Initializer::Kind::kZero}, role), kept(c, {Initializer::Kind::kOne}, role)},
         training ? 3 : 1);
    if (training) {  // what it says of its states is no activation that others read
      open_.pop_back();
      open_.pop_back();
    }
    return true;
  }
  bool recurrence(ValueId x) {
    const Shape s = shape(x);
    if (s.rank() != 3 || !one_row(x)) return false;
    const int64_t hidden = 2 + pick(3);
    const Initializer small{Initializer::Kind::kUniform, 0.5};
    const ValueId y = node("LSTM", {{"hidden_size", hidden}, {"layout", int64_t{1}}},
                           {x, kept({1, 4 * hidden, s[2]}, small),
                            kept({1, 4 * hidden, hidden}, small), kept({1, 8 * hidden}, small)},
                           3);
    node("Reshape", {{"shape", Ints{0, s[1], hidden}}}, {y});
    return true;
  }

  // ---- the loss, of all that nobody reads yet

  ValueId flat(ValueId x) {
    if (!batch_first(x)) x = node("Transpose", {{"perm", Ints{1, 0, 2}}}, {x});
    if (!one_row(x))
      x = node("Reshape", {{"shape", Ints{-1, shape(x).elements_per_sample()}}}, {x});
    return shape(x).rank() > 2 ? node("Flatten", {}, {x}) : x;
  }

  void add_loss() {
    std::vector<ValueId> ends;
    for (const Open& open : open_)
      if (!open.used && !(open.optional && chance(2))) ends.push_back(open.value);
    ValueId scores = ends[0];
    const bool as_it_is =
        exact_ && ends.size() == 1 && one_row(scores) && model_.needs_gradient(scores) && chance(2);
    if (!as_it_is) {
      scores = -1;
      for (const ValueId end : ends) {
        const ValueId x = flat(end);
        const ValueId four =
            node("Gemm", {}, {x, kept({shape(x)[1], 4}, {Initializer::Kind::kUniform, 0.5})});
        scores = scores < 0 ? four : node("Add", {}, {scores, four});
      }
    }
    const auto second =
        exact_ ? weigh(scores) : model_.add_label("label", {ops::DType::kInt64, {kBatch}});
    model_.add_node("loss", exact_ ? "SumLoss" : "SoftmaxCrossEntropyLoss", {}, {scores, second});
  }

  // Weights by row, and by other axes whose extent is a power of two: what the executor divides by
  // is the number of weights.
  ValueId weigh(ValueId scores) {
    Shape weights = shape(scores);
    for (int axis = 1; axis < weights.rank(); ++axis)
      if ((weights[axis] & (weights[axis] - 1)) != 0 || chance(2)) weights[axis] = 1;
    return model_.add_input("loss.weights", {ops::DType::kFloat32, weights});
  }

  const bool exact_;
  const bool scales_;
  Random& random_;
  Model model_{"random"};
  std::vector<Open> open_;
  std::vector<ValueId> weights_;
};

}  // namespace

Model random_net_of_onnx(Family family, Random& random) { return Generator(family, random).run(); }

Model random_net(Family family, Random& random) {
  Model model = random_net_of_onnx(family, random);
  return draw(random, 2) == 0 ? channels_last(model) : model;
}

}  // namespace kerf::partitioner
