#include "apps/programs.h"

#include "apps/classifier/classifier_worker.h"
#include "apps/data/datasets.h"
#include "apps/data/given_inputs.h"
#include "apps/lasso/lasso_set_worker.h"
#include "apps/lasso/lasso_sweep_worker.h"
#include "apps/lda/lda_worker.h"
#include "apps/least_squares/least_squares.h"
#include "apps/mf/mf_worker.h"
#include "apps/models.h"
#include "schedmp/encoded_program.h"

namespace kerf::apps {

schedmp::TrainingFactories training_factories() {
  return {make_model,
          [words = std::make_shared<OpenWords>()](const std::string& name, schedmp::Split split,
                                                  const schedmp::DataRequest& request) {
            return names_given_inputs(name) ? std::shared_ptr<const schedmp::Dataset>(
                                                  std::make_shared<GivenInputs>(name, request))
                                            : make_dataset(name, split, request, words.get());
          }};
}

schedmp::ProgramFactories program_factories() {
  return {{"training", [] { return schedmp::training_worker(training_factories()); }},
          {"least-squares", schedmp::worker_half<LeastSquaresWorker>},
          {"classifier", schedmp::worker_half<ClassifierWorker>},
          {"lasso-sets", schedmp::worker_half<LassoSetWorker>},
          {"lasso-sweeps", schedmp::worker_half<LassoSweepWorker>},
          {"lda", schedmp::worker_half<LdaWorker>},
          {"mf", schedmp::worker_half<MfWorker>}};
}

}  // namespace kerf::apps
