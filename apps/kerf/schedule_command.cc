// kerf schedule: look at a schedule, prove it, simulate it, keep it as text.
#include <filesystem>
#include <memory>
#include <utility>

#include "apps/kerf/answer.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/flag_values.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/planned.h"
#include "apps/kerf/proof.h"
#include "apps/kerf/schedule_search.h"
#include "apps/report/schedule_picture.h"
#include "apps/report/schedule_record.h"
#include "partitioner/capacities.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "schedmp/action_costs.h"
#include "schedmp/check_transfers.h"
#include "schedmp/schedules.h"
#include "schedmp/torch_csv.h"

namespace kerf::apps {

namespace {

constexpr int kRefuted = 1;                   // exit code
constexpr int64_t kMostVerified = 2'000'000;  // actions
constexpr int64_t kMostDrawn = 100'000;       // actions
constexpr int kMostStageWorkers = 1 << 16;    // of a schedule without a plan

struct ScheduleCommand {
  PlanFlags flags;
  std::optional<int> chunks;
  std::string costs;  // as given: three or four numbers, or a file
  ScheduleSearchFlags search;
  std::string buffer;   // likewise: a number, rendezvous or unbounded
  std::string devices;  // a file of the workers' speeds
  double jitter = 0;
  uint64_t seed = 0;
  std::string plan_file;
  bool with_plan = false;
  std::string needs_plan;     // a flag that says nothing without one
  std::string out, csv, svg;  // files to write
  bool json = false;

  int run();

 private:
  void take_plan();
  void take_chain();
  bool searches() const { return flags.schedule == kSearch; }
  void take_found();
  void find_for(Planned& planned);
  void keep_found(schedmp::FoundSchedule found);
  void take_speeds(int workers);
  void check_costs(int stages) const;
  bool is_too_long() const;  // to be proved
  void verify_chain();
  void show_periods();
  void simulate();
  schedmp::Buffering buffering() const;
  // Those that were asked for; what they are, a line each.
  std::string write_files() const;

  // What is proved and simulated.
  const schedmp::Schedule& played() const { return written_ ? *written_ : record_.schedule; }

