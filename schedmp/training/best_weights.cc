#include "schedmp/training/best_weights.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ops/pack.h"
#include "schedmp/training/shards.h"
#include "schedmp/training/weight_slices.h"

namespace kerf::schedmp {

namespace {

struct PartShare {
  const partitioner::Value* value;
  const ops::Share* share;
  bool first;  // of its box
};

std::vector<PartShare> shares_of_part(const partitioner::Model& model,
                                      const partitioner::Plan& plan, int part) {
  std::vector<PartShare> shares;
  for (const partitioner::ValueId id : model.kept_values()) {
    const ops::Layout& layout = plan.layouts[static_cast<size_t>(id)];
    const ops::Share* share = layout.find(part);
    if (share == nullptr || model.value(id).literal != nullptr) continue;
    const auto first = std::ranges::find(layout.shares, share->box, &ops::Share::box);
    shares.push_back({&model.value(id), share, &*first == share});
  }
  return shares;
}

ops::ValueSpec local_spec(const PartShare& of) {
  return {of.value->spec.dtype, ops::local_shape(of.share->box, of.value->spec.shape)};
}

RowRange rows_of_slice(const ops::Box& slice, const ops::Shape& shape) {
  return rows_of(slice, ops::Box::whole(shape.rank()), shape);
}

}  // namespace

void add_best_weights(const partitioner::Model& model, const partitioner::Plan& plan,
                      const std::filesystem::path& shards, const std::vector<int>& parts,
                      std::vector<StoredSlice>& to) {
  for (const int part : parts) {
    const std::filesystem::path file = shard_file(shards, part);
    if (!std::filesystem::exists(file)) continue;
    const auto reader = std::make_shared<SafetensorsReader>(file);
    for (const PartShare& each : shares_of_part(model, plan, part)) {
      if (!each.first) continue;
      const auto write = [reader, name = each.value->name,
                          spec = local_spec(each)](SafetensorsStream& stream) {
        for (const ops::Box& slice : slices_of(spec))
          stream.write(reader->read(name, spec, rows_of_slice(slice, spec.shape)));
      };
      to.push_back({kBestWeights, each.value->name, each.value->spec, each.share->box, write});
    }
  }
}

void write_best_weights(StoredSlices& from, const partitioner::Model& model,
                        const partitioner::Plan& plan, const std::vector<int>& parts,
                        const std::filesystem::path& shards) {
  for (const int part : parts) {
    const std::vector<PartShare> shares = shares_of_part(model, plan, part);
    std::vector<NamedSpec> specs;
    for (const PartShare& each : shares) specs.push_back({each.value->name, local_spec(each)});
    SafetensorsWriter file(shard_file(shards, part), specs);
    for (const auto& [value, share, first] : shares)
      for (const ops::Box& slice : slices_of(value->spec)) {
        const ops::Box piece =
            ops::normalized(ops::intersect(slice, share->box), value->spec.shape);
        if (piece.empty()) continue;
        const std::string whole = from.read(kBestWeights, value->name, value->spec, share->box,
                                            rows_of_slice(slice, value->spec.shape));
        const ops::Selection selection(slice, piece, value->spec);
        std::string bytes(selection.bytes(1), '\0');
        selection.pack(reinterpret_cast<const std::byte*>(whole.data()),
                       reinterpret_cast<std::byte*>(bytes.data()), 1);
        file.write(bytes);
      }
    file.commit();
  }
}

}  // namespace kerf::schedmp
