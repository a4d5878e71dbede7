// Weights in and out: shares of one worker, and whole tensors of all.
#include <cstring>

#include "ops/pack.h"
#include "runtime/error.h"
#include "schedmp/safetensors.h"
#include "schedmp/training/executor.h"
#include "schedmp/training/shards.h"
#include "schedmp/training/training.h"

namespace kerf::schedmp {

using partitioner::Local;
using partitioner::LocalKind;
using partitioner::Model;
using partitioner::Value;

namespace {

const NamedTensor& find_tensor(const std::vector<NamedTensor>& tensors, const std::string& name,
                               const std::filesystem::path& file) {
  for (const NamedTensor& tensor : tensors)
    if (tensor.name == name) return tensor;
  throw Error(ErrorCode::kUsage, kerf::format("there is no tensor '{}'", name), file.string());
}

void check_alike(const NamedTensor& tensor, const ops::ValueSpec& spec,
                 const std::filesystem::path& file) {
  if (tensor.dtype != spec.dtype || !(tensor.shape == spec.shape))
    throw Error(ErrorCode::kUsage,
                kerf::format("'{}' is {} {}, expected {} {}", tensor.name, to_string(tensor.dtype),
                             to_string(tensor.shape), to_string(spec.dtype), to_string(spec.shape)),
                file.string());
}

// Region and memcpy take mutable bytes; a file's text is only read.
const std::byte* bytes_of(const NamedTensor& tensor) {
  return reinterpret_cast<const std::byte*>(tensor.bytes.data());
}

}  // namespace

void Executor::load(const std::filesystem::path& safetensors) {
  const std::vector<NamedTensor> tensors = read_safetensors(safetensors);
  for (size_t i = 0; i < part_.locals.size(); ++i) {
    const Local& each = part_.locals[i];
    if (each.kind != LocalKind::kParameter) continue;
    const Value& value = model_.value(each.value);
    const NamedTensor& tensor = find_tensor(tensors, value.name, safetensors);
    check_alike(tensor, value.spec, safetensors);
    ops::Region(ops::Box::whole(value.spec.shape.rank()), each.box, value.spec)
        .pack(bytes_of(tensor), persistent_[i].view().data, 1);
  }
}

void Executor::save(const std::filesystem::path& safetensors) const {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < part_.locals.size(); ++i) {
    const Local& each = part_.locals[i];
    if (each.kind != LocalKind::kParameter) continue;
    const ops::TensorView view = persistent_[i].view();
    tensors.push_back({model_.value(each.value).name, view.dtype, view.shape,
                       std::string(reinterpret_cast<const char*>(view.data), view.bytes())});
  }
  write_safetensors(safetensors, tensors);
}

void join_weights(const Model& model, const partitioner::Plan& plan,
                  const std::filesystem::path& shards, const std::filesystem::path& file) {
  std::vector<NamedTensor> wholes;
  for (const partitioner::ValueId id : model.parameters()) {
    const Value& value = model.value(id);
    wholes.push_back(
        {value.name, value.spec.dtype, value.spec.shape, std::string(value.spec.bytes(0), '\0')});
  }
  for (int part = 0; part < plan.parts(); ++part) {
    const std::filesystem::path shard = shard_file(shards, plan.binding[static_cast<size_t>(part)]);
    const std::vector<NamedTensor> tensors = read_safetensors(shard);
    for (NamedTensor& whole : wholes) {
      const partitioner::ValueId id = model.find_value(whole.name);
      const ops::Share* share = plan.layouts[static_cast<size_t>(id)].find(part);
      if (share == nullptr) continue;
      const ops::ValueSpec& spec = model.value(id).spec;
      const NamedTensor& tensor = find_tensor(tensors, whole.name, shard);
      check_alike(tensor, {spec.dtype, local_shape(share->box, spec.shape)}, shard);
      ops::Region(ops::Box::whole(spec.shape.rank()), share->box, spec)
          .unpack(bytes_of(tensor), reinterpret_cast<std::byte*>(whole.bytes.data()), 1);
    }
  }
  write_safetensors(file, wholes, {{"model", model.name()}, {"fingerprint", model.fingerprint()}});
  for (int worker = 0; worker < plan.parts(); ++worker)
    std::filesystem::remove(shard_file(shards, worker));
  std::filesystem::remove(shards);
}

}  // namespace kerf::schedmp
