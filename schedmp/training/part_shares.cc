#include "schedmp/training/part_shares.h"

#include <algorithm>

namespace kerf::schedmp {

std::vector<PartShare> shares_of_part(const partitioner::Model& model,
                                      const std::vector<ops::Layout>& layouts, int part) {
  std::vector<PartShare> shares;
  for (const partitioner::ValueId id : model.kept_values()) {
    const ops::Layout& layout = layouts[static_cast<size_t>(id)];
    const ops::Share* share = layout.find(part);
    if (share == nullptr || model.value(id).literal != nullptr) continue;
    const auto first = std::ranges::find(layout.shares, share->box, &ops::Share::box);
    shares.push_back({id, share, &*first == share});
  }
  return shares;
}

}  // namespace kerf::schedmp
