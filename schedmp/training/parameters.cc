#include "schedmp/training/parameters.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "ops/pack.h"
#include "partitioner/blocks.h"
#include "runtime/error.h"
#include "runtime/host_work.h"
#include "schedmp/safetensors.h"
#include "schedmp/training/part_shares.h"
#include "schedmp/training/stored_weights.h"
#include "schedmp/training/weight_slices.h"

namespace kerf::schedmp {

using ops::TensorView;
using partitioner::Local;
using partitioner::LocalKind;
using partitioner::Value;

namespace {

// Leaves nothing in the stream, however a scope ends: what is in it refers to what may go then.
class Settled {
 public:
  explicit Settled(runtime::Stream& stream) : stream_(stream) {}
  ~Settled() {
    try {
      stream_.synchronize();
    } catch (const std::exception&) {
      // Another error is on its way, or the next call of the stream has this one.
    }
  }
  Settled(const Settled&) = delete;

 private:
  runtime::Stream& stream_;
};

}  // namespace

Parameters::Parameters(const partitioner::Model& model, std::vector<const partitioner::Part*> parts,
                       ops::Workbench& bench, const ops::OptimizerOptions& optimizer, uint64_t seed,
                       bool trains, int micro_batches, const Alive& alive)
    : model_(model), parts_(std::move(parts)), bench_(bench), optimizer_(optimizer) {
  for (const partitioner::Part* part : parts_) {
    places_.emplace_back(part->locals.size());
    views_.emplace_back(1);
    states_.emplace_back(part->locals.size());
    older_.emplace_back(part->versions > 1 ? part->locals.size() : 0);
  }
  updates_.resize(parts_.size());
  const Settled settled(bench_.stream());  // the parts may go if what follows throws
  const std::vector<Tensor> weights = tensors(holds_weights);
  const auto to_view = [&](const Tensor& at, const TensorView& view) {
    places_[at.part][static_cast<size_t>(at.local)] = static_cast<int>(views_[at.part].size());
    views_[at.part].push_back(view);
  };
  const auto is_there = [&] {
    if (alive) alive();
  };
  lay_out(weights, 1, to_view);
  lay_out_packed();
  is_there();
  for (const Tensor& at : weights) {
    begin(at, seed);
    is_there();
  }
  if (!trains) return;
  const auto of_kind = [&](LocalKind kind) {
    return tensors([kind](const Local& local) { return local.kind == kind && local.persistent(); });
  };
  for (const LocalKind kind :
       {LocalKind::kParameterGradient, LocalKind::kHomeGradient, LocalKind::kStep}) {
    lay_out(of_kind(kind), 1, to_view);
    is_there();
  }
  const int ahead = parts_.empty() ? 0 : parts_.front()->ahead;  // the schedule's, of all
  lay_out(of_kind(LocalKind::kStatistics), micro_batches + ahead, to_view);
  const std::vector<Tensor> homes = tensors([](const Local& local) { return local.trained; });
  for (int state = 0; state < optimizer_.states(); ++state) {
    lay_out(homes, 1, [&](const Tensor& at, const TensorView& view) {
      states_[at.part][static_cast<size_t>(at.local)].push_back(view);
    });
    is_there();
  }
  const auto of_part = [&](size_t part) {
    std::vector<Tensor> own = homes;
    std::erase_if(own, [&](const Tensor& each) { return each.part != part; });
    return own;
  };
  for (size_t part = 0; part < parts_.size(); ++part)
    if (parts_[part]->versions > 1)
      lay_out(of_part(part), parts_[part]->versions - 1,
              [&](const Tensor& at, const TensorView& view) {
                older_[part][static_cast<size_t>(at.local)] = view;
              });
}

void Parameters::begin(const Tensor& at, uint64_t seed) {
  const Local& each = local(at);
  const Value& value = model_.value(each.value);
  const TensorView to = view(at.part, at.local);
  if (value.literal != nullptr)
    return write({at, to}, ops::Box::whole(value.spec.shape.rank()), value.literal->bytes.data());
  if (value.contents != nullptr)
    return fill({at, to}, [&](const RowRange& rows, size_t row_bytes) {
      std::string bytes(static_cast<size_t>(rows.count) * row_bytes, '\0');
      value.contents->read(static_cast<size_t>(rows.first) * row_bytes,
                           std::as_writable_bytes(std::span(bytes)));
      return bytes;
    });
  runtime::launch(
      bench_.stream(),
      [to, &each, &value, seed](std::byte* data) {
        ops::initialize({to.dtype, to.shape, data}, each.box, value.spec.shape, value.initializer,
                        seed, value.parameter);
      },
      runtime::overwritten(to.data, to.bytes()));
}

void Parameters::fill(const Contents& at, const Read& read) {
  const ops::ValueSpec& spec = model_.value(local(at.of).value).spec;
  const ops::Box whole = ops::Box::whole(spec.shape.rank());
  const size_t rows = spec.shape.rank() == 0 ? 1 : static_cast<size_t>(spec.shape[0]);
  for (const ops::Box& slice : slices_of(spec)) {
    if (ops::intersect(slice, local(at.of).box).empty()) continue;
    const std::string bytes = read(rows_of(slice, whole, spec.shape), spec.bytes(0) / rows);
    write(at, slice, bytes.data());
    bench_.stream().synchronize();
  }
}

Parameters::Rows Parameters::rows_within(const Contents& at, const ops::Box& slice) const {
  const ops::ValueSpec& spec = model_.value(local(at.of).value).spec;
  const ops::Box& held = local(at.of).box;
  Rows rows{ops::normalized(ops::intersect(slice, held), spec.shape), at.view};
  if (rows.box.empty() || rows.view.bytes() == 0 || rows.view.shape.rank() == 0) return rows;
  const size_t row_bytes = rows.view.bytes() / static_cast<size_t>(rows.view.shape[0]);
  const RowRange range = rows_of(rows.box, held, spec.shape);
  rows.view.shape = ops::local_shape(rows.box, spec.shape);
  rows.view.data += static_cast<size_t>(range.first) * row_bytes;
  return rows;
}

void Parameters::write(const Contents& at, const ops::Box& slice, const void* bytes) {
  const ops::ValueSpec& spec = model_.value(local(at.of).value).spec;
  const Rows rows = rows_within(at, slice);
  if (rows.box.empty() || rows.view.bytes() == 0) return;
  ops::Selection in_slice(slice, rows.box, spec);
  KERF_CHECK(in_slice.bytes(1) == rows.view.bytes(), "{} bytes of a slice of {} for {}",
             in_slice.bytes(1), model_.value(local(at.of).value).name, rows.view.bytes());
  runtime::launch(
      bench_.stream(),
      [in_slice = std::move(in_slice), from = static_cast<const std::byte*>(bytes)](
          std::byte* data) { in_slice.pack(from, data, 1); },
      runtime::overwritten(rows.view.data, rows.view.bytes()));
}

std::vector<Parameters::Tensor> Parameters::tensors(
    const std::function<bool(const Local&)>& wanted) const {
  std::vector<Tensor> found;
  for (size_t part = 0; part < parts_.size(); ++part)
    for (size_t i = 0; i < parts_[part]->locals.size(); ++i)
      if (wanted(parts_[part]->locals[i])) found.push_back({part, static_cast<int>(i)});
  std::stable_sort(found.begin(), found.end(), [&](const Tensor& a, const Tensor& b) {
    return local(a).value < local(b).value;
  });
  return found;
}

size_t Parameters::stride_of(const TensorView& one) {
  return static_cast<size_t>(partitioner::whole_blocks(static_cast<int64_t>(one.bytes())));
}

template <class Place>
void Parameters::lay_out(const std::vector<Tensor>& all, int copies, const Place& place) {
  std::vector<TensorView> views;
  size_t bytes = 0;
  for (const Tensor& tensor : all) {
    const Local& each = local(tensor);
    views.push_back({each.whole.dtype, each.shape(0), nullptr});
    bytes += stride_of(views.back()) * static_cast<size_t>(copies);
  }
  memory_.push_back(bench_.device().allocate(bytes));
  std::byte* at = memory_.back().data();
  bench_.stream().fill_zero(at, bytes);
  for (size_t i = 0; i < all.size(); ++i) {
    views[i].data = at;
    place(all[i], views[i]);
    at += stride_of(views[i]) * static_cast<size_t>(copies);
  }
}

void Parameters::lay_out_packed() {
  size_t bytes = 0;
  for (const partitioner::Part* part : parts_)
    for (const partitioner::LocalCall& call : part->calls)
      bytes += static_cast<size_t>(call.packed);
  memory_.push_back(bench_.device().allocate(bytes));
  std::byte* at = memory_.back().data();
  for (const partitioner::Part* part : parts_) {
    auto& of_part = packed_.emplace_back();
    for (const partitioner::LocalCall& call : part->calls) {
      of_part.emplace_back(call.packed == 0 ? nullptr : at, static_cast<size_t>(call.packed));
      at += call.packed;
    }
  }
}

TensorView Parameters::older(size_t part, int local, int number) const {
  TensorView version = older_[part][static_cast<size_t>(local)];
  version.data += static_cast<size_t>(number % (parts_[part]->versions - 1)) * stride_of(version);
  return version;
}

TensorView Parameters::view(size_t part, int local, int behind) const {
  if (behind == 0 || !parts_[part]->locals[static_cast<size_t>(local)].trained)
    return view(part, local);
  KERF_CHECK(behind < parts_[part]->versions && behind <= updates_[part],
             "weights of {} updates ago, after {}, where {} versions are kept", behind,
             updates_[part], parts_[part]->versions);
  return older(part, local, updates_[part] - behind);
}

void Parameters::keep_version(size_t part, bool is_read) {
  const int number = updates_[part]++;
  if (!is_read || parts_[part]->versions < 2) return;
  for (size_t i = 0; i < parts_[part]->locals.size(); ++i) {
    const auto local = static_cast<int>(i);
    const TensorView& newest = view(part, local);
    if (parts_[part]->locals[i].trained && newest.bytes() > 0)
      bench_.stream().copy(older(part, local, number).data, newest.data, newest.bytes());
  }
}

void Parameters::set_pace(const ops::Pace& pace) {
  decaying_ = optimizer_.rule(pace, true);
  staying_ = optimizer_.rule(pace, false);
}

void Parameters::update(size_t part, int home, const TensorView& gradient,
                        const ops::StepSays& step) {
  changed();
  const std::string& name = model_.value(local({part, home}).value).name;
  bench_.update(optimizer_.decays(name) ? decaying_ : staying_, view(part, home), gradient,
                states_[part][static_cast<size_t>(home)], step);
}

void Parameters::load(const std::filesystem::path& safetensors, const Alive& alive) {
  changed();
  StoredWeights file(safetensors);
  for (const Tensor& at : tensors(holds_weights)) {
    const Value& value = model_.value(local(at).value);
    if (value.literal != nullptr) continue;
    fill(weights_of(at),
         [&](const RowRange& rows, size_t /*row_bytes*/) { return file.read(value, rows); });
    if (alive) alive();
  }
}

Parameters::Tensor Parameters::holder(const std::vector<Tensor>& all, partitioner::ValueId value,
                                      const ops::Box& box) const {
  const auto value_of = [&](const Tensor& each) { return local(each).value; };
  std::optional<Tensor> found;
  for (auto at = std::ranges::lower_bound(all, value, {}, value_of);
       at != all.end() && value_of(*at) == value; ++at)
    if (local(*at).box.contains(box) && (!found || local(*at).trained)) found = *at;
  KERF_CHECK(found.has_value(), "no tensor of this worker holds {} of {}", ops::to_string(box),
             model_.value(value).name);
  return *found;
}

// A run that trains nothing has no homes, only what calls read: the share is a part of that.
void Parameters::save(size_t part, int number, const std::vector<ops::Layout>& layouts,
                      std::unique_ptr<runtime::WritableFile> safetensors,
                      const Alive& alive) const {
  std::vector<Tensor> mine = tensors(holds_weights);
  std::erase_if(mine, [&](const Tensor& each) { return each.part != part; });
  std::vector<NamedSpec> specs;
  std::vector<std::pair<Tensor, const ops::Box*>> shares;
  for (const auto& [id, share, first] : shares_of_part(model_, layouts, number)) {
    const Value& value = model_.value(id);
    shares.emplace_back(holder(mine, id, share->box), &share->box);
    specs.push_back(
        {value.name, {value.spec.dtype, ops::local_shape(share->box, value.spec.shape)}});
  }
  SafetensorsWriter file(std::move(safetensors), specs);
  for (const auto& [from, box] : shares)
    save(weights_of(from), *box, [&](std::string_view bytes) {
      file.write(bytes);
      if (alive) alive();
    });
  file.commit();
}

void Parameters::save(const Contents& from, const ops::Box& share, const ByteSink& to) const {
  const ops::ValueSpec& spec = model_.value(local(from.of).value).spec;
  std::string bytes;
  for (const ops::Box& slice : slices_of(spec)) {
    const ops::Box piece = ops::normalized(ops::intersect(slice, share), spec.shape);
    if (piece.empty()) continue;
    const Rows rows = rows_within(from, slice);
    const ops::Selection selection(rows.box, piece, spec);
    bytes.resize(selection.bytes(1));
    runtime::launch(
        bench_.stream(),
        [&](const std::byte* data) {
          selection.pack(data, reinterpret_cast<std::byte*>(bytes.data()), 1);
        },
        runtime::memory<const std::byte>(rows.view.data, rows.view.bytes()));
    bench_.stream().synchronize();
    to(bytes);
  }
}

}  // namespace kerf::schedmp
