#include "schedmp/training/parameters.h"

#include <algorithm>
#include <cstring>

#include "ops/pack.h"
#include "partitioner/memory.h"
#include "schedmp/safetensors.h"

namespace kerf::schedmp {

using ops::TensorView;
using partitioner::Local;
using partitioner::LocalKind;
using partitioner::Value;

Parameters::Parameters(const partitioner::Model& model, std::vector<const partitioner::Part*> parts,
                       runtime::Device& device, const ops::OptimizerOptions& optimizer,
                       uint64_t seed, bool trains)
    : model_(model),
      parts_(std::move(parts)),
      device_(device),
      optimizer_(ops::make_optimizer(optimizer, device)) {
  for (const partitioner::Part* part : parts_) {
    views_.emplace_back(part->locals.size());
    states_.emplace_back(part->locals.size());
  }
  const std::vector<Tensor> parameters = of_kind(LocalKind::kParameter);
  const auto to_view = [&](const Tensor& at, const TensorView& view) {
    views_[at.part][static_cast<size_t>(at.local)] = view;
  };
  lay_out(parameters, to_view);
  for (const Tensor& at : parameters) {
    const Value& value = model.value(local(at).value);
    ops::initialize(view(at.part, at.local), local(at).box, value.spec.shape, value.initializer,
                    seed, value.parameter);
  }
  if (!trains) return;
  lay_out(of_kind(LocalKind::kParameterGradient), to_view);
  for (int state = 0; state < optimizer_->states(); ++state)
    lay_out(parameters, [&](const Tensor& at, const TensorView& view) {
      states_[at.part][static_cast<size_t>(at.local)].push_back(view);
    });
}

// In model order.
std::vector<Parameters::Tensor> Parameters::of_kind(LocalKind kind) const {
  std::vector<Tensor> tensors;
  for (size_t part = 0; part < parts_.size(); ++part)
    for (size_t i = 0; i < parts_[part]->locals.size(); ++i)
      if (parts_[part]->locals[i].kind == kind) tensors.push_back({part, static_cast<int>(i)});
  std::stable_sort(tensors.begin(), tensors.end(), [&](const Tensor& a, const Tensor& b) {
    return local(a).value < local(b).value;
  });
  return tensors;
}

template <class Place>
void Parameters::lay_out(const std::vector<Tensor>& tensors, const Place& place) {
  const auto bytes_of = [&](const Tensor& tensor) {
    return partitioner::whole_blocks(static_cast<int64_t>(local(tensor).spec.bytes(0)));
  };
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += bytes_of(tensor);
  memory_.push_back(device_.allocate(static_cast<size_t>(bytes)));
  std::byte* at = memory_.back().data();
  if (bytes > 0) std::memset(at, 0, static_cast<size_t>(bytes));
  for (const Tensor& tensor : tensors) {
    place(tensor, TensorView{local(tensor).spec.dtype, local(tensor).spec.shape, at});
    at += bytes_of(tensor);
  }
}

void Parameters::update(size_t part, int parameter, int gradient) {
  optimizer_->update(view(part, parameter), view(part, gradient),
                     states_[part][static_cast<size_t>(parameter)]);
}

void Parameters::load(const std::filesystem::path& safetensors) {
  const std::vector<NamedTensor> tensors = read_safetensors(safetensors);
  for (const Tensor& at : of_kind(LocalKind::kParameter)) {
    const Value& value = model_.value(local(at).value);
    const NamedTensor& whole = find_tensor(tensors, value.name, value.spec, safetensors);
    ops::Region(ops::Box::whole(value.spec.shape.rank()), local(at).box, value.spec)
        .pack(whole.data(), view(at.part, at.local).data, 1);
  }
}

void Parameters::save(size_t part, const std::filesystem::path& safetensors) const {
  std::vector<NamedTensor> tensors;
  for (const Tensor& at : of_kind(LocalKind::kParameter)) {
    if (at.part != part) continue;
    const TensorView& from = view(part, at.local);
    tensors.push_back({model_.value(local(at).value).name, from.dtype, from.shape,
                       std::string(reinterpret_cast<const char*>(from.data), from.bytes())});
  }
  write_safetensors(safetensors, tensors);
}

}  // namespace kerf::schedmp
