#include "apps/kerf/replica_flags.h"

#include "apps/main/flag_values.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr const char* kReplicas = "--replicas";
constexpr int64_t kDefaultBatch = 128;

// Stages as a replica would have them, each on as many workers as there are replicas.
void ask_for_synchronous(int replicas, PlanFlags& plan, const std::string& plan_file) {
  require(plan_file.empty(), kReplicas,
          "synchronous replicas are a cut, and --plan says how it is cut; leave one of them out");
  require(
      !plan.stages, "--stages",
      "synchronous replicas have a stage for each of --workers; leave it out beside --replicas");
  const std::string cut = plan.cut.value_or("layer");
  const int workers = plan.workers.value_or(1);
  require(cut == "layer" || cut == "batch", kReplicas,
          format("synchronous replicas are the batch cut, of stages by layer or of none; --cut {} "
                 "divides otherwise: give it {} times the workers and the --batch instead",
                 cut, replicas));
  const int64_t batch = plan.batch.value_or(kDefaultBatch);
  require(batch <= INT64_MAX / replicas, "--batch",
          format("{} rows for each of {} replicas are too many", batch, replicas));
  plan.batch = batch * replicas;
  plan.workers = workers * replicas;
  if (workers == 1 || cut == "batch") {
    plan.cut = "batch";
    return;
  }
  plan.cut = "hybrid";
  plan.stages = workers;
}

}  // namespace

schedmp::ReplicaOptions ReplicaFlags::applied_to(PlanFlags& plan, const std::string& plan_file,
                                                 bool by_lbfgs) const {
  const auto needs_replicas = [&](bool given, const char* flag) {
    require(!given || replicas > 1, flag, "it is of several replicas: give --replicas 2 or more");
  };
  needs_replicas(consistency.has_value(), "--consistency");
  needs_replicas(server_groups.has_value(), "--server-groups");
  needs_replicas(push_every.has_value(), "--push-every");
  needs_replicas(fetch_every.has_value(), "--fetch-every");
  if (replicas == 1) return {};
  schedmp::ReplicaOptions options{
      .count = replicas,
      .consistency = schedmp::parse_consistency(consistency.value_or("sync")),
      .server_groups = server_groups.value_or(1),
      .push_every = push_every.value_or(1),
      .fetch_every = fetch_every.value_or(1)};
  plan.default_workers = 1;
  if (const int64_t workers = int64_t{plan.workers.value_or(1)} * replicas; plan_file.empty())
    require(workers <= kMostWorkers, kReplicas,
            format("{} workers are more than {}", workers, kMostWorkers));
  if (by_lbfgs) return options;
  if (options.consistency.kind == schedmp::Consistency::Kind::kSync) {
    for (const auto& [given, flag] : {std::pair(server_groups.has_value(), "--server-groups"),
                                      {push_every.has_value(), "--push-every"},
                                      {fetch_every.has_value(), "--fetch-every"}})
      require(!given, flag, "synchronous replicas have no tables; see --consistency");
    ask_for_synchronous(replicas, plan, plan_file);
    return {};
  }
  try {
    check(options);
  } catch (const Error& error) {
    throw Error(error.code(), error.message(), kReplicas);
  }
  return options;
}

void add_replica_flags(CLI::App& command, ReplicaFlags& flags) {
  command
      .add_option(kReplicas, flags.replicas,
                  "So many plans train at once, each on --workers (default 1) and its own rows, "
                  "--batch of them in a step")
      ->check(whole_number<int>(1, kMostWorkers))
      ->type_name("R")
      ->capture_default_str();
  command
      .add_option(
          "--consistency", flags.consistency,
          "Of replicas: sync (default) is the batch cut, but of lbfgs; ssp:S pushes gradients to "
          "tables that the "
          "workers serve, and no replica is more than S steps ahead of another; async waits for "
          "nobody (Downpour); average:K lets each train by itself, and takes the mean of their "
          "weights every K steps")
      ->check(parsed_by([](const std::string& text) { schedmp::parse_consistency(text); }))
      ->type_name("HOW");
  command
      .add_option("--server-groups", flags.server_groups,
                  "Of async: tables so many times, each of as many replicas, which tell "
                  "each other what they changed; as many as replicas: Hogwild (default 1)")
      ->check(whole_number<int>(1, kMostWorkers))
      ->type_name("G");
  command
      .add_option("--push-every", flags.push_every,
                  "Of async: push the sum of so many steps' gradients (default 1)")
      ->check(whole_number<int64_t>(1))
      ->type_name("STEPS");
  command
      .add_option("--fetch-every", flags.fetch_every,
                  "Of async: fetch weights so seldom, with plain steps in between (default 1)")
      ->check(whole_number<int64_t>(1))
      ->type_name("STEPS");
}

}  // namespace kerf::apps
