// kerf logistic and kerf svm: linear classifiers by dual coordinate descent over rows.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "apps/classifier/classifier.h"
#include "apps/classifier/linear_model.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/convergence_flags.h"
#include "apps/main/flag_values.h"
#include "apps/main/program_command.h"

namespace kerf::apps {

namespace {

const std::map<std::string, LinearLoss> kSvmLosses = {
    {to_string(LinearLoss::kHinge), LinearLoss::kHinge},
    {to_string(LinearLoss::kSquaredHinge), LinearLoss::kSquaredHinge}};

class ClassifierCommand : public ProgramCommand {
 public:
  std::string divided() const override { return "Rows"; }
  void add_flags(CLI::App& command) override;
  void run(ProgramRun& run) override;

 protected:
  ClassifierOptions options_;

 private:
  void check_flags() const;
  LinearModel model_of(const Classifier& program) const;
  void tell(ProgramRun& run, Classifier& program, int workers);

  std::string test_, out_;
  std::optional<LabelledRows> tests_;
};

void ClassifierCommand::check_flags() const {
  require(std::isfinite(options_.c) && options_.c > 0, "--C",
          format("{} is not above 0", options_.c));
  require(std::isfinite(options_.bias) && options_.bias >= 0, "--bias",
          format("{} is not 0 or more", options_.bias));
  check_convergence_flags(options_);
  require(out_.empty() || can_hold_file(out_), "--out", format("there is no folder for {}", out_));
  const bool matrix = is_matrix_file(options_.file.data);
  require(matrix == !options_.file.labels.empty(), "--labels",
          matrix ? format("{} is a matrix: name a file of its rows' labels", options_.file.data)
                 : format("{} has labels itself; this is for matrices (.mtx, .csv and .npz)",
                          options_.file.data));
}

LinearModel ClassifierCommand::model_of(const Classifier& program) const {
  return {options_.loss, options_.size.labels,  options_.c,
          options_.bias, options_.size.columns, program.weights()};
}

void ClassifierCommand::tell(ProgramRun& run, Classifier& program, int workers) {
  const LinearModel model = model_of(program);
  if (!out_.empty()) write_linear_model(out_, model);
  const LabelledSize& size = options_.size;
  Json accuracy;
  std::string tested;
  if (tests_) {
    const double found = accuracy_of(model, *tests_);
    accuracy = found;
    tested = format(", test accuracy {:.2f} %", 100 * found);
  }
  Json told = convergence_json(program.run());
  told["labels"] = {size.labels.negative, size.labels.positive};
  told["rows"] = size.rows;
  told["features"] = size.columns;
  told["nonzeros"] = std::count_if(model.weights.begin(), model.weights.end(),
                                   [](double weight) { return weight != 0; });
  told["test_accuracy"] = accuracy;
  run.answer(program.run().history(),
             format("{}, C {:g}, loss {}", name(), options_.c, to_string(options_.loss)), told,
             format("{} of {} have the label {}, the others {}\n{}{}", human_count(size.positives),
                    plural(size.rows, "row"), size.labels.positive, size.labels.negative,
                    convergence_line(program.run(), workers), tested));
}

void ClassifierCommand::run(ProgramRun& run) {
  check_flags();
  options_.size = size_of_labelled(options_.file);
  options_.most_seconds = run.most_seconds();
  const int workers = run.workers(options_.size.rows, "rows");
  if (!test_.empty()) {
    tests_ = read_libsvm(FileBytes(test_));
    require(!tests_->labels.empty(), test_, "it has no rows");
  }
  Classifier program(options_, workers);
  converge(run, program, workers);
  note_gap(program.run(), options_);
  tell(run, program, workers);
}

void ClassifierCommand::add_flags(CLI::App& command) {
  command
      .add_option("--data", options_.file.data,
                  "Rows of two labels, any two numbers: LIBSVM's text, or with --labels a matrix, "
                  "Matrix Market (.mtx), CSC (.npz) or a table (.csv)")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--labels", options_.file.labels,
                  "The labels of a matrix's rows: .mtx, .npy or .csv")
      ->type_name("FILE");
  command.add_option("--C", options_.c, "The weight of the rows' losses, against 1/2 |w|^2")
      ->capture_default_str();
  command
      .add_option("--bias", options_.bias,
                  "Give every row a feature more, of this value, and so an intercept, which counts "
                  "in |w|^2 as others do; 0: none")
      ->capture_default_str();
  command.add_option("--test", test_, "Rows to test on, as LIBSVM's text: what part is right")
      ->type_name("FILE");
  add_convergence_flags(command, options_, "rows");
  command
      .add_option("--sweeps", options_.sweeps,
                  "How often a worker goes through its rows in a round")
      ->check(whole_number<int>(1))
      ->capture_default_str();
  add_seed_flag(command, options_.seed, "Of the order of rows");
  command.add_option("--out", out_, "Where to write the model, as text")->type_name("FILE");
}

class LogisticCommand : public ClassifierCommand {
 public:
  std::string name() const override { return "logistic"; }
  std::string about() const override {
    return "Logistic regression of two classes: minimises 1/2 |w|^2 + C times the sum over rows of "
           "log(1 + e^-m), m = y w . x, y = 1 for the larger label and -1 for the smaller.";
  }
  std::string examples() const override {
    return "Examples:\n"
           "  kerf logistic --data train.libsvm --test test.libsvm --out model.txt\n"
           "  kerf logistic --data x.npz --labels y.npy --C 0.1 --bias 1 --workers 4 --json";
  }
};

class SvmCommand : public ClassifierCommand {
 public:
  std::string name() const override { return "svm"; }
  std::string about() const override {
    return "A linear support vector machine: minimises 1/2 |w|^2 + C times the sum over rows of "
           "max(0, 1 - m), or of its square, m = y w . x, y = 1 for the larger label and -1 for "
           "the smaller.";
  }
  std::string examples() const override {
    return "Examples:\n"
           "  kerf svm --data train.libsvm --test test.libsvm --out model.txt\n"
           "  kerf svm --data train.libsvm --loss squared-hinge --C 10 --workers 4 --json";
  }
  void add_flags(CLI::App& command) override {
    command.add_option("--loss", loss_, "hinge: max(0, 1 - m). squared-hinge: its square")
        ->check(CLI::IsMember(kSvmLosses))
        ->capture_default_str();
    ClassifierCommand::add_flags(command);
  }
  void run(ProgramRun& run) override {
    options_.loss = kSvmLosses.at(loss_);
    ClassifierCommand::run(run);
  }

 private:
  std::string loss_ = to_string(LinearLoss::kHinge);
};

}  // namespace

void add_logistic_command(CLI::App& app, Chosen& chosen) {
  add_program_command(std::make_shared<LogisticCommand>(), app, chosen);
}

void add_svm_command(CLI::App& app, Chosen& chosen) {
  add_program_command(std::make_shared<SvmCommand>(), app, chosen);
}

}  // namespace kerf::apps
