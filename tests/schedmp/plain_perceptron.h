// A perceptron in plain loops of doubles, that runs the actions of one row with the versions of
// weights that they name: what Kerf's steps are compared with. It knows no plan but for which layer
// is in which stage, and has the rows of RandomDataset(70, 12, 5).
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "partitioner/plan.h"
#include "schedmp/safetensors.h"
#include "schedmp/schedule.h"
#include "tests/support/random_dataset.h"

namespace kerf::schedmp {

class Perceptron {
 public:
  struct Layer {
    int stage = 0;
    size_t inputs = 0, outputs = 0;
    std::vector<double> weight, bias;  // outputs x inputs
  };

  Perceptron(const partitioner::Model& model, const partitioner::Plan& plan,
             const std::vector<NamedTensor>& weights, double rate)
      : rate_(rate), stage_of_loss_(plan.stage_of(model.loss())) {
    std::map<std::string, const NamedTensor*> by_name;
    for (const NamedTensor& each : weights) by_name[each.name] = &each;
    const auto numbers = [&](partitioner::ValueId value) {
      const NamedTensor& tensor = *by_name.at(model.value(value).name);
      const auto* data = reinterpret_cast<const float*>(tensor.bytes.data());
      return std::vector<double>(data, data + tensor.shape.elements());
    };
    for (partitioner::NodeId node = 0; node < model.nodes(); ++node) {
      const partitioner::Node& each = model.node(node);
      if (each.inputs.size() < 3) continue;
      const ops::Shape& shape = model.value(each.inputs[1]).spec.shape;
      layers_.push_back({plan.stage_of(node), static_cast<size_t>(shape[1]),
                         static_cast<size_t>(shape[0]), numbers(each.inputs[1]),
                         numbers(each.inputs[2])});
    }
  }

  const std::vector<Layer>& layers() const { return layers_; }

  // One step. `rows`: of each micro-batch.
  void run(const std::vector<Action>& row, const std::vector<std::vector<int64_t>>& rows) {
    rows_ = rows;
    versions_.assign(1, layers_);
    updates_.clear();
    forward_.clear();
    inputs_.assign(rows.size(), std::vector<Matrix>(layers_.size() + 1));
    gradients_.assign(rows.size(), {});
    find_takers(row);
    clear_sums();
    for (const Action& action : row) act(action);
  }

 private:
  using Matrix = std::vector<std::vector<double>>;  // row by row

  // By micro-batch: how many rows the update has that takes it, where the loss is.
  void find_takers(const std::vector<Action>& row) {
    taken_.clear();
    for (const Action& action : row) {
      if (action.kind != ActionKind::kUpdate || action.stage != stage_of_loss_) continue;
      size_t all = 0;
      const size_t first = taken_.size(), end = static_cast<size_t>(action.micro_batch) + 1;
      for (size_t mb = first; mb < end; ++mb) all += rows_[mb].size();
      taken_.resize(end, static_cast<double>(all));
    }
  }

  void clear_sums() {
    sums_ = layers_;
    for (Layer& each : sums_) {
      std::fill(each.weight.begin(), each.weight.end(), 0.0);
      std::fill(each.bias.begin(), each.bias.end(), 0.0);
    }
  }

  // Of the stage's versions the one that an action reads.
  int version_of(const Action& action) {
    const int newest = updates_[action.stage];
    if (action.version != Action::kUnsaid) return std::max(0, newest + action.version);
    return action.kind == ActionKind::kForward ? newest
                                               : forward_.at({action.stage, action.micro_batch});
  }

  void act(const Action& action) {
    const auto mb = static_cast<size_t>(std::max(action.micro_batch, 0));
    if (action.kind == ActionKind::kForward) {
      const int version = forward_[{action.stage, action.micro_batch}] = version_of(action);
      for (size_t l = 0; l < layers_.size(); ++l)
        if (layers_[l].stage == action.stage) forward(l, mb, at(version, l));
    }
    if (action.kind == ActionKind::kInputGradient || action.kind == ActionKind::kBackward)
      for (size_t l = layers_.size(); l-- > 0;)
        if (layers_[l].stage == action.stage) back(l, mb, at(version_of(action), l));
    if (action.kind == ActionKind::kWeightGradient || action.kind == ActionKind::kBackward)
      for (size_t l = 0; l < layers_.size(); ++l)
        if (layers_[l].stage == action.stage) add(l, mb);
    if (action.kind == ActionKind::kUpdate) update(action.stage);
  }

  const Layer& at(int version, size_t layer) {
    return versions_[static_cast<size_t>(version)][layer];
  }

