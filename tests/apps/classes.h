// Problems for linear classifiers, files of them, and plain loops that solve them.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "apps/classifier/classifier.h"
#include "apps/classifier/classifier_worker.h"
#include "apps/data/sparse_columns.h"
#include "runtime/file.h"
#include "runtime/format.h"
#include "schedmp/scheduler.h"
#include "tests/support/inproc_crew.h"
#include "tests/support/temporary_folder.h"

namespace kerf::tests {

struct Classes {
  std::vector<std::vector<double>> x;  // row by row; a 0 is no entry
  std::vector<double> y;               // -1 or 1

  size_t features() const { return x[0].size(); }
  double margin(size_t row, const std::vector<double>& w) const {
    double sum = 0;
    for (size_t j = 0; j < w.size(); ++j) sum += x[row][j] * w[j];
    return y[row] * sum;
  }
};

// Half of the entries are 0, of no row all; labels are those of a hidden plane, but for so many
// that are wrong.
inline Classes classes_of(size_t rows, size_t features, double wrong, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> chance;
  std::vector<double> plane(features);
  for (double& each : plane) each = normal(random);
  Classes classes;
  while (classes.x.size() < rows) {
    std::vector<double> row(features);
    double side = 0;
    for (size_t j = 0; j < features; ++j) {
      const bool none = chance(random) < 0.5 && j != classes.x.size() % features;
      row[j] = none ? 0 : normal(random);
      side += row[j] * plane[j];
    }
    classes.x.push_back(row);
    classes.y.push_back((side > 0) == (chance(random) >= wrong) ? 1 : -1);
  }
  return classes;
}

inline double loss_of(apps::LinearLoss loss, double margin) {
  if (loss == apps::LinearLoss::kLogistic)
    return margin > 0 ? std::log1p(std::exp(-margin)) : std::log1p(std::exp(margin)) - margin;
  const double lacks = std::max(0.0, 1 - margin);
  return loss == apps::LinearLoss::kHinge ? lacks : lacks * lacks;
}

inline double objective_of(const Classes& classes, apps::LinearLoss loss, double c,
                           const std::vector<double>& w) {
  double sum = 0;
  for (const double each : w) sum += each * each / 2;
  for (size_t i = 0; i < classes.x.size(); ++i) sum += c * loss_of(loss, classes.margin(i, w));
  return sum;
}

// The largest eigenvalue of X X' or more.
inline double largest_curvature(const Classes& classes) {
  double sum = 0;
  for (const auto& row : classes.x)
    for (const double value : row) sum += value * value;
  return sum;
}

// Down the gradient of P, whose slope changes by no more than `curvature`.
inline std::vector<double> by_gradients(const Classes& classes, apps::LinearLoss loss, double c) {
  const double curvature = 1 + 2 * c * largest_curvature(classes);
  std::vector<double> w(classes.features()), slope;
  for (int step = 0; step < 200'000; ++step) {
    slope = w;
    double square = 0;
    for (size_t i = 0; i < classes.x.size(); ++i) {
      const double m = classes.margin(i, w);
      const double change =
          loss == apps::LinearLoss::kLogistic ? -1 / (1 + std::exp(m)) : -2 * std::max(0.0, 1 - m);
      for (size_t j = 0; j < w.size(); ++j) slope[j] += c * change * classes.y[i] * classes.x[i][j];
    }
    for (size_t j = 0; j < w.size(); ++j) {
      w[j] -= slope[j] / curvature;
      square += slope[j] * slope[j];
    }
    if (square < 1e-20) break;
  }
  return w;
}

// Up the gradient of the hinge's D, back to [0, C] after each step.
inline std::vector<double> by_dual_gradients(const Classes& classes, double c) {
  const double curvature = largest_curvature(classes);
  std::vector<double> w(classes.features()), a(classes.x.size());
  for (int step = 0; step < 200'000; ++step) {
    std::vector<double> slope;
    for (size_t i = 0; i < a.size(); ++i) slope.push_back(1 - classes.margin(i, w));
    double moved = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const double next = std::clamp(a[i] + slope[i] / curvature, 0.0, c);
      for (size_t j = 0; j < w.size(); ++j) w[j] += (next - a[i]) * classes.y[i] * classes.x[i][j];
      moved = std::max(moved, std::abs(next - a[i]));
      a[i] = next;
    }
    if (moved < 1e-14 * c) break;
  }
  return w;
}

inline std::vector<double> by_plain_loops(const Classes& classes, apps::LinearLoss loss, double c) {
  return loss == apps::LinearLoss::kHinge ? by_dual_gradients(classes, c)
                                          : by_gradients(classes, loss, c);
}

// As LIBSVM has them, with other labels: so many more features than there are have no entry but one
// of 0 in the last row.
inline std::string libsvm_of(const Classes& classes, double negative = -1, double positive = 1,
                             size_t more_features = 0) {
  std::string text;
  for (size_t i = 0; i < classes.x.size(); ++i) {
    text += format("{}", classes.y[i] > 0 ? positive : negative);
    for (size_t j = 0; j < classes.features(); ++j)
      if (classes.x[i][j] != 0) text += format(" {}:{}", j + 1, classes.x[i][j]);
    if (more_features > 0 && i + 1 == classes.x.size())
      text += format(" {}:0", classes.features() + more_features);
    text += '\n';
  }
  return text;
}

// A file of a problem, as long as it lives.
class ClassesFile {
 public:
  explicit ClassesFile(const std::string& text) { runtime::write_file_atomic(path(), text); }
  explicit ClassesFile(const Classes& classes) : ClassesFile(libsvm_of(classes)) {}

  std::string path() const { return folder_ / "data.libsvm"; }
  apps::ClassifierOptions asked(apps::LinearLoss loss, double c, double tolerance = 1e-9) const {
    apps::ClassifierOptions asked;
    asked.file.data = path();
    asked.size = apps::size_of_labelled(asked.file);
    asked.loss = loss;
    asked.c = c;
    asked.tolerance = tolerance;
    asked.most_passes = 20'000;
    return asked;
  }

 private:
  TemporaryFolder folder_;
};

inline std::unique_ptr<apps::Classifier> classified(const apps::ClassifierOptions& options,
                                                    int workers) {
  auto program = std::make_unique<apps::Classifier>(options, workers);
  const auto crew =
      inproc_crew(workers, {{program->name(), schedmp::worker_half<apps::ClassifierWorker>}});
  schedmp::run(*program, *crew);
  crew->stop();
  return program;
}

}  // namespace kerf::tests
