#include "schedmp/training/best_weights.h"

#include <memory>
#include <utility>

#include "ops/pack.h"
#include "schedmp/training/part_shares.h"
#include "schedmp/training/shards.h"
#include "schedmp/training/weight_slices.h"

namespace kerf::schedmp {

namespace {

ops::ValueSpec local_spec(const partitioner::Value& value, const ops::Box& box) {
  return {value.spec.dtype, ops::local_shape(box, value.spec.shape)};
}

RowRange rows_of_slice(const ops::Box& slice, const ops::Shape& shape) {
  return rows_of(slice, ops::Box::whole(shape.rank()), shape);
}

}  // namespace

void add_best_weights(const partitioner::Model& model, const partitioner::Plan& plan,
                      runtime::Store& store, const std::filesystem::path& shards,
                      const std::vector<int>& parts, std::vector<StoredSlice>& to) {
  for (const int part : parts) {
    auto file = store.find(shard_file(shards, part));
    if (!file) continue;
    const auto reader = std::make_shared<SafetensorsReader>(std::move(file));
    for (const auto& [id, share, first] : shares_of_part(model, plan.layouts, part)) {
      if (!first) continue;
      const partitioner::Value& value = model.value(id);
      const auto write = [reader, name = value.name,
                          spec = local_spec(value, share->box)](const ByteSink& sink) {
        for (const ops::Box& slice : slices_of(spec))
          sink(reader->read(name, spec, rows_of_slice(slice, spec.shape)));
      };
      to.push_back({kBestWeights, value.name, value.spec, share->box, write});
    }
  }
}

void write_best_weights(StoredSlices& from, const partitioner::Model& model,
                        const partitioner::Plan& plan, const std::vector<int>& parts,
                        runtime::Store& store, const std::filesystem::path& shards) {
  for (const int part : parts) {
    const std::vector<PartShare> shares = shares_of_part(model, plan.layouts, part);
    std::vector<NamedSpec> specs;
    for (const PartShare& each : shares) {
      const partitioner::Value& value = model.value(each.value);
      specs.push_back({value.name, local_spec(value, each.share->box)});
    }
    SafetensorsWriter file(store.create(shard_file(shards, part)), specs);
    for (const PartShare& each : shares) {
      const partitioner::Value& value = model.value(each.value);
      const ops::Box& box = each.share->box;
      for (const ops::Box& slice : slices_of(value.spec)) {
        const ops::Box piece = ops::normalized(ops::intersect(slice, box), value.spec.shape);
        if (piece.empty()) continue;
        const std::string whole = from.read(kBestWeights, value.name, value.spec, box,
                                            rows_of_slice(slice, value.spec.shape));
        const ops::Selection selection(slice, piece, value.spec);
        std::string bytes(selection.bytes(1), '\0');
        selection.pack(reinterpret_cast<const std::byte*>(whole.data()),
                       reinterpret_cast<std::byte*>(bytes.data()), 1);
        file.write(bytes);
      }
    }
    file.commit();
  }
}

}  // namespace kerf::schedmp
