// A linear classifier as a text file:
//
//   kerf svm: the larger label where w . x > 0, w a line for each feature that has a weight
//   labels -1 1
//   C 1
//   loss squared-hinge
//   bias 0
//   features 50000
//   3 0.25
//   17 -1.5
//
// Features are from 1, as LIBSVM has them, and ascend; numbers read back to the same doubles. The
// first line of logistic regression is "kerf logistic: the larger label with the probability
// 1 / (1 + e^-(w . x)), w a line for each feature that has a weight", and its loss is logistic;
// that of an SVM is hinge or squared-hinge. A bias B above 0 is the value of a feature more, behind
// the others, that all rows have.
//
// Plain values; pure functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "apps/classifier/dual_losses.h"
#include "apps/classifier/labelled_file.h"

namespace kerf::apps {

struct LinearModel {
  LinearLoss loss = LinearLoss::kLogistic;
  Labels labels;
  double c = 1;
  double bias = 0;
  int64_t features = 0;         // without the bias
  std::vector<double> weights;  // of features, and of the bias where it is above 0

  // w . x of a row with these features, from 0 and ascending, and their values. Features that the
  // model does not know have no weight.
  double score(std::span<const int32_t> features, std::span<const double> values) const;
  double label_of(double score) const { return score > 0 ? labels.positive : labels.negative; }
};

// The probability of the larger label: of logistic regression.
inline double probability_of(double score) { return LogisticLoss::sigmoid(score); }

// "hinge", as the file and the flag have it.
std::string to_string(LinearLoss loss);

// Replaces the file, atomically. Throws Error{kUnavailable} where the system refuses.
void write_linear_model(const std::filesystem::path& path, const LinearModel& model);
// Throws Error{kUsage} at "FILE:LINE" for what is no such file.
LinearModel read_linear_model(const ByteSource& file);

// The part of rows whose label the model finds; a label that it does not know it never does.
double accuracy_of(const LinearModel& model, const LabelledRows& rows);

}  // namespace kerf::apps
