#include "schedmp/training/parameters.h"

#include <cstring>

#include "ops/pack.h"
#include "schedmp/safetensors.h"

namespace kerf::schedmp {

using ops::TensorView;
using partitioner::Local;
using partitioner::LocalKind;
using partitioner::Value;

Parameters::Parameters(const partitioner::Model& model, const partitioner::Part& part,
                       runtime::Device& device, const ops::OptimizerOptions& optimizer,
                       uint64_t seed)
    : model_(model),
      part_(part),
      device_(device),
      optimizer_(ops::make_optimizer(optimizer, device)),
      tensors_(part.locals.size()),
      states_(part.locals.size()) {
  for (size_t i = 0; i < part.locals.size(); ++i)
    if (part.locals[i].persistent()) initialize(i, seed);
}

void Parameters::initialize(size_t local, uint64_t seed) {
  const Local& each = part_.locals[local];
  tensors_[local] = zeros(each.spec);
  if (each.kind == LocalKind::kParameterGradient) return;
  const Value& value = model_.value(each.value);
  ops::initialize(tensors_[local].view(), each.box, value.spec.shape, value.initializer, seed,
                  value.parameter);
  for (int state = 0; state < optimizer_->states(); ++state)
    states_[local].push_back(zeros(each.spec));
}

ops::Tensor Parameters::zeros(const ops::ValueSpec& spec) {
  ops::Tensor tensor(device_, spec.dtype, spec.shape);
  const TensorView view = tensor.view();
  std::memset(view.data, 0, view.bytes());
  return tensor;
}

void Parameters::update(int parameter, int gradient) {
  std::vector<TensorView> states;
  for (const ops::Tensor& state : states_[static_cast<size_t>(parameter)])
    states.push_back(state.view());
  optimizer_->update(view(parameter), view(gradient), states);
}

void Parameters::load(const std::filesystem::path& safetensors) {
  const std::vector<NamedTensor> tensors = read_safetensors(safetensors);
  for (size_t i = 0; i < part_.locals.size(); ++i) {
    const Local& each = part_.locals[i];
    if (each.kind != LocalKind::kParameter) continue;
    const Value& value = model_.value(each.value);
    const NamedTensor& whole = find_tensor(tensors, value.name, value.spec, safetensors);
    ops::Region(ops::Box::whole(value.spec.shape.rank()), each.box, value.spec)
        .pack(whole.data(), tensors_[i].view().data, 1);
  }
}

void Parameters::save(const std::filesystem::path& safetensors) const {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < part_.locals.size(); ++i) {
    if (part_.locals[i].kind != LocalKind::kParameter) continue;
    const TensorView view = tensors_[i].view();
    tensors.push_back({model_.value(part_.locals[i].value).name, view.dtype, view.shape,
                       std::string(reinterpret_cast<const char*>(view.data), view.bytes())});
  }
  write_safetensors(safetensors, tensors);
}

}  // namespace kerf::schedmp
