#include "apps/kerf/train_next.h"

#include <string>
#include <utility>

#include "apps/main/answer.h"
#include "apps/next_process.h"
#include "apps/rebalance_files.h"
#include "runtime/error.h"
#include "runtime/process.h"
#include "schedmp/checkpoint_folder.h"
#include "schedmp/kept_memory.h"

namespace kerf::apps {

namespace {

// What was caught says how to go on by hand.
[[noreturn]] void fail_with(const Error& error, const std::string& way_on) {
  if (way_on.empty()) throw;
  throw Error(error.code(), format("{}; {}", error.message(), way_on), error.where());
}

}  // namespace

void NextTraining::goes_on_from(const CheckpointFolder& checkpoints) {
  resume_from_ = checkpoints.path();
  checkpoints_go_ = !checkpoints.stays();
}

void NextTraining::with_fewer(const FewerWorkers& fewer, const Rebalanced& until_now) const {
  NextFlags next{{"--workers", std::to_string(fewer.left())}};
  std::string from = flags_.saves.resume.empty() ? "the first step: there is no checkpoint yet"
                                                 : "the checkpoint that it was resumed from";
  std::string way_on;
  if (!resume_from_.empty() &&
      (schedmp::has_checkpoints(resume_from_) || schedmp::has_left_memory(resume_from_))) {
    next["--resume"] = resume_from_.string();
    if (checkpoints_go_) next["--checkpoints-go"] = "";
    from = "the newest checkpoint";
    way_on = format("--resume {} goes on from it", resume_from_.string());
  }
  fewer.end_if_asked(way_on);
  try {
    // Which of them are slow is measured anew: they have other numbers.
    if (!flags_.rebalance.known.empty())
      next.merge(flags_of_fewer(flags_.rebalance_folder(), fewer.left(), until_now));
    tell_notes({format("{}; goes on with {}, from {}", first_line(fewer.message()),
                       plural(fewer.left(), "worker"), from)});
    begin(next);
  } catch (const Error& error) {
    fail_with(error, way_on);
  }
}

void NextTraining::begin(const NextFlags& next, const runtime::OpenFile& handed) const {
  NextWords words = next_words(process_.argc, process_.argv, next);
  runtime::begin_process_again(words.given, process_.argv, std::move(words.more), handed.number());
}

void NextTraining::rebalanced(const GoesOnElsewhere& run, const Rebalance::Agreed& agreed) const {
  run.end_if_asked(run.message());
  NextFlags next = agreed.flags;
  next["--resume"] = resume_from_.string();
  if (checkpoints_go_) next["--checkpoints-go"] = "";
  tell_notes({agreed.told});
  try {
    const runtime::OpenFile returning = hand_returning(run.returning());
    next[kReturningFlag] = std::to_string(returning.number());
    begin(next, returning);
  } catch (const Error& error) {
    fail_with(error, run.message());
  }
}

void NextTraining::tell_of_weights() const {
  if (!can_resume() || !schedmp::has_checkpoints(resume_from_)) return;
  tell_notes(
      {format("`kerf checkpoint {} --export weights.safetensors` writes the weights of the "
              "newest checkpoint",
              flags_.out)});
}

}  // namespace kerf::apps