  ScheduleRecord record_;
  std::optional<schedmp::TorchCsv> torch_;    // what the file has, if it is PyTorch's
  std::optional<schedmp::Schedule> written_;  // with its transfers, if it names them
};

schedmp::ActionCosts costs_of(const std::string& text) {
  if (text.empty()) return {};
  if (std::filesystem::is_regular_file(text))
    return schedmp::read_costs(runtime::read_file(text, kMaxText), text);
  return at_flag("--costs", [&] { return schedmp::parse_costs(text); });
}

// One worker per stage, or as the schedule places them, unless the file says otherwise.
void ScheduleCommand::take_chain() {
  require(needs_plan.empty(), needs_plan, "it needs --model or --plan");
  check_schedule_search_flags(search, flags.schedule.value_or(""));
  check_range(flags.workers, "--workers", kMostStageWorkers);
  check_range(flags.micro_batches, "--micro-batches", partitioner::kMostMicroBatches);
  check_range(chunks, "--chunks", kMostStageWorkers);
  const std::string name = flags.schedule.value_or(flags.default_schedule);
  if (searches()) {
    require(!chunks, "--chunks", "a search has one stage on each worker; leave it out");
    take_found();
  } else if (is_built_in(name)) {
    const auto pipeline = schedmp::chain_of_shape(
        name, flags.workers.value_or(flags.default_workers), chunks.value_or(0));
    record_.schedule = schedmp::make_schedule(name, pipeline, flags.micro_batches.value_or(8),
                                              record_.costs, schedmp::kMostUnfolded);
  } else {
    require(!chunks, "--chunks", "a schedule's file says which stages a worker has; leave it out");
    ScheduleFile file = read_schedule_file(flags, name);
    record_.schedule = std::move(file.schedule);
    torch_ = std::move(file.torch);
  }
  record_.graph = partitioner::chain_of_stages(record_.schedule.stages());
  if (torch_ && schedmp::has_transfers(*torch_))
    written_ = schedmp::with_transfers(*torch_, record_.schedule);
  record_.transfers = written_.has_value();
  verify_chain();
  if (!record_.found) take_speeds(record_.schedule.workers());
  if (record_.schedule.endless()) show_periods();
}

// Of what goes on for ever, as much as shows how late updates are.
void ScheduleCommand::show_periods() {
  record_.endless = std::exchange(record_.schedule, {});
  const auto shown = [&](int periods) { return schedmp::unrolled(*record_.endless, periods); };
  const auto updates = [](const schedmp::Action& action) {
    return action.kind == schedmp::ActionKind::kUpdate;
  };
  const std::vector<schedmp::Action>& row = record_.endless->rows[0];
  record_.schedule = shown(std::count_if(row.begin(), row.end(), updates) > 1 ? 1 : 2);
  if (!record_.problems.empty() || is_too_long()) return;
  record_.versions = schedmp::versions_of(*record_.endless);
  record_.period = schedmp::period_of(*record_.endless, record_.graph, record_.costs);
}

void ScheduleCommand::take_found() {
  const int workers = flags.workers.value_or(flags.default_workers);
  take_speeds(workers);
  check_costs(workers);
  record_.graph = partitioner::chain_of_stages(workers);
  keep_found(search_chain(workers, flags.micro_batches.value_or(8), {record_.costs, search, seed}));
}

void ScheduleCommand::find_for(Planned& planned) {
  ScheduleSearch what{{}, search, seed};
  if (!costs.empty()) {
    check_costs(static_cast<int>(planned.plan.stages.size()));
    what.costs = record_.costs;
  }
  take_speeds(planned.plan.workers_bound());
  what.speeds = record_.costs.speeds;
  schedmp::FoundSchedule found = search_plan(planned, what);
  record_.costs = *what.costs;
  record_.costs.jitter = jitter;
  record_.costs.seed = seed;
  // A plan that is made here has what the schedule needs.
  if (plan_file.empty() && !flags.slots)
    planned.setting.slots =
        std::max(planned.setting.slots, schedmp::smallest_buffer(found.schedule, record_.graph));
  keep_found(std::move(found));
}

void ScheduleCommand::keep_found(schedmp::FoundSchedule found) {
  record_.found = std::move(found);
  record_.schedule = record_.found->schedule;
  const schedmp::Schedule built_in = schedmp::one_f_one_b({record_.schedule.groups, record_.graph},
                                                          record_.schedule.micro_batches);
  record_.of_1f1b =
      schedmp::bubble(built_in, record_.graph, record_.costs.without_jitter()).makespan;
}

schedmp::Buffering ScheduleCommand::buffering() const {
  if (buffer == "rendezvous") return {schedmp::Buffering::kRendezvous};
  if (buffer == "unbounded") return {schedmp::Buffering::kUnbounded};
  if (!buffer.empty()) return {std::stoi(buffer)};
  const bool declared =
      record_.found || is_built_in(flags.schedule.value_or(flags.default_schedule));
  return {declared ? *record_.smallest_buffer : 1};
}

bool ScheduleCommand::is_too_long() const {
  const schedmp::Schedule& all = record_.endless ? *record_.endless : record_.schedule;
  const int64_t periods = all.endless() ? schedmp::proving_periods(all) + schedmp::kMeanPeriods : 1;
  return all.actions() > kMostVerified / periods;
}

void ScheduleCommand::verify_chain() {
  if (is_too_long()) return;
  record_.problems = schedmp::check_order(record_.schedule);
  if (torch_ && !record_.problems.empty()) {
    record_.problems = schedmp::check_order(record_.schedule, schedmp::WeightOrder::kAny);
    record_.same_bits = false;
  }
  if (written_)
    for (std::string& problem : schedmp::check_transfers(*written_))
      record_.problems.push_back(std::move(problem));
  if (record_.problems.empty()) {
    const schedmp::Schedule proved = schedmp::as_it_is_proved(played());
    const auto stuck = [&](schedmp::Buffering under) {
      return schedmp::unfold(proved, record_.graph, {}, under).stuck;
    };
    record_.smallest_buffer = schedmp::smallest_buffer(proved, record_.graph);
    record_.safe_under_rendezvous = stuck({schedmp::Buffering::kRendezvous}).empty();
    record_.buffering = buffering();
    record_.problems = stuck(*record_.buffering);
    if (!record_.problems.empty())
      record_.problems.insert(record_.problems.begin(),
                              "deadlock " + to_string(*record_.buffering));
  }
  record_.verified = record_.problems.empty();
}

void ScheduleCommand::take_plan() {
  check_schedule_search_flags(search, flags.schedule.value_or(""));
  require(buffer.empty(), "--buffer", "with a model or a plan it is --slots that says so");
  require(!chunks, "--chunks", "with a model or a plan it is --stages-per-worker that says so");
  PlanFlags of_plan = flags;
  if (searches()) {
    of_plan.schedule.reset();
    // Under a cap a plan may be cut for what holds least: the search has the rest.
    if (flags.memory && plan_file.empty()) of_plan.schedule = "naive";
  }
  Planned planned = planned_by(of_plan, plan_file);
  record_.graph = partitioner::stage_graph_of(planned.model, planned.plan);
  if (searches())
    find_for(planned);
  else
    record_.schedule = schedule_of(flags, planned);
  record_.slots = planned.setting.slots;
  if (!record_.found) take_speeds(record_.schedule.workers());
  Proof proof = prove(planned, record_.schedule);
  record_.problems = std::move(proof.problems);
  record_.verdict = std::move(proof.verdict);
  record_.verified = record_.problems.empty();
}

void ScheduleCommand::take_speeds(int workers) {
  if (devices.empty()) return;
  for (const partitioner::Capacity& each :
       partitioner::read_devices(runtime::read_file(devices, kMaxText), devices, workers).workers)
    record_.costs.speeds.push_back(each.speed);
}

void ScheduleCommand::check_costs(int stages) const {
  require(record_.costs.stages.empty() || std::ssize(record_.costs.stages) == stages, costs,
          format("it has the costs of {}, but the schedule has {}",
                 plural(std::ssize(record_.costs.stages), "stage"), stages));
}

void ScheduleCommand::simulate() {
  require(
      jitter == 0 || !is_too_long(), "--jitter",
      format("a schedule of more than {} actions is unfolded once, not 100 times", kMostVerified));
  check_costs(record_.schedule.stages());
  // Rows that lack that much are refuted, and need no times.
  if (int64_t{record_.schedule.stages()} * record_.schedule.micro_batches >
      record_.schedule.actions())
    return;
  const schedmp::Buffering under =
      buffer.empty() ? schedmp::Buffering{} : record_.buffering.value_or(schedmp::Buffering{});
  record_.unfolded =
      schedmp::unfold(played(), record_.graph, record_.costs.without_jitter(), under);
  if (written_) record_.unfolded = schedmp::computed_of(*written_, record_.unfolded);
  record_.bubble = schedmp::bubble(record_.schedule, record_.unfolded);
  if (!record_.unfolded.stuck.empty()) return;
  record_.idle = schedmp::idle_of(record_.schedule, record_.graph, record_.unfolded);
  if (jitter > 0)
    record_.makespan_p95 = schedmp::makespan_of_95(played(), record_.graph, record_.costs);
}

int ScheduleCommand::run() {
  record_.costs = costs_of(costs);
  record_.costs.jitter = jitter;
  record_.costs.seed = seed;
  if (with_plan)
    take_plan();
  else
    take_chain();
  simulate();
  record_.peak_activations = schedmp::peak_activations(record_.schedule);
  const std::string written = write_files();
  answer(
      json, [&] { return to_json(record_); },
      [&](bool colour) { return text_of(record_, colour) + written; });
  if (record_.problems.empty()) return 0;
  // The answer is no; whoever asked did nothing wrong.
  return complain(format("schedule {}: refuted: {}", flags.schedule.value_or(record_.schedule.name),
                         fmt::join(record_.problems, "; ")),
                  kRefuted);
}

std::string ScheduleCommand::write_files() const {
  std::string written;
  const auto write = [&](const std::string& file, const char* what, const auto& text) {
    if (file.empty()) return;
    runtime::write_file_atomic(file, text());
    written += format("{}{:<9} {}\n", written.empty() ? "\n" : "", what, file);
  };
  require(out.empty() || record_.schedule.actions() <= schedmp::kMostActions, "--out",
          format("a file of more than {} actions could not be read", schedmp::kMostActions));
  require(svg.empty() || record_.schedule.actions() <= kMostDrawn, "--svg",
          format("a picture of more than {} actions could not be looked at", kMostDrawn));
  const schedmp::Schedule& all = record_.endless ? *record_.endless : record_.schedule;
  write(out, "schedule", [&] { return schedmp::write_schedule(all); });
  write(csv, "csv",
        [&] { return schedmp::write_torch_csv(torch_ ? *torch_ : schedmp::torch_csv_of(all)); });
  write(svg, "picture", [&] { return draw_schedule(record_.schedule, record_.unfolded); });
  return written;
}

// Those that a schedule by itself has no use for.
std::vector<CLI::Option*> add_plan_flags(CLI::App& command, PlanFlags& flags) {
  std::vector<CLI::Option*> all = add_division_flags(command, flags);
  for (CLI::Option* option : add_size_flags(command, flags)) all.push_back(option);
  for (CLI::Option* option : add_setting_flags(command, flags)) all.push_back(option);
  all.push_back(add_memory_flag(command, flags));
  return all;
}

std::string check_buffer(const std::string& text) {
  if (text == "rendezvous" || text == "unbounded") return {};
  std::string number = text;  // a check may change what it is given
  if (!whole_number<int>()(number).empty() || text == "0")
    return format("\"{}\" is neither rendezvous nor unbounded nor a number of messages from 1 on",
                  text);
  return {};
}

void add_own_flags(CLI::App& command, ScheduleCommand& state) {
  command
      .add_option("--chunks", state.chunks,
                  "Stages on each worker, of schedules that have several (default: two)")
      ->check(whole_number<int>())
      ->type_name("V");
  command
      .add_option("--costs", state.costs,
                  "What F, I and W of a stage take, and a message between workers, in any unit "
                  "(default 1,1,1,0): F,I,W[,COMM], or a file with a line of them for each stage, "
                  "{\"kerf_costs\": 1, \"COMM\": 0, \"stages\": [{\"F\": 1, \"I\": 1, \"W\": "
                  "1}, ...]}")
      ->type_name("COSTS");
  command
      .add_option("--devices", state.devices,
                  "How fast each worker is: {\"kerf_devices\": 1, \"workers\": {\"0\": {\"speed\": "
                  "1}, \"1\": {\"speed\": 2}}}")
      ->type_name("FILE");
  command
      .add_option("--jitter", state.jitter,
                  "By how much an action may take longer, as a fraction, drawn for each of 100 "
                  "steps: tells what 95 of them take at most")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("FRACTION");
  command.add_option("--seed", state.seed, "Of what --jitter draws (default 0)")
      ->check(whole_number<uint64_t>())
      ->type_name("N");
  command
      .add_option("--buffer", state.buffer,
                  "How many messages may be under way from a stage to another, beyond what the "
                  "receiver holds: a number, rendezvous or unbounded (default: proved with the "
                  "least that does for a built-in schedule, with 1 for a file, and times of sends "
                  "that wait for nobody)")
      ->check(check_buffer)
      ->type_name("K");
}

}  // namespace

void add_schedule_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "schedule",
      "Draws a pipeline schedule, proves or refutes it, and says how idle it leaves the workers.");
  auto state = std::make_shared<ScheduleCommand>();
  state->flags.default_workers = 4;
  command->add_option(
      "NAME", state->flags.schedule,
      format("{}, a file, or search, which looks for the one that takes least by --costs (default: "
             "the plan's, or {})",
             fmt::join(schedmp::schedule_names(), ", "), state->flags.default_schedule));
  CLI::Option* model =
      command->add_option("--model", state->flags.model, "Prove it for a cut of this model");
  CLI::Option* plan = add_plan_file_flag(*command, state->plan_file);
  add_count_flags(*command, state->flags);
  add_own_flags(*command, *state);
  add_schedule_search_flags(*command, state->search);
  const std::vector<CLI::Option*> of_plan = add_plan_flags(*command, state->flags);
  command->add_option("--out", state->out, "Write the schedule's text here")->type_name("FILE");
  command
      ->add_option("--csv", state->csv,
                   "Write it here as PyTorch's pipeline CSV, which can be given as NAME too")
      ->type_name("FILE");
  command->add_option("--svg", state->svg, "Draw it here")->type_name("FILE");
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf schedule 1f1b --workers 4 --micro-batches 8\n"
      "  kerf schedule zbv --workers 4 --micro-batches 8 --costs 1,1.3,0.7\n"
      "  kerf schedule search --workers 4 --micro-batches 8 --costs 1,1.3,0.7 --out found.txt\n"
      "  kerf schedule gpipe --workers 2 --micro-batches 4 --out mine.txt   edit it, then\n"
      "  kerf schedule mine.txt --buffer rendezvous\n"
      "  kerf schedule mine.txt --model lenet5 --workers 2");
  command->callback([&chosen, state, model, plan, of_plan] {
    state->with_plan = model->count() + plan->count() > 0;
    for (const CLI::Option* option : of_plan)
      if (option->count() > 0) state->needs_plan = option->get_name();
    chosen.run = [state] { return state->run(); };
  });
}

}  // namespace kerf::apps
