#include "schedmp/training/locals.h"

#include "ops/pack.h"
#include "runtime/error.h"

namespace kerf::schedmp {

using ops::TensorView;
using partitioner::Local;
using partitioner::LocalKind;
using partitioner::Storage;

Locals::Locals(const partitioner::Model& model, const partitioner::Part& part,
               runtime::Device& device, Parameters& parameters, Mailbox& mailbox)
    : model_(model), part_(part), device_(device), parameters_(parameters), mailbox_(mailbox) {}

void Locals::begin(const StepData& data, int micro_batches) {
  data_ = data;
  micro_batches_.resize(static_cast<size_t>(micro_batches));
  const std::vector<int64_t> sizes =
      partitioner::micro_batch_sizes(static_cast<int64_t>(data.rows.size()), micro_batches);
  int64_t first = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    micro_batches_[i].first = first;
    micro_batches_[i].samples = sizes[i];
    micro_batches_[i].cells.resize(part_.locals.size());
    first += sizes[i];
  }
}

TensorView Locals::shape_of(int index, int micro_batch) const {
  const ops::ValueSpec& spec = local(index).spec;
  return {spec.dtype, spec.shape.with_batch(at(micro_batch).samples), nullptr};
}

TensorView Locals::look(int index, int micro_batch) const {
  if (local(index).persistent()) return parameters_.view(index);
  const Cell& mine = at(micro_batch).cells[static_cast<size_t>(index)];
  if (mine.live) return mine.view;
  TensorView view = shape_of(index, micro_batch);
  if (local(index).storage == Storage::kAlias)
    view.data = look(local(index).alias_of, micro_batch).data;
  return view;
}

TensorView Locals::ensure(int index, int micro_batch) {
  const Local& each = local(index);
  if (each.persistent()) return parameters_.view(index);
  Cell& mine = cell(index, micro_batch);
  if (mine.live) return mine.view;
  TensorView view = shape_of(index, micro_batch);
  switch (each.storage) {
    case Storage::kOwn:
      mine.buffer = device_.allocate(view.bytes());
      view.data = mine.buffer.data();
      if (each.kind == LocalKind::kData) read_data(index, micro_batch, view);
      break;
    case Storage::kAlias:
      view.data = ensure(each.alias_of, micro_batch).data;
      return view;
    case Storage::kSent:
      mine.slot = mailbox_.acquire(each.route, micro_batch, view.bytes());
      view.data = mine.slot->data;
      break;
    case Storage::kReceived:
      KERF_CHECK(false, "{} is used before it was received", model_.value(each.value).name);
  }
  mine.view = view;
  mine.live = true;
  return view;
}

void Locals::place(int index, int micro_batch, const runtime::View& message) {
  Cell& mine = cell(index, micro_batch);
  mine.view = shape_of(index, micro_batch);
  // Nobody writes to a local that is read in place.
  mine.view.data = const_cast<std::byte*>(message.data);
  mine.message = message;
  mine.live = true;
}

runtime::Slot Locals::hand_over(int index, int micro_batch) {
  ensure(index, micro_batch);
  Cell& mine = cell(index, micro_batch);
  const runtime::Slot slot = *mine.slot;
  mine.slot.reset();
  return slot;
}

void Locals::free(int index, int micro_batch) {
  if (local(index).persistent()) return;
  Cell& mine = cell(index, micro_batch);
  if (!mine.live) return;
  if (mine.message) mailbox_.release(local(index).route, *mine.message);
  if (mine.slot) mailbox_.abandon(local(index).route, *mine.slot);
  mine = {};
}

void Locals::free_all(int micro_batch) {
  for (size_t i = 0; i < part_.locals.size(); ++i) free(static_cast<int>(i), micro_batch);
}

void Locals::read_data(int index, int micro_batch, const TensorView& to) {
  const Local& each = local(index);
  const partitioner::Value& value = model_.value(each.value);
  KERF_CHECK(data_.dataset != nullptr, "no data set for {}", value.name);
  const auto rows = data_.rows.subspan(static_cast<size_t>(first(micro_batch)),
                                       static_cast<size_t>(samples(micro_batch)));
  const auto read = [&](std::span<const int64_t> some, const TensorView& into) {
    if (value.role == partitioner::ValueRole::kLabel)
      data_.dataset->read_labels(some, into);
    else
      data_.dataset->read_features(some, into);
  };
  if (each.box.is_whole()) return read(rows, to);
  // Row by row, so that no second tensor of this size is needed.
  const ops::Tensor row(device_, value.spec.dtype, value.spec.shape.with_batch(1));
  const ops::Region share(ops::Box::whole(value.spec.shape.rank()), each.box, value.spec);
  std::byte* at = to.data;
  for (size_t i = 0; i < rows.size(); ++i, at += share.bytes(1)) {
    read(rows.subspan(i, 1), row.view());
    share.pack(row.view().data, at, 1);
  }
}

}  // namespace kerf::schedmp
