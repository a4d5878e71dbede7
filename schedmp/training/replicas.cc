#include "schedmp/training/replicas.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::kUsage, why); }

int64_t count_in(const std::string& text, size_t from, int64_t least) {
  int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data() + from, end, count);
  if (fault != std::errc() || at != end || count < least || count > INT32_MAX)
    refuse(kerf::format("\"{}\" has no whole number of at least {} behind its colon", text, least));
  return count;
}

}  // namespace

Consistency parse_consistency(const std::string& text) {
  if (text == "sync") return {};
  if (text == "async") return {Consistency::Kind::kAsync, 0};
  if (text.starts_with("ssp:")) return {Consistency::Kind::kSsp, count_in(text, 4, 0)};
  if (text.starts_with("average:")) return {Consistency::Kind::kAverage, count_in(text, 8, 1)};
  refuse(
      kerf::format("there is no consistency \"{}\"; choose sync, ssp:S, async or average:K", text));
}

std::string to_string(const Consistency& consistency) {
  switch (consistency.kind) {
    case Consistency::Kind::kSsp:
      return kerf::format("ssp:{}", consistency.count);
    case Consistency::Kind::kAsync:
      return "async";
    case Consistency::Kind::kAverage:
      return kerf::format("average:{}", consistency.count);
    default:
      return "sync";
  }
}

void check(const ReplicaOptions& options) {
  const Consistency::Kind kind = options.consistency.kind;
  if (options.count < 1) refuse(kerf::format("{} replicas; there is at least 1", options.count));
  if (options.count == 1) return;
  if (kind == Consistency::Kind::kSync)
    refuse("replicas that are synchronous in every step are a plan's own: the batch cut");
  const int groups = options.server_groups;
  if (groups < 1 || options.count % groups != 0)
    refuse(kerf::format("{} replicas are not divided evenly over {}", options.count,
                        kerf::plural(groups, "server group")));
  if (groups > 1 && kind != Consistency::Kind::kAsync)
    refuse(
        kerf::format("{} is of all replicas together: there is one server group; several are of "
                     "async",
                     to_string(options.consistency)));
  if (options.push_every < 1 || options.fetch_every < 1)
    refuse("gradients are pushed, and weights fetched, every step or more seldom");
  if (kind != Consistency::Kind::kAsync && (options.push_every > 1 || options.fetch_every > 1))
    refuse(kerf::format("{} says itself when weights go over the tables; periods are of async",
                        to_string(options.consistency)));
}

ops::OptimizerOptions optimizer_of_worker(const ops::OptimizerOptions& optimizer,
                                          const ReplicaOptions& replicas) {
  if (replicas.count == 1 || replicas.averages()) return optimizer;
  ops::OptimizerOptions plain;
  plain.learning_rate = optimizer.learning_rate;
  plain.most_norm = optimizer.most_norm;
  return plain;
}

ops::Range rows_of_replica(ops::Range rows, int replica, int replicas) {
  const int64_t each = rows.size() / replicas;
  const int64_t more = rows.size() % replicas;
  const int64_t begin = rows.begin + replica * each + std::min<int64_t>(replica, more);
  return {begin, begin + each + (replica < more ? 1 : 0)};
}

std::vector<SharedTensor> shared_tensors(const partitioner::Part& part) {
  using Kind = partitioner::Instruction::Kind;
  std::vector<SharedTensor> tensors;
  if (std::ranges::none_of(part.update.instructions, [](const partitioner::Instruction& each) {
        return each.kind == Kind::kUpdate;
      }))
    return tensors;
  int64_t row = 0;
  for (const partitioner::Instruction& each : part.update.instructions) {
    if (each.kind != Kind::kUpdate && each.kind != Kind::kUpdateState) continue;
    const partitioner::Local& local = part.locals[static_cast<size_t>(each.local)];
    SharedTensor tensor{each.local, each.kind == Kind::kUpdateState, local.shape(0).elements(), {}};
    tensor.rows = {row, row + (tensor.elements + kSharedWidth - 1) / kSharedWidth};
    row = tensor.rows.end;
    if (tensor.elements > 0) tensors.push_back(tensor);
  }
  return tensors;
}

void check_apart(const partitioner::Model& model, const std::vector<partitioner::Part>& parts) {
  std::map<partitioner::ValueId, std::vector<const partitioner::Local*>> kept;
  for (const partitioner::Part& part : parts) {
    if (part.updates_within())
      refuse(
          "its schedule updates weights within a step, which replicas and L-BFGS do not; choose "
          "another");
    for (const SharedTensor& tensor : shared_tensors(part)) {
      const auto& local = part.locals[static_cast<size_t>(tensor.local)];
      for (const partitioner::Local* other : kept[local.value])
        if (!ops::intersect(local.box, other->box).empty())
          throw Error(
              ErrorCode::kUsage,
              kerf::format("several parts of a replica keep it, and what tables or vectors have of "
                           "each would drift apart; cut by layer{}",
                           tensor.is_state ? "" : ", or by batch"),
              model.value(local.value).name);
      kept[local.value].push_back(&local);
    }
  }
}

std::vector<std::pair<int, TableSpec>> weight_tables(const partitioner::Model& model,
                                                     const std::vector<partitioner::Part>& parts,
                                                     int workers,
                                                     const ops::OptimizerOptions& optimizer,
                                                     const ReplicaOptions& replicas) {
  check_apart(model, parts);
  std::vector<std::pair<int, TableSpec>> tables;
  const int each = replicas.count / replicas.server_groups;
  for (const partitioner::Part& part : parts) {
    const std::vector<SharedTensor> tensors = shared_tensors(part);
    if (tensors.empty()) continue;
    TableSpec spec{.name = kerf::format("weights of part {}", part.part),
                   .rows = tensors.back().rows.end,
                   .width = kSharedWidth};
    for (int replica = 0; replica < replicas.count; ++replica) {
      if (replica % each == 0) spec.groups.emplace_back();
      spec.groups.back().push_back(replica * workers + part.worker);
    }
    spec.staleness = replicas.consistency.kind == Consistency::Kind::kAsync
                         ? TableSpec::kAnyStaleness
                     : replicas.averages() ? 0
                                           : replicas.consistency.count;
    if (!replicas.averages()) spec.optimizer = optimizer;
    tables.emplace_back(part.part, std::move(spec));
  }
  return tables;
}

int64_t client_bytes(const TableSpec& table) {
  constexpr int64_t kBase = 1, kFetched = 1, kAccrued = 1, kPushed = 3, kAnswers = 1;
  const int64_t weights = table.rows * table.width * int64_t{sizeof(float)};
  return (kBase + kFetched + kAccrued + kPushed + kAnswers) * weights;
}

}  // namespace kerf::schedmp
