// A linear classifier on a worker: its rows with their a (dual_losses.h), and a copy of the weights
// w = sum a_i y_i x_i. A sweep goes through the rows one after the other, in an order drawn by the
// seed, sets each a_i to its best, and adds what that changes to the copy.
//
// A row whose a stays what it is rests: for one sweep, then for three, seven and so on. Those are
// at a bound, and the work goes to the others. A look at all rows ends the rest of those that would
// move by now. An a of logistic regression hardly ever stays: to let rest what moves by little
// beside others made it slower, since soon everything else moves by less.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/classifier/classifier_messages.h"
#include "apps/classifier/training_rows.h"
#include "schedmp/program.h"
#include "schedmp/state.h"

namespace kerf::apps {

class ClassifierWorker
    : public schedmp::KeepsState<ClassifierWorker, schedmp::WorkerHalf<ClassifierMessages>> {
 public:
  // Reads its rows. Throws Error{kUsage} that names the file.
  void start(runtime::Workplace& workplace, const ClassifierJob& job) override;
  ClassifierResult update(const ClassifierTask& task) override;
  template <class Archive>
  void state(Archive& archive) {
    archive(weights_, given_, states_, before_, rests_, dual_, gap_);
  }

 private:
  template <class Loss>
  void work(const Loss& loss, const ClassifierTask& task, ClassifierResult& result);
  template <class Loss>
  void keep(const Loss& loss, double part);
  template <class Loss>
  double look_at_all(const Loss& loss);
  template <class Loss>
  void sweep(const Loss& loss, ClassifierResult& result);
  template <class Loss>
  double dual(const Loss& loss) const;
  void take(const ClassifierTask& task);

  // Of a row: how many sweeps pass it by, and how many did when it last rested.
  struct Rest {
    uint8_t left = 0;
    uint8_t last = 0;
    template <class Archive>
    void serialize(Archive& archive) {
      archive(left, last);
    }
  };

  runtime::Activity* activity_ = nullptr;
  LinearLoss loss_ = LinearLoss::kLogistic;
  double c_ = 1;
  TrainingRows rows_;
  std::vector<double> weights_, given_;  // now, and before the last sweeps
  std::vector<double> states_, before_;  // likewise
  std::vector<Rest> rests_;
  double dual_ = 0;  // of the states now
  double gap_ = 0;   // what rows added to it when the last sweep came to them
};

}  // namespace kerf::apps