  void forward(size_t l, size_t mb, const Layer& layer) {
    if (l == 0) inputs_[mb][0] = features(rows_[mb]);
    Matrix& to = inputs_[mb][l + 1];
    to.assign(rows_[mb].size(), std::vector<double>(layer.outputs));
    for (size_t r = 0; r < to.size(); ++r)
      for (size_t o = 0; o < layer.outputs; ++o) {
        double sum = layer.bias[o];
        for (size_t i = 0; i < layer.inputs; ++i)
          sum += layer.weight[o * layer.inputs + i] * inputs_[mb][l][r][i];
        to[r][o] = l + 1 < layers_.size() ? std::max(sum, 0.0) : sum;
      }
  }

  // The gradient of the outputs before their ReLU is kept for W; that of the inputs goes on.
  void back(size_t l, size_t mb, const Layer& layer) {
    if (l + 1 == layers_.size()) gradients_[mb][l] = of_loss(mb);
    const Matrix& given = gradients_[mb][l];
    if (l == 0) return;
    Matrix& to = gradients_[mb][l - 1];
    to.assign(given.size(), std::vector<double>(layer.inputs));
    for (size_t r = 0; r < given.size(); ++r)
      for (size_t i = 0; i < layer.inputs; ++i) {
        if (inputs_[mb][l][r][i] <= 0) continue;
        for (size_t o = 0; o < layer.outputs; ++o)
          to[r][i] += given[r][o] * layer.weight[o * layer.inputs + i];
      }
  }

  Matrix of_loss(size_t mb) {
    Matrix gradient = inputs_[mb].back();
    for (size_t r = 0; r < gradient.size(); ++r) {
      double sum = 0;
      for (const double score : gradient[r]) sum += std::exp(score);
      for (double& each : gradient[r]) each = std::exp(each) / sum;
      gradient[r][label(rows_[mb][r])] -= 1;
      for (double& each : gradient[r]) each /= taken_[mb];
    }
    return gradient;
  }

  void add(size_t l, size_t mb) {
    Layer& sum = sums_[l];
    for (size_t r = 0; r < gradients_[mb][l].size(); ++r)
      for (size_t o = 0; o < sum.outputs; ++o) {
        sum.bias[o] += gradients_[mb][l][r][o];
        for (size_t i = 0; i < sum.inputs; ++i)
          sum.weight[o * sum.inputs + i] += gradients_[mb][l][r][o] * inputs_[mb][l][r][i];
      }
  }

  void update(int stage) {
    const auto number = static_cast<size_t>(++updates_[stage]);
    if (versions_.size() <= number) versions_.push_back(layers_);
    for (size_t l = 0; l < layers_.size(); ++l) {
      if (layers_[l].stage != stage) continue;
      const auto apply = [&](std::vector<double>& weights, std::vector<double>& sum) {
        for (size_t i = 0; i < weights.size(); ++i) weights[i] -= rate_ * std::exchange(sum[i], 0);
      };
      apply(layers_[l].weight, sums_[l].weight);
      apply(layers_[l].bias, sums_[l].bias);
      versions_[number][l] = layers_[l];
    }
  }

  static Matrix features(const std::vector<int64_t>& rows) {
    Matrix all;
    for (const int64_t row : rows) {
      std::vector<float> one(12);
      const int64_t number[] = {row};
      kerf::tests::RandomDataset(70, 12, 5).read_features(
          number, {ops::DType::kFloat32, {1, 12}, reinterpret_cast<std::byte*>(one.data())});
      all.emplace_back(one.begin(), one.end());
    }
    return all;
  }
  static size_t label(int64_t row) {
    int64_t label = 0;
    const int64_t number[] = {row};
    kerf::tests::RandomDataset(70, 12, 5).read_labels(
        number, {ops::DType::kInt64, {1}, reinterpret_cast<std::byte*>(&label)});
    return static_cast<size_t>(label);
  }

  const double rate_;
  const int stage_of_loss_;
  std::vector<Layer> layers_, sums_;            // the newest; gradients since the last update
  std::vector<std::vector<Layer>> versions_;    // of this step, by number
  std::map<int, int> updates_;                  // by stage, in this step
  std::map<std::pair<int, int>, int> forward_;  // stage, micro-batch -> version
  std::vector<std::vector<int64_t>> rows_;
  std::vector<double> taken_;
  std::vector<std::vector<Matrix>> inputs_;          // by micro-batch, by layer
  std::vector<std::map<size_t, Matrix>> gradients_;  // likewise
};

}  // namespace kerf::schedmp
