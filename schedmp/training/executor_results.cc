// What an executor hands out of a model without a loss: its results, in memory of the host that
// is taken when it is made.
#include "partitioner/blocks.h"
#include "schedmp/training/executor.h"
#include "schedmp/training/result_memory.h"

namespace kerf::schedmp {

int64_t result_bytes(const partitioner::Part& part, int local, const partitioner::Plan& plan) {
  const auto bytes = part.locals[static_cast<size_t>(local)].bytes(plan.division.largest);
  return partitioner::whole_blocks(static_cast<int64_t>(bytes));
}

int64_t result_bytes(const std::vector<partitioner::Part>& parts, const partitioner::Plan& plan,
                     int worker) {
  int64_t bytes = 0;
  for (const partitioner::Part& part : parts) {
    if (plan.binding[static_cast<size_t>(part.part)] != worker) continue;
    for (const partitioner::Instruction& instruction : part.forward.instructions)
      if (instruction.kind == partitioner::Instruction::Kind::kWrite)
        bytes += plan.micro_batches * result_bytes(part, instruction.local, plan);
  }
  return bytes;
}

void Executor::take_result_memory() {
  size_t writes = 0;
  for (const partitioner::Part* part : evaluation_->parts) {
    auto& places = given_places_.emplace_back(part->locals.size());
    for (const Instruction& instruction : part->forward.instructions) {
      if (instruction.kind != Instruction::Kind::kWrite) continue;
      const auto index = static_cast<size_t>(instruction.local);
      const int64_t share = result_bytes(*part, instruction.local, plan_);
      for (int micro_batch = 0; micro_batch < micro_batches_; ++micro_batch, ++writes) {
        places[index].push_back(given_bytes_);
        given_bytes_ += static_cast<size_t>(share);
      }
    }
  }
  if (given_bytes_ == 0) return;
  given_memory_ = workplace_.device.allocate_pinned(given_bytes_);
  given_.reserve(writes);
}

void Executor::write(const Site& site, const Instruction& instruction) {
  step_trace_.works();
  const ops::TensorView share = view(site, instruction.local);
  const auto& places = given_places_[site.part][static_cast<size_t>(instruction.local)];
  std::byte* to = given_memory_.get() + places[static_cast<size_t>(site.micro_batch)];
  if (share.bytes() > 0) workplace_.stream.copy(to, share.data, share.bytes());
  given_.push_back({local(site, instruction.local).value,
                    part(site).part,
                    first(site),
                    samples(site),
                    {share.dtype, share.shape, to}});
}

}  // namespace kerf::schedmp
