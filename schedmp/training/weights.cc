// The weights of a run, or of its checkpoint: workers' shares joined into whole tensors.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "ops/pack.h"
#include "schedmp/safetensors.h"
#include "schedmp/training/shards.h"
#include "schedmp/training/stored_slices.h"
#include "schedmp/training/stored_weights.h"
#include "schedmp/training/training.h"
#include "schedmp/training/weight_slices.h"

namespace kerf::schedmp {

using partitioner::Model;
using partitioner::Plan;
using partitioner::Value;
using partitioner::ValueId;

namespace {

// A slice of a kept value, from the shares that parts left.
std::string joined(const Value& value, const ops::Box& slice, int axis, const ops::Layout& layout,
                   std::vector<SafetensorsReader>& shards) {
  const ops::ValueSpec& spec = value.spec;
  std::string bytes(ops::Selection(slice, slice, spec).bytes(1), '\0');
  for (const ops::Share& share : layout.shares) {
    const ops::Box piece = ops::normalized(ops::intersect(slice, share.box), spec.shape);
    if (piece.empty()) continue;
    const ops::ValueSpec local{spec.dtype, ops::local_shape(share.box, spec.shape)};
    const std::string rows = shards[static_cast<size_t>(share.part)].read(
        value.name, local, rows_of(piece, share.box, spec.shape, axis), axis);
    ops::Selection(slice, piece, spec)
        .unpack(reinterpret_cast<const std::byte*>(rows.data()),
                reinterpret_cast<std::byte*>(bytes.data()), 1);
  }
  return bytes;
}

}  // namespace

namespace {

// A slice of a value: some indices of an axis.
using ReadSlice = std::function<std::string(const Value& value, const RowRange& rows, int axis)>;

// All of it, not committed.
std::unique_ptr<SafetensorsWriter> write_weights(const Model& model, const ReadSlice& read,
                                                 const std::filesystem::path& file,
                                                 const Numbering& numbering) {
  std::vector<ValueId> ids;
  std::vector<NamedSpec> specs;
  std::set<std::string> names;
  for (const ValueId id : model.kept_values()) {
    const Value& value = model.value(id);
    if (value.literal != nullptr) continue;
    const auto tensors = stored_tensors(value);
    if (!names.insert(tensors[0].name).second) {
      // A tensor that is two values, in two shapes, is frozen: they are equal.
      KERF_CHECK(value.role != ops::Role::kParameter, "{} is trained, and another value, too",
                 tensors[0].name);
      continue;
    }
    ids.push_back(id);
    specs.insert(specs.end(), tensors.begin(), tensors.end());
  }
  std::map<std::string, std::string> metadata{{"model", model.name()},
                                              {kFingerprintKey, model.fingerprint()}};
  if (std::string map = stored_names(model); !map.empty()) metadata[kNamesKey] = std::move(map);
  if (!numbering.names.empty()) metadata[kNumberingKey] = write_numbering(numbering);
  auto writer = std::make_unique<SafetensorsWriter>(file, specs, metadata);
  for (const ValueId id : ids) {
    const Value& value = model.value(id);
    const auto slice = [&](const RowRange& rows, int axis) { return read(value, rows, axis); };
    write_stored(value, slice, *writer);
  }
  return writer;
}

}  // namespace

std::unique_ptr<SafetensorsWriter> joined_weights(const Model& model, const Plan& plan,
                                                  const std::filesystem::path& shards,
                                                  const std::filesystem::path& file,
                                                  const Numbering& numbering) {
  std::vector<SafetensorsReader> open;
  for (int part = 0; part < plan.parts(); ++part) open.emplace_back(shard_file(shards, part));
  std::map<const Value*, const ops::Layout*> layouts;
  for (const ValueId id : model.kept_values())
    layouts[&model.value(id)] = &plan.layouts[static_cast<size_t>(id)];
  const auto read = [&](const Value& value, const RowRange& rows, int axis) {
    return joined(value, slice_of_rows(value.spec.shape, rows, axis), axis, *layouts.at(&value),
                  open);
  };
  return write_weights(model, read, file, numbering);
}

void join_weights(const Model& model, const Plan& plan, const std::filesystem::path& shards,
                  const std::filesystem::path& file, const Numbering& numbering) {
  joined_weights(model, plan, shards, file, numbering)->commit();
}

void export_weights(const Model& model, StoredSlices& from, const std::filesystem::path& file,
                    const Numbering& numbering) {
  const std::string kind = from.has(kBestWeights) ? kBestWeights : kWeights;
  const auto read = [&](const Value& value, const RowRange& rows, int axis) {
    return from.read(kind, value.name, value.spec, ops::Box::whole(value.spec.shape.rank()), rows,
                     axis);
  };
  write_weights(model, read, file, numbering)->commit();
}

}  // namespace kerf::schedmp
