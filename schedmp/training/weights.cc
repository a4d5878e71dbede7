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

// Copies a part's share of every parameter to its place in the whole tensors.
void join_shard(const Model& model, const Plan& plan, int part, const std::filesystem::path& shard,
                std::vector<NamedTensor>& wholes) {
  const std::vector<NamedTensor> tensors = read_safetensors(shard);
  for (NamedTensor& whole : wholes) {
    const ValueId id = model.find_value(whole.name);
    const ops::Share* share = plan.layouts[static_cast<size_t>(id)].find(part);
    if (share == nullptr) continue;
    const ops::ValueSpec& spec = model.value(id).spec;
    const ops::ValueSpec local{spec.dtype, ops::local_shape(share->box, spec.shape)};
    ops::Region(ops::Box::whole(spec.shape.rank()), share->box, spec)
        .unpack(find_tensor(tensors, whole.name, local, shard).data(),
                reinterpret_cast<std::byte*>(whole.bytes.data()), 1);
  }
}

}  // namespace

void join_weights(const Model& model, const Plan& plan, const std::filesystem::path& shards,
                  const std::filesystem::path& file) {
  std::vector<NamedTensor> wholes;
  for (const ValueId id : model.parameters()) {
    const Value& value = model.value(id);
    wholes.push_back(
        {value.name, value.spec.dtype, value.spec.shape, std::string(value.spec.bytes(0), '\0')});
  }
  for (int part = 0; part < plan.parts(); ++part)
    join_shard(model, plan, part, shard_file(shards, part), wholes);
  write_safetensors(file, wholes, {{"model", model.name()}, {"fingerprint", model.fingerprint()}});
  for (int part = 0; part < plan.parts(); ++part) std::filesystem::remove(shard_file(shards, part));
  std::filesystem::remove(shards);
}

}  // namespace kerf::schedmp
