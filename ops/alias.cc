#include "ops/alias.h"

#include "ops/cpu/kernels.h"
#include "ops/refold.h"

namespace kerf::ops {

SplitRule AliasOperator::split(const Attributes&, std::span<const ValueSpec> inputs,
                               const ValueSpec& output, const Box& wanted) const {
  const Shape& shape = inputs[0].shape;
  if (auto box = refold(wanted, output.shape, shape)) return boxes({{*box, false}});
  return refuse(
      format("{} cannot give {} of {}: its elements are no box of the input {}; divide it by whole "
             "channels",
             name(), to_string(wanted), to_string(output.shape), to_string(shape)));
}

std::unique_ptr<Kernel> AliasOperator::make_kernel(const Attributes&,
                                                   runtime::Device& device) const {
  if (device.kind() != runtime::DeviceKind::kCpu) throw_no_kernel(name(), device);
  return cpu::make_alias_kernel();
}

}  // namespace kerf::ops
