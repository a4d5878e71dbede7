// The weights of a run: the workers' shares joined into whole tensors.
#include "ops/pack.h"
#include "schedmp/safetensors.h"
#include "schedmp/training/shards.h"
#include "schedmp/training/training.h"

namespace kerf::schedmp {

using partitioner::Model;
using partitioner::Plan;
using partitioner::Value;
using partitioner::ValueId;

namespace {

// The whole tensor of a kept value, from the shares of it that parts left.
std::string join_shares(const Model& model, const Plan& plan, ValueId id,
                        std::vector<SafetensorsReader>& shards) {
  const Value& value = model.value(id);
  const ops::ValueSpec& spec = value.spec;
  std::string whole(spec.bytes(0), '\0');
  for (const ops::Share& share : plan.layouts[static_cast<size_t>(id)].shares) {
    const ops::ValueSpec local{spec.dtype, ops::local_shape(share.box, spec.shape)};
    const std::string bytes = shards[static_cast<size_t>(share.part)].read(value.name, local);
    ops::Selection(ops::Box::whole(spec.shape.rank()), share.box, spec)
        .unpack(reinterpret_cast<const std::byte*>(bytes.data()),
                reinterpret_cast<std::byte*>(whole.data()), 1);
  }
  return whole;
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
  for (const ValueId id : ids) writer.write(join_shares(model, plan, id, open));
  writer.commit();
  for (int part = 0; part < plan.parts(); ++part) std::filesystem::remove(shard_file(shards, part));
  std::filesystem::remove(shards);
}

}  // namespace kerf::schedmp
