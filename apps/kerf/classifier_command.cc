// kerf logistic and kerf svm: linear classifiers by dual coordinate descent over rows.
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "apps/classifier/classifier.h"
#include "apps/classifier/linear_model.h"
#include "apps/kerf/answer.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/convergence_flags.h"
#include "apps/kerf/drive.h"
#include "apps/kerf/flag_values.h"
#include "apps/kerf/run_flags.h"

namespace kerf::apps {

namespace {

struct ClassifierCommand {
  ClassifierOptions options;
  CrewFlags crew_flags;
  std::optional<int> given_workers;
  int workers = 2;
  std::string loss = to_string(LinearLoss::kHinge);  // of svm
  std::string test;
  std::string out;
  std::string picture;
  bool json = false;
  CLI::App* command = nullptr;

  int run();

 private:
  void check_flags() const;
  void check_files();
  LinearModel model_of(const Classifier& program) const;
  void tell(const Classifier& program, const LinearModel& model, std::optional<double> accuracy,
            const schedmp::LoopReport& loop) const;
};

const std::map<std::string, LinearLoss> kSvmLosses = {
    {to_string(LinearLoss::kHinge), LinearLoss::kHinge},
    {to_string(LinearLoss::kSquaredHinge), LinearLoss::kSquaredHinge}};

void ClassifierCommand::check_flags() const {
  require(std::isfinite(options.c) && options.c > 0, "--C", format("{} is not above 0", options.c));
  require(std::isfinite(options.bias) && options.bias >= 0, "--bias",
          format("{} is not 0 or more", options.bias));
  require(options.sweeps >= 1, "--sweeps", "it is not at least 1");
  check_convergence_flags(options, picture);
  require(out.empty() || can_hold_file(out), "--out", format("there is no folder for {}", out));
  const bool matrix = is_matrix_file(options.file.data);
  require(matrix == !options.file.labels.empty(), "--labels",
          matrix ? format("{} is a matrix: name a file of its rows' labels", options.file.data)
                 : format("{} has labels itself; this is for matrices (.mtx and .npz)",
                          options.file.data));
}

void ClassifierCommand::check_files() {
  options.size = size_of_labelled(options.file);
  const int64_t rows = options.size.rows;
  workers = given_workers.value_or(static_cast<int>(std::min<int64_t>(2, rows)));
  require(workers >= 1 && workers <= kMostWorkers && workers <= rows, "--workers",
          format("{} is not within 1 and {}: rows are divided over them", workers,
                 std::min<int64_t>(kMostWorkers, rows)));
}

LinearModel ClassifierCommand::model_of(const Classifier& program) const {
  return {options.loss, options.size.labels,  options.c,
          options.bias, options.size.columns, program.weights()};
}

void ClassifierCommand::tell(const Classifier& program, const LinearModel& model,
                             std::optional<double> accuracy,
                             const schedmp::LoopReport& loop) const {
  const LabelledSize& size = options.size;
  const auto nonzeros = std::count_if(model.weights.begin(), model.weights.end(),
                                      [](double weight) { return weight != 0; });
  answer(
      json,
      [&] {
        Json told = convergence_json(program.run(), loop);
        told["labels"] = {size.labels.negative, size.labels.positive};
        told["rows"] = size.rows;
        told["features"] = size.columns;
        told["nonzeros"] = nonzeros;
        told["test_accuracy"] = accuracy ? Json(*accuracy) : Json();
        return told;
      },
      [&](bool) {
        const std::string tested =
            accuracy ? format(", test accuracy {:.2f} %", 100 * *accuracy) : std::string();
        return convergence_table(program.run().history(), size.rows) +
               format("\n{} of {} have the label {}, the others {}\n{}{}\n",
                      human_count(size.positives), plural(size.rows, "row"), size.labels.positive,
                      size.labels.negative, convergence_line(program.run(), loop, workers), tested);
      });
}

int ClassifierCommand::run() {
  if (command->get_name() == "svm") options.loss = kSvmLosses.at(loss);
  check_flags();
  check_files();
  std::optional<LabelledRows> tests;
  if (!test.empty()) {
    tests = read_libsvm(FileBytes(test));
    require(!tests->labels.empty(), test, "it has no rows");
  }
  ConvergenceProgress progress(progress_on_stderr(), options.size.rows, options.tolerance);
  Classifier program(options, workers,
                     [&](const ConvergencePoint& point) { progress.tell(point); });
  const schedmp::LoopReport loop = drive(program, crew_flags, {.workers = workers}, progress).loop;
  const LinearModel model = model_of(program);
  if (!out.empty()) write_linear_model(out, model);
  tell_convergence(
      program.run(), options, picture,
      format("{}, C {:g}, loss {}", command->get_name(), options.c, to_string(options.loss)));
  const auto accuracy = tests ? std::optional(accuracy_of(model, *tests)) : std::optional<double>();
  tell(program, model, accuracy, loop);
  return 0;
}

void add_classifier_flags(CLI::App& command, ClassifierCommand& state) {
  ClassifierOptions& options = state.options;
  command
      .add_option("--data", options.file.data,
                  "Rows of two labels, any two numbers: LIBSVM's text, or with --labels a matrix, "
                  "Matrix Market (.mtx) or CSC (.npz)")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--labels", options.file.labels, "The labels of a matrix's rows: .mtx or .npy")
      ->type_name("FILE");
  command.add_option("--C", options.c, "The weight of the rows' losses, against 1/2 |w|^2")
      ->capture_default_str();
  command
      .add_option("--bias", options.bias,
                  "Give every row a feature more, of this value, and so an intercept, which counts "
                  "in |w|^2 as others do; 0: none")
      ->capture_default_str();
  command.add_option("--test", state.test, "Rows to test on, as LIBSVM's text: what part is right")
      ->type_name("FILE");
  add_convergence_flags(command, options, state.picture, "rows");
  command
      .add_option("--sweeps", options.sweeps, "How often a worker goes through its rows in a round")
      ->check(whole_number<int>())
      ->capture_default_str();
  add_seed_flag(command, options.seed, "Of the order of rows");
  command.add_option("--workers", state.given_workers, "Rows are divided over them (default 2)")
      ->check(whole_number<int>())
      ->type_name("N");
  command.add_option("--out", state.out, "Where to write the model, as text")->type_name("FILE");
  add_crew_flags(command, state.crew_flags);
  add_json_flag(command, state.json);
}

std::shared_ptr<ClassifierCommand> add_classifier(CLI::App& app, const std::string& name,
                                                  const std::string& help) {
  auto state = std::make_shared<ClassifierCommand>();
  state->command = app.add_subcommand(name, help);
  return state;
}

}  // namespace

void add_logistic_command(CLI::App& app, Chosen& chosen) {
  const auto state =
      add_classifier(app, "logistic",
                     "Logistic regression of two classes: minimises 1/2 |w|^2 + C times the sum "
                     "over rows of log(1 "
                     "+ e^-m), m = y w . x, y = 1 for the larger label and -1 for the smaller.");
  add_classifier_flags(*state->command, *state);
  state->command->footer(
      "Examples:\n"
      "  kerf logistic --data train.libsvm --test test.libsvm --out model.txt\n"
      "  kerf logistic --data x.npz --labels y.npy --C 0.1 --bias 1 --workers 4 --json");
  run_when_chosen(*state->command, chosen, state);
}

void add_svm_command(CLI::App& app, Chosen& chosen) {
  const auto state = add_classifier(
      app, "svm",
      "A linear support vector machine: minimises 1/2 |w|^2 + C times the sum over rows of max(0, "
      "1 "
      "- m), or of its square, m = y w . x, y = 1 for the larger label and -1 for the smaller.");
  state->command
      ->add_option("--loss", state->loss, "hinge: max(0, 1 - m). squared-hinge: its square")
      ->check(CLI::IsMember(kSvmLosses))
      ->capture_default_str();
  add_classifier_flags(*state->command, *state);
  state->command->footer(
      "Examples:\n"
      "  kerf svm --data train.libsvm --test test.libsvm --out model.txt\n"
      "  kerf svm --data train.libsvm --loss squared-hinge --C 10 --workers 4 --json");
  run_when_chosen(*state->command, chosen, state);
}

}  // namespace kerf::apps
