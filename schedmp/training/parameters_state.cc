// A worker's shares of weights and optimizer states on their way into checkpoints and back.
#include <utility>

#include "schedmp/training/parameters.h"
#include "schedmp/training/part_shares.h"
#include "schedmp/training/stored_slices.h"

namespace kerf::schedmp {

void Parameters::add_slices(const Tensor& at, const ops::Box& box,
                            std::vector<StoredSlice>& to) const {
  const partitioner::Value& value = model_.value(local(at).value);
  const auto add = [&](std::string kind, const ops::TensorView& view) {
    to.push_back({std::move(kind), value.name, value.spec, box,
                  [this, contents = Contents{at, view}, box](const ByteSink& sink) {
                    save(contents, box, sink);
                  }});
  };
  add(kWeights, view(at.part, at.local));
  const auto& states = states_[at.part][static_cast<size_t>(at.local)];
  for (size_t state = 0; state < states.size(); ++state)
    add(state_kind(static_cast<int>(state)), states[state]);
}

std::vector<StoredSlice> Parameters::slices(Reach reach,
                                            const std::vector<ops::Layout>& layouts) const {
  std::vector<StoredSlice> slices;
  const std::vector<Tensor> all = tensors(holds_weights);
  for (size_t part = 0; part < parts_.size(); ++part) {
    std::vector<Tensor> mine = all;
    std::erase_if(mine, [&](const Tensor& each) {
      return each.part != part || model_.value(local(each).value).literal != nullptr;
    });
    if (reach == Reach::kAlone) {
      for (const Tensor& at : mine) add_slices(at, local(at).box, slices);
      continue;
    }
    for (const auto& [id, share, first] : shares_of_part(model_, layouts, parts_[part]->part))
      if (first) add_slices(holder(mine, id, share->box), share->box, slices);
  }
  return slices;
}

void Parameters::load(StoredSlices& slices, const KindOf& kind_of) {
  changed();
  for (const Tensor& at : tensors(holds_weights)) {
    const partitioner::Value& value = model_.value(local(at).value);
    if (value.literal != nullptr) continue;
    const auto fill_with = [&](const std::string& kind, const ops::TensorView& view) {
      fill({at, view}, [&](const RowRange& rows, size_t /*row_bytes*/) {
        return slices.read(kind_of(kind, value.name), value.name, value.spec, local(at).box, rows);
      });
    };
    fill_with(kWeights, view(at.part, at.local));
    const auto& states = states_[at.part][static_cast<size_t>(at.local)];
    for (size_t state = 0; state < states.size(); ++state)
      fill_with(state_kind(static_cast<int>(state)), states[state]);
  }
}

}  // namespace kerf::schedmp
