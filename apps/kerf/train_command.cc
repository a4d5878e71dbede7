// kerf train: plan, run, compare what happened with what was predicted, and keep the results.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "apps/data/datasets.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/flag_values.h"
#include "apps/kerf/train_report.h"
#include "apps/report/terminal.h"
#include "partitioner/picture.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

// Epochs that so many steps touch, at least one.
int epochs_of(int64_t steps, int64_t rows, int64_t batch) {
  const int64_t per_epoch = (rows + batch - 1) / batch;
  return static_cast<int>(std::clamp<int64_t>((steps + per_epoch - 1) / per_epoch, 1, INT32_MAX));
}

constexpr std::string_view kShares = ".shares-";

// Share folders that killed runs left here.
void remove_abandoned_shares(const fs::path& out) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(out, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kShares)) continue;
    pid_t owner = 0;
    std::from_chars(name.data() + kShares.size(), name.data() + name.size(), owner);
    if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), ignored);
  }
}

// Where workers leave their shares of the weights: OUT/.shares-PID-XXXXXX. Gone when the run is
// over, however it ends; after a SIGKILL, when the next one begins.
class ShareFolder {
 public:
  explicit ShareFolder(const fs::path& out) {
    remove_abandoned_shares(out);
    std::string name = (fs::absolute(out) / format("{}{}-XXXXXX", kShares, ::getpid())).string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error(ErrorCode::kUnavailable, "cannot make a folder here", out.string());
    path_ = name;
  }
  ShareFolder(const ShareFolder&) = delete;
  ShareFolder& operator=(const ShareFolder&) = delete;
  ~ShareFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct TrainCommand {
  PlanFlags plan_flags;
  CrewFlags crew_flags;
  schedmp::TrainingOptions options;
  std::string data = "fashion-mnist";
  std::string plan_file;
  std::string out = "kerf-run";
  std::string picture;
  std::optional<int64_t> steps;
  bool no_shuffle = false;
  bool no_test = false;
  bool json = false;

  int run();

 private:
  void check() const;
  void complete(const Planned& planned);
  void write_plan_files(const Planned& planned) const;
  std::string paths() const;
  fs::path picture_path() const {
    return picture.empty() ? fs::path(out) / "plan.svg" : fs::path(picture);
  }
};

void TrainCommand::check() const {
  const auto require = [](bool fine, const char* flag, const std::string& what) {
    if (!fine) throw Error(ErrorCode::kUsage, what, flag);
  };
  require(options.epochs >= 1, "--epochs", format("{} is not at least 1", options.epochs));
  require(options.trace_steps >= 0, "--trace-steps", format("{} is negative", options.trace_steps));
  if (!options.weights.empty())
    require(fs::is_regular_file(options.weights), "--weights",
            format("there is no file {}", options.weights));
}

void TrainCommand::complete(const Planned& planned) {
  options.model_source = plan_flags.source();
  options.dataset = complete_dataset_name(data, planned.model,
                                          std::max<int64_t>(kSyntheticRows, planned.plan.batch));
  options.batch = planned.plan.batch;
  options.steps = steps.value_or(-1);
  options.evaluate = !no_test;
  options.shuffle = !no_shuffle;
  options.setting = plan_flags.setting();
  options.memory = plan_flags.memory;
  options.optimizer.momentum = plan_flags.momentum;
  if (!options.weights.empty()) options.weights = fs::absolute(options.weights).string();
}

void TrainCommand::write_plan_files(const Planned& planned) const {
  runtime::write_file_atomic(fs::path(out) / "plan.json",
                             partitioner::write_plan(planned.model, planned.plan));
  runtime::write_file_atomic(picture_path(), partitioner::draw_svg(planned.model, planned.plan));
}

std::string TrainCommand::paths() const {
  const fs::path folder = out;
  return format(
      "\nplan     {}\npicture  {}\ntrace    {} (open in ui.perfetto.dev or chrome://tracing)\n"
      "weights  {}\nreport   {}\n",
      (folder / "plan.json").string(), picture_path().string(), (folder / "trace.json").string(),
      (folder / "weights.safetensors").string(), (folder / "run.json").string());
}

int TrainCommand::run() {
  check();
  plan_flags.run_on(crew_flags);
  const Planned planned =
      plan_file.empty() ? make_plan_of(plan_flags) : read_plan_of(plan_flags, plan_file);
  const schedmp::Schedule schedule = fitting_schedule_of(plan_flags, planned.plan);
  complete(planned);
  const auto rows = make_dataset(options.dataset, schedmp::Split::kTrain);
  check_dataset(*rows, options.dataset, planned.model);
  if (steps) options.epochs = epochs_of(*steps, rows->rows(), options.batch);

  std::error_code failure;
  fs::create_directories(out, failure);
  if (!fs::is_directory(out))
    throw Error(ErrorCode::kUsage,
                format("this is no folder and cannot become one: {}", failure.message()), out);
  const ShareFolder shares(out);
  options.shards = shares.path();
  write_plan_files(planned);
  const Outcome outcome = run_training(planned, schedule, options, crew_flags);

  const fs::path folder = out;
  schedmp::join_weights(planned.model, planned.plan, shares.path(), folder / "weights.safetensors");
  runtime::write_chrome_trace(folder / "trace.json", traces_of(outcome));
  const std::string report = json_text(train_report(planned, outcome), 2) + "\n";
  runtime::write_file_atomic(folder / "run.json", report);
  const std::string text = json ? report : train_text(outcome, wants_colour(1)) + paths();
  std::fputs(text.c_str(), stdout);
  check_traffic(planned, outcome);
  return 0;
}

void add_flags(CLI::App& command, TrainCommand& state) {
  schedmp::TrainingOptions& options = state.options;
  options.optimizer.learning_rate = 0.02;
  command
      .add_option("--data", state.data,
                  "fashion-mnist[:FOLDER] or synthetic[:ROWSxFEATURESxCLASSES]")
      ->capture_default_str();
  command.add_option("--epochs", options.epochs, "Passes over the data")->capture_default_str();
  command
      .add_option("--steps", state.steps,
                  "Stop after this many steps; 0 only writes initial weights")
      ->check(whole_number<int64_t>())
      ->type_name("S");
  command.add_option("--seed", options.seed, "Of initial weights and data order")
      ->check(whole_number<uint64_t>())
      ->capture_default_str();
  command.add_option("--optimizer", options.optimizer.name, "sgd")->capture_default_str();
  command.add_option("--lr", options.optimizer.learning_rate, "Learning rate")
      ->capture_default_str();
  command.add_option("--momentum", state.plan_flags.momentum, "Of sgd")->capture_default_str();
  command.add_option("--plan", state.plan_file, "Use this plan instead of making one")
      ->type_name("FILE");
  command.add_option("--weights", options.weights, "Start from these weights")
      ->type_name("FILE.safetensors");
  command.add_flag("--no-shuffle", state.no_shuffle, "Take the rows in the file's order");
  command.add_flag("--no-test", state.no_test, "Do not measure test accuracy");
  command.add_option("--trace-steps", options.trace_steps, "Steps to keep a trace of")
      ->capture_default_str();
  command.add_option("--out", state.out, "Folder for plan, trace, weights and report")
      ->capture_default_str();
  command.add_option("--picture", state.picture, "The picture of the cut (default DIR/plan.svg)")
      ->type_name("FILE.svg");
  command.add_flag("--json", state.json, "Print the report as JSON");
}

}  // namespace

void add_train_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "train", "Trains a model that is cut over several workers, as if it were on one.");
  auto state = std::make_shared<TrainCommand>();
  state->options.epochs = 5;
  add_model_flags(*command, state->plan_flags);
  add_cut_flags(*command, state->plan_flags);
  add_crew_flags(*command, state->crew_flags);
  add_flags(*command, *state);
  command->footer(
      "Examples:\n"
      "  kerf train lenet5 --data fashion-mnist --workers 3 --epochs 5\n"
      "  kerf train mlp --sizes 784-512-10 --cut feature --workers 2 --schedule gpipe --steps 100\n"
      "  kerf train lenet5 --workers 2 --listen tcp://127.0.0.1:5555   then, twice:\n"
      "      kerf worker --connect tcp://127.0.0.1:5555");
  command->callback([&chosen, state] { chosen.run = [state] { return state->run(); }; });
}

}  // namespace kerf::apps
