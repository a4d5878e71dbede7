#include "apps/kerf/steering_flags.h"

#include "apps/kerf/flag_values.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

constexpr size_t kMostSteering = size_t{16} << 20;  // of a file

// A text's refusal becomes the flag's.
template <class Parse>
auto at_flag(const std::string& flag, const Parse& parse) {
  try {
    return parse();
  } catch (const Error& error) {
    throw Error(error.code(), error.message(), flag);
  }
}

partitioner::Steering steering_of(const SteeringFlags& flags) {
  partitioner::Steering steering;
  if (flags.first() == "" && flags.of_run) return *flags.of_run;
  steering.pattern = flags.pattern.value_or("");
  for (const std::string& text : flags.ways)
    steering.ways.push_back(at_flag("--way", [&] { return partitioner::parse_way(text); }));
  for (const std::string& text : flags.together)
    steering.together.push_back(
        at_flag("--together", [&] { return partitioner::parse_patterns(text); }));
  for (const std::string& text : flags.apart)
    steering.apart.push_back(at_flag("--apart", [&] { return partitioner::parse_patterns(text); }));
  check_range(flags.stages_per_worker, "--stages-per-worker", partitioner::kMostParts);
  steering.stages_per_worker = flags.stages_per_worker.value_or(1);
  if (!flags.places.empty())
    steering.places =
        partitioner::read_places(runtime::read_file(flags.places, kMostSteering), flags.places);
  return steering;
}

// Of free cuts: who computes what is said once.
void check_divisions(bool by_shares, Asked& asked) {
  const bool by_pattern = !asked.steering.pattern.empty();
  const bool by_ways = !asked.steering.ways.empty();
  if (by_pattern) {
    require(asked.cut == "free", "--pattern", "it is for --cut free only");
    require(!by_shares, "--pattern", "--shares says which worker computes what; leave one out");
    require(!by_ways, "--pattern", "--way says how operators are divided; leave one of them out");
    require(asked.steering.pattern != "proportional" || !asked.capacities.empty(), "--pattern",
            "it goes by the speeds of workers; give --devices FILE");
  }
  if (!by_ways) return;
  require(!by_shares, "--way", "--shares says which worker computes what; leave one out");
  const std::string cut = asked.cut.value_or("free");
  require(cut == "free" || cut == "batch" || cut == "feature", "--way",
          format("it divides operators over all workers, which --cut {} does not; use --cut batch, "
                 "feature or free, or leave --cut out",
                 cut));
  if (cut != "free") asked.steering.others = cut;
  asked.cut = "free";
}

// Of layer cuts: which worker has which operators.
void check_layers(const Asked& asked, bool by_file) {
  const std::string cut = asked.cut.value_or("layer");
  const partitioner::Steering& steering = asked.steering;
  const auto check = [&](bool given, const char* flag) {
    if (given)
      require(cut == "layer", flag,
              format("it is about whole operators on workers, so for --cut layer, not {}", cut));
  };
  check(!steering.places.empty(), "--place");
  check(!steering.together.empty(), "--together");
  check(!steering.apart.empty(), "--apart");
  check(steering.stages_per_worker > 1, "--stages-per-worker");
  require(steering.places.empty() || steering.stages_per_worker == 1, "--stages-per-worker",
          "--place says which stages a worker has; leave one of them out");
  require(!by_file || (steering.places.empty() && steering.stages_per_worker == 1), "--schedule",
          "its file says which stages a worker has; leave --place and --stages-per-worker out");
}

}  // namespace

std::string SteeringFlags::first() const {
  if (!devices.empty()) return "--devices";
  if (pattern) return "--pattern";
  if (!ways.empty()) return "--way";
  if (!places.empty()) return "--place";
  if (!together.empty()) return "--together";
  if (!apart.empty()) return "--apart";
  return stages_per_worker ? "--stages-per-worker" : "";
}

void add_steering_flags(CLI::App& command, SteeringFlags& flags) {
  command
      .add_option("--devices", flags.devices,
                  "What each worker's device can do, speed, memory and links, for plans of unequal "
                  "ones: {\"kerf_devices\": 1, \"workers\": {\"0\": {\"speed\": 1}, \"1\": "
                  "{\"speed\": 2}}}")
      ->type_name("FILE");
  command
      .add_option("--pattern", flags.pattern,
                  "Of a free cut, instead of --shares: how the features of every operator go to "
                  "workers: even, block-cyclic:8 (blocks of 8 in turn), or proportional to the "
                  "speeds of --devices")
      ->check(parsed_by(partitioner::parse_pattern))
      ->type_name("PATTERN");
  command
      .add_option("--way", flags.ways,
                  "How operators whose names fit are divided, as in 'conv*=batch': batch, feature, "
                  "whole or whole:WORKER; of several that fit the last holds, and others follow "
                  "what they read, or --cut feature or batch")
      ->check(parsed_by(partitioner::parse_way))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAMES=WAY");
  command
      .add_option("--place", flags.places,
                  "Of a layer cut: lines of a pattern of names and its worker, as in \"encoder* "
                  "0\"; the rest is planned")
      ->type_name("FILE");
  command
      .add_option("--together", flags.together,
                  "Of a layer cut: operators whose names fit one of these patterns share a stage")
      ->check(parsed_by(partitioner::parse_patterns))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAMES,NAMES");
  command
      .add_option("--apart", flags.apart,
                  "Of a layer cut: operators that fit one pattern and those that fit another share "
                  "no worker")
      ->check(parsed_by(partitioner::parse_patterns))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAMES,NAMES");
  command
      .add_option("--stages-per-worker", flags.stages_per_worker,
                  "Of a layer cut: so many stages on each worker, in turn (interleaved)")
      ->check(whole_number<int>())
      ->type_name("N");
}

Asked asked_by(const SteeringFlags& flags, const std::optional<std::string>& cut, bool by_shares,
               bool by_file, std::optional<int> workers) {
  Asked asked{steering_of(flags), {}, cut};
  if (!flags.devices.empty())
    asked.capacities = partitioner::read_devices(runtime::read_file(flags.devices, kMostSteering),
                                                 flags.devices, workers);
  else
    asked.capacities = flags.devices_of_run.value_or(partitioner::Capacities{});
  check_divisions(by_shares, asked);
  check_layers(asked, by_file);
  return asked;
}

void refuse_steering(const SteeringFlags& flags, const std::string& why) {
  if (const std::string flag = flags.first(); !flag.empty()) require(false, flag, why);
}

void add_asked(const partitioner::Plan& plan, Json& told) {
  if (!plan.request) return;
  Json asked = partitioner::steering_json(plan.request->steering);
  if (!plan.request->capacities.empty())
    asked["devices"] = partitioner::capacities_json(plan.request->capacities);
  if (!asked.empty()) told["asked"] = std::move(asked);
}

}  // namespace kerf::apps
