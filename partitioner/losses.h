// Losses that a model gets by name: what its scores are compared with, and how.
//
//   cross-entropy    of a class for each row, or for each of its positions (int64)
//   mse              the mean of (score - target)^2; targets are float32, of the scores' shape
//   l1               the mean of |score - target|
//   huber            the mean of half the square where they are less than 1 apart, and of the
//                    distance less 1/2 elsewhere (Huber 1964)
//   bce-with-logits  the mean of log(1 + exp(score)) - score * target: cross-entropy of yes and no,
//                    targets from 0 to 1
//
// What the labels are called is "label", and the loss "loss", or as that with a number where the
// model has something by that name. Those of numbers are put together of operators that divide
// along every axis and end in a SumLoss. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "partitioner/model.h"

namespace kerf::partitioner {

inline constexpr const char* kCrossEntropy = "cross-entropy";
inline constexpr const char* kLabels = "label";
inline constexpr const char* kBinaryCrossEntropy = "bce-with-logits";

std::span<const std::string_view> loss_names();
// Adds label and loss to a model without. Scores of cross-entropy are [N, C], [N, T, C] as of
// language models, or [N, C, H, W] as of images. Throws Error{kUsage} at "--loss" for a name that
// there is not, and at `where` for scores that have no such loss.
void add_loss(Model& model, const std::string& name, ValueId scores, const std::string& where);
// The model with this loss in place of its own, of which scores are input 0; its answers are the
// result "scores".
Model with_loss(const Model& model, const std::string& name);
// Whether the model's labels are numbers to come near to, no classes.
bool has_targets(const Model& model);

}  // namespace kerf::partitioner
