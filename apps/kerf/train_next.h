// How a training that ends early is gone on with: as another process of the same command, or by
// hand.
#pragma once

#include <filesystem>

#include "apps/kerf/rebalance.h"
#include "apps/kerf/save_flags.h"
#include "apps/kerf/train_flags.h"
#include "apps/main/command.h"
#include "apps/main/drive.h"
#include "apps/next_process.h"
#include "apps/rebalance_files.h"
#include "runtime/open_file.h"

namespace kerf::apps {

class NextTraining {
 public:
  // Both outlive this; the process is told its command later than this is made.
  NextTraining(const TrainFlags& flags, const Chosen& process) : flags_(flags), process_(process) {}

  // The run writes its checkpoints there.
  void goes_on_from(const CheckpointFolder& checkpoints);
  bool can_resume() const { return !resume_from_.empty(); }

  // As a person would: by the same command, from the newest checkpoint, if there is one of this
  // run. `until_now`: its changes of plan. Throws Error that says how to go on by hand.
  [[noreturn]] void with_fewer(const FewerWorkers& fewer, const Rebalanced& until_now) const;
  // By the same command, under a plan for the speeds that were measured.
  [[noreturn]] void rebalanced(const GoesOnElsewhere& run, const Rebalance::Agreed& agreed) const;
  // Of a run that was interrupted: how to have the weights of what it leaves, if it leaves any.
  void tell_of_weights() const;

 private:
  [[noreturn]] void begin(const NextFlags& next,
                          const runtime::OpenFile& handed = runtime::OpenFile(-1)) const;

  const TrainFlags& flags_;
  const Chosen& process_;
  std::filesystem::path resume_from_;
  bool checkpoints_go_ = false;  // once the run ended well
};

}  // namespace kerf::apps
