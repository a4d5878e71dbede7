// The programs that this executable's workers can run, by name.
#pragma once

#include "schedmp/program.h"
#include "schedmp/training/training.h"

namespace kerf::apps {

schedmp::TrainingFactories training_factories();
schedmp::ProgramFactories program_factories();

}  // namespace kerf::apps
