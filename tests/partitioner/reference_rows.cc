// The reference operators that reduce over an axis: normalisations, LSTM, losses.
#include <algorithm>
#include <map>

#include "tests/partitioner/reference_scalars.h"

namespace kerf::tests::reference {

using ops::Shape;

namespace {

// The largest entry along an axis: what exponentials are taken relative to, lest they overflow.
double largest_along(const ScalarTensor& x, const Index& i, int axis) {
  double most = at(x, with(i, axis, 0)).value();
  for (int64_t k = 1; k < x.shape[axis]; ++k)
    most = std::max(most, at(x, with(i, axis, k)).value());
  return most;
}

struct Moments {
  Scalar mean, variance;
};

Moments moments_of(const std::vector<Scalar>& numbers) {
  const auto count = static_cast<double>(numbers.size());
  Moments moments;
  for (const Scalar& each : numbers) moments.mean = moments.mean + each / count;
  for (const Scalar& each : numbers) {
    const Scalar distance = each - moments.mean;
    moments.variance = moments.variance + distance * distance / count;
  }
  return moments;
}

double epsilon_of(const ReferenceCall& call) {
  return double{static_cast<float>(attribute_float(call.attributes, "epsilon", 1e-5))};
}

}  // namespace

// ---- normalisation

Outputs softmax(const ReferenceCall& call) {
  const ScalarTensor& x = *call.inputs[0];
  const int axis = axis_of(call, -1, x.shape);
  return one(made(x.shape, [&](const Index& i) {
    const Scalar most = largest_along(x, i, axis);
    Scalar sum;
    for (int64_t k = 0; k < x.shape[axis]; ++k) sum = sum + exp(at(x, with(i, axis, k)) - most);
    return exp(at(x, i) - most) / sum;
  }));
}

Outputs layer_normalization(const ReferenceCall& call) {
  const ScalarTensor& x = *call.inputs[0];
  const int axis = axis_of(call, -1, x.shape);
  std::map<Index, std::vector<Scalar>> rows;
  const auto row_of = [&](const Index& i) { return Index(i.begin(), i.begin() + axis); };
  for_each_index(x.shape, [&](const Index& i) { rows[row_of(i)].push_back(at(x, i)); });
  std::map<Index, Moments> moments;
  for (const auto& [row, numbers] : rows) moments[row] = moments_of(numbers);
  return one(made(x.shape, [&](const Index& i) {
    const Moments& own = moments.at(row_of(i));
    const Index place(i.begin() + axis, i.end());
    const Scalar y = (at(x, i) - own.mean) / sqrt(own.variance + epsilon_of(call));
    const bool biased = call.inputs.size() > 2 && call.inputs[2] != nullptr;
    const Scalar scaled = y * at(*call.inputs[1], place);
    return biased ? scaled + at(*call.inputs[2], place) : scaled;
  }));
}

Outputs batch_normalization(const ReferenceCall& call) {
  const ScalarTensor& x = *call.inputs[0];
  const bool training = attribute_int(call.attributes, "training_mode", 0) != 0;
  std::vector<std::vector<Scalar>> channels(static_cast<size_t>(x.shape[1]));
  for_each_index(x.shape,
                 [&](const Index& i) { channels[static_cast<size_t>(i[1])].push_back(at(x, i)); });
  std::vector<Moments> moments;
  for (size_t c = 0; c < channels.size(); ++c)
    moments.push_back(training && !channels[c].empty()
                          ? moments_of(channels[c])
                          : Moments{call.inputs[3]->elements[c], call.inputs[4]->elements[c]});
  Outputs outputs = one(made(x.shape, [&](const Index& i) {
    const auto c = static_cast<size_t>(i[1]);
    const Scalar y = (at(x, i) - moments[c].mean) / sqrt(moments[c].variance + epsilon_of(call));
    return y * call.inputs[1]->elements[c] + call.inputs[2]->elements[c];
  }));
  if (!training) return outputs;
  outputs.resize(3);
  for (const Moments& each : moments) {
    outputs[1].elements.push_back(each.mean);
    outputs[2].elements.push_back(each.variance);
  }
  outputs[1].shape = outputs[2].shape = {x.shape[1]};
  return outputs;
}

Outputs lstm(const ReferenceCall& call) {
  const ScalarTensor& x = *call.inputs[0];
  const ScalarTensor& w = *call.inputs[1];
  const ScalarTensor& r = *call.inputs[2];
  const int64_t hidden = r.shape[2];
  Outputs outputs;
  for (const Shape& shape : call.outputs) outputs.push_back({shape, {}});
  const auto append = [&](size_t output, const std::vector<Scalar>& numbers) {
    auto& to = outputs[output].elements;
    to.insert(to.end(), numbers.begin(), numbers.end());
  };
  for (int64_t n = 0; n < x.shape[0]; ++n) {
    std::vector<Scalar> h(static_cast<size_t>(hidden));
    std::vector<Scalar> c = h;
    for (int64_t t = 0; t < x.shape[1]; ++t) {
      const std::vector<Scalar> before = h;
      const auto gate = [&](int64_t row) {  // i, o, f, c: blocks of `hidden` rows
        Scalar sum = at(*call.inputs[3], {0, row}) + at(*call.inputs[3], {0, 4 * hidden + row});
        for (int64_t k = 0; k < x.shape[2]; ++k) sum = sum + at(w, {0, row, k}) * at(x, {n, t, k});
        for (int64_t k = 0; k < hidden; ++k)
          sum = sum + at(r, {0, row, k}) * before[static_cast<size_t>(k)];
        return sum;
      };
      for (int64_t j = 0; j < hidden; ++j) {
        Scalar& cell = c[static_cast<size_t>(j)];
        cell = sigmoid(gate(2 * hidden + j)) * cell + sigmoid(gate(j)) * tanh(gate(3 * hidden + j));
        h[static_cast<size_t>(j)] = sigmoid(gate(hidden + j)) * tanh(cell);
      }
      append(0, h);
    }
    append(1, h);
    append(2, c);
  }
  return outputs;
}

// ---- losses

Outputs sum_loss(const ReferenceCall& call) {
  Scalar sum;
  for_each_index(call.inputs[0]->shape, [&](const Index& i) {
    sum = sum + at(*call.inputs[0], i) * repeated_at(*call.inputs[1], i);
  });
  return one({{}, {sum / call.normaliser}});
}

Outputs cross_entropy(const ReferenceCall& call) {
  const ScalarTensor& scores = *call.inputs[0];
  Scalar loss;
  for_each_index(call.inputs[1]->shape, [&](const Index& i) {
    Index score = i;
    score.insert(score.begin() + 1, 0);
    const Scalar most = largest_along(scores, score, 1);
    Scalar sum;
    for (int64_t c = 0; c < scores.shape[1]; ++c)
      sum = sum + exp(at(scores, with(score, 1, c)) - most);
    const auto label = static_cast<int64_t>(at(*call.inputs[1], i).value());
    loss = loss + log(sum) + most - at(scores, with(score, 1, label));
  });
  return one({{}, {loss / call.normaliser}});
}

}  // namespace kerf::tests::reference
