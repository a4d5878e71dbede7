#include "apps/kerf/steering_flags.h"

#include "apps/kerf/flag_rules.h"
#include "apps/main/flag_values.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

constexpr size_t kMostSteering = size_t{16} << 20;  // of a file

// What a run was asked, but for what flags say otherwise, and what contradicts them.
partitioner::Steering of_run(const SteeringFlags& flags, bool by_file) {
  partitioner::Steering steering = flags.of_run.value_or(partitioner::Steering{});
  if (flags.pattern) {
    steering.ways.clear();
    steering.others.clear();
  }
  if (!flags.ways.empty()) {
    steering.pattern.clear();
    steering.ways.clear();
  }
  if (!flags.together.empty()) steering.together.clear();
  if (!flags.apart.empty()) steering.apart.clear();
  if (!flags.places.empty() || by_file) steering.stages_per_worker = 1;
  if (flags.stages_per_worker || by_file) steering.places.clear();
  return steering;
}

partitioner::Steering steering_of(const SteeringFlags& flags, bool by_file) {
  partitioner::Steering steering = of_run(flags, by_file);
  if (flags.pattern) steering.pattern = *flags.pattern;
  for (const std::string& text : flags.ways)
    steering.ways.push_back(at_flag("--way", [&] { return partitioner::parse_way(text); }));
  for (const std::string& text : flags.together)
    steering.together.push_back(
        at_flag("--together", [&] { return partitioner::parse_patterns(text); }));
  for (const std::string& text : flags.apart)
    steering.apart.push_back(at_flag("--apart", [&] { return partitioner::parse_patterns(text); }));
  steering.stages_per_worker = flags.stages_per_worker.value_or(steering.stages_per_worker);
  if (!flags.places.empty())
    steering.places =
        partitioner::read_places(runtime::read_file(flags.places, kMostSteering), flags.places);
  return steering;
}

// Operators with ways of their own make a free cut; those that have none go by the cut that was
// named.
void take_ways(Asked& asked) {
  if (asked.steering.ways.empty()) return;
  const std::string cut = asked.cut.value_or("free");
  if (cut == "feature" || cut == "batch") asked.steering.others = cut;
  if (!asked.steering.others.empty() || cut == "free") asked.cut = "free";
}

}  // namespace

void add_steering_flags(CLI::App& command, SteeringFlags& flags) {
  command
      .add_option("--devices", flags.devices,
                  "What each worker's device can do, speed, memory and links, for plans of unequal "
                  "ones: {\"kerf_devices\": 1, \"workers\": {\"0\": {\"speed\": 1}, \"1\": "
                  "{\"speed\": 2}}}")
      ->type_name("FILE");
  command
      .add_option(
          "--pattern", flags.pattern,
          help_for("--pattern",
                   "in place of --shares, how the features of every operator go to workers: "
                   "even, block-cyclic:8 (blocks of 8 in turn), or proportional to the "
                   "speeds of --devices"))
      ->check(parsed_by(partitioner::parse_pattern))
      ->type_name("PATTERN");
  command
      .add_option(
          "--way", flags.ways,
          help_for("--way",
                   "how operators whose names fit are divided, as in 'conv*=batch': batch, "
                   "feature, whole or whole:WORKER; of several that fit the last holds, and "
                   "others follow what they read, or --cut feature or batch"))
      ->check(parsed_by(partitioner::parse_way))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAMES=WAY");
  command
      .add_option("--place", flags.places,
                  help_for("--place",
                           "lines of a pattern of names and its worker, as in \"encoder* 0\"; the "
                           "rest is planned"))
      ->type_name("FILE");
  command
      .add_option("--together", flags.together,
                  help_for("--together",
                           "operators whose names fit one of these patterns share a stage, as in "
                           "'conv1,conv2'"))
      ->check(parsed_by(partitioner::parse_patterns))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAMES,NAMES");
  command
      .add_option("--apart", flags.apart,
                  help_for("--apart",
                           "operators that fit one pattern and those that fit another share no "
                           "worker, as in 'embed*,scores*'"))
      ->check(parsed_by(partitioner::parse_patterns))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAMES,NAMES");
  command
      .add_option(
          "--stages-per-worker", flags.stages_per_worker,
          help_for(
              "--stages-per-worker",
              "so many stages on each worker: in turn, as interleaved pipelines have them, or as "
              "else the step is shortest; of a graph read with --format, at most so many"))
      ->check(whole_number<int>(1, partitioner::kMostParts))
      ->type_name("N");
}

Asked asked_by(const SteeringFlags& flags, const std::optional<std::string>& cut, bool by_file,
               std::optional<int> workers) {
  Asked asked{steering_of(flags, by_file), {}, cut};
  if (!flags.devices.empty())
    asked.capacities = partitioner::read_devices(runtime::read_file(flags.devices, kMostSteering),
                                                 flags.devices, workers);
  else
    asked.capacities = flags.devices_of_run.value_or(partitioner::Capacities{});
  require(asked.steering.pattern != "proportional" || !asked.capacities.empty(), "--pattern",
          "it goes by the speeds of workers; give --devices FILE");
  require(!by_file || (flags.places.empty() && !flags.stages_per_worker), "--schedule",
          "its file says which stages a worker has; leave --place and --stages-per-worker out");
  take_ways(asked);
  return asked;
}

}  // namespace kerf::apps
