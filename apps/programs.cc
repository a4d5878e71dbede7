#include "apps/programs.h"

#include "apps/data/datasets.h"
#include "apps/least_squares/least_squares.h"
#include "apps/models.h"

namespace kerf::apps {

schedmp::TrainingFactories training_factories() { return {make_model, make_dataset}; }

schedmp::ProgramFactories program_factories() {
  return {{"training", [] { return std::make_unique<schedmp::Training>(training_factories()); }},
          {"least-squares", [] { return std::make_unique<LeastSquares>(); }}};
}

}  // namespace kerf::apps
