// The weights of a run: the workers' shares joined into whole tensors.
#include "ops/pack.h"
#include "schedmp/safetensors.h"
#include "schedmp/training/shards.h"
#include "schedmp/training/training.h"
#include "schedmp/training/weight_slices.h"

namespace kerf::schedmp {

using partitioner::Model;
using partitioner::Plan;
using partitioner::Value;
using partitioner::ValueId;

namespace {

// A slice of a kept value, from the shares that parts left.
void join_slice(const Value& value, const ops::Box& slice, const ops::Layout& layout,
                std::vector<SafetensorsReader>& shards, std::string& bytes) {
  const ops::ValueSpec& spec = value.spec;
  bytes.resize(ops::Selection(slice, slice, spec).bytes(1));
  for (const ops::Share& share : layout.shares) {
    const ops::Box piece = ops::normalized(ops::intersect(slice, share.box), spec.shape);
    if (piece.empty()) continue;
    const ops::ValueSpec local{spec.dtype, ops::local_shape(share.box, spec.shape)};
    const std::string rows = shards[static_cast<size_t>(share.part)].read(
        value.name, local, rows_of(piece, share.box, spec.shape));
    ops::Selection(slice, piece, spec)
        .unpack(reinterpret_cast<const std::byte*>(rows.data()),
                reinterpret_cast<std::byte*>(bytes.data()), 1);
  }
}

}  // namespace

void join_weights(const Model& model, const Plan& plan, const std::filesystem::path& shards,
                  const std::filesystem::path& file) {
  std::vector<SafetensorsReader> open;
  for (int part = 0; part < plan.parts(); ++part) open.emplace_back(shard_file(shards, part));
  std::vector<ValueId> ids;
  std::vector<NamedSpec> specs;
  for (const ValueId id : model.kept_values()) {
    const Value& value = model.value(id);
    if (value.literal != nullptr) continue;
    ids.push_back(id);
    specs.push_back({value.name, value.spec});
  }
  SafetensorsWriter writer(file, specs,
                           {{"model", model.name()}, {"fingerprint", model.fingerprint()}});
  std::string bytes;
  for (const ValueId id : ids)
    for (const ops::Box& slice : slices_of(model.value(id).spec)) {
      join_slice(model.value(id), slice, plan.layouts[static_cast<size_t>(id)], open, bytes);
      writer.write(bytes);
    }
  writer.commit();
  for (int part = 0; part < plan.parts(); ++part) std::filesystem::remove(shard_file(shards, part));
  std::filesystem::remove(shards);
}

}  // namespace kerf::schedmp
