#include "schedmp/training/kept_bytes.h"

#include "schedmp/training/replica_slices.h"

namespace kerf::schedmp {

namespace {

constexpr auto kFloat = int64_t{sizeof(float)};
constexpr auto kCount = int64_t{sizeof(int64_t)};

}  // namespace

int64_t kept_bytes(const partitioner::Model& model, const partitioner::Part& part, int states) {
  using Kind = partitioner::LocalKind;
  int64_t sum = 0;
  for (const partitioner::Local& local : part.locals) {
    if (local.kind != Kind::kParameter && local.kind != Kind::kHome) continue;
    if (model.value(local.value).literal != nullptr) continue;
    const ops::ValueSpec spec{local.whole.dtype, local.shape(0)};
    sum += static_cast<int64_t>(spec.bytes(0)) * (1 + (local.trained ? states : 0));
  }
  return sum;
}

std::vector<int64_t> kept_bytes(const partitioner::Model& model,
                                const std::vector<partitioner::Part>& parts, int workers,
                                int states) {
  std::vector<int64_t> bytes(static_cast<size_t>(workers));
  for (const partitioner::Part& part : parts)
    bytes.at(static_cast<size_t>(part.worker)) += kept_bytes(model, part, states);
  return bytes;
}

int64_t kept_of_table(const partitioner::Part& part, const TableSpec& table, int worker,
                      const ReplicaOptions& replicas) {
  const int states = table.optimizer ? ops::Optimizer(*table.optimizer).states() : 0;
  const bool is_heard = table.groups.size() > 1;
  int64_t sum = 0;
  for (const SharedTensor& tensor : shared_tensors(part)) {
    const int64_t served = served_of(table, worker, tensor).count;
    const bool learns = !tensor.is_state && table.optimizer;
    sum += served * kFloat * (1 + (is_heard ? 1 : 0) + (learns ? states : 0));
    if (served > 0 && learns) sum += kCount;
    if (tensor.is_state || replicas.averages())
      sum += tensor.elements * kFloat;
    else if (replicas.pushes_every() > 1)
      sum += tensor.elements * kFloat + kCount;
  }
  return sum;
}

int64_t kept_of_vectors(const partitioner::Part& part, const TableSpec& point, int worker,
                        int history) {
  int64_t served = 0;
  for (const SharedTensor& tensor : shared_tensors(part))
    served += served_of(point, worker, tensor).count;
  constexpr int64_t kBases = 2;
  return served * kFloat * (kBases + 2 * history);
}

}  // namespace kerf::schedmp
