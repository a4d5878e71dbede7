// kerf predict: what a model that a program wrote says of other data.
#include <memory>

#include "apps/kerf/commands.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/predict/prediction.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

struct PredictCommand {
  PredictRequest request;
  std::string out;
  bool json = false;

  int run() const;
};

int PredictCommand::run() const {
  require(out.empty() || can_hold_file(out), "--out", format("there is no folder for {}", out));
  const Prediction prediction = predict(request);
  if (!out.empty()) runtime::write_file_atomic(out, prediction.text);
  if (!json && out.empty()) tell_notes({prediction.summary});
  answer(
      json, [&] { return prediction.measures; },
      [&](bool) { return out.empty() ? prediction.text : prediction.summary + "\n"; });
  return 0;
}

}  // namespace

void add_predict_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "predict", "What a model of kerf lasso, mf, lda, logistic or svm says of other data.");
  auto state = std::make_shared<PredictCommand>();
  command
      ->add_option("--model", state->request.model,
                   "What the program's --out wrote: a file, or of mf and lda a folder")
      ->required()
      ->type_name("PATH");
  command
      ->add_option("--data", state->request.data,
                   "As the program reads it: of lasso a matrix, of logistic and svm rows with "
                   "labels, of mf the places to rate, of lda documents")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--y", state->request.y,
                   "Of a matrix's rows what should come out, to say how good the model is")
      ->type_name("FILE");
  command
      ->add_option("--out", state->out,
                   "Write the predictions here, a line each, instead of to the standard output")
      ->type_name("FILE");
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf predict --model BETA.mtx --data X.mtx --y Y.mtx\n"
      "  kerf predict --model svm.txt --data test.libsvm --out labels.txt --json");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
