// What an executor hands out of a model without a loss: its results, in memory of the host that
// is taken when it is made.
#include "partitioner/blocks.h"
#include "schedmp/training/executor.h"

namespace kerf::schedmp {

void Executor::take_result_memory() {
  size_t bytes = 0;
  size_t writes = 0;
  for (const partitioner::Part* part : evaluation_->parts) {
    auto& places = given_places_.emplace_back(part->locals.size());
    for (const Instruction& instruction : part->forward.instructions) {
      if (instruction.kind != Instruction::Kind::kWrite) continue;
      const auto index = static_cast<size_t>(instruction.local);
      const auto share = static_cast<int64_t>(part->locals[index].bytes(plan_.division.largest));
      for (int micro_batch = 0; micro_batch < micro_batches_; ++micro_batch, ++writes) {
        places[index].push_back(bytes);
        bytes += static_cast<size_t>(partitioner::whole_blocks(share));
      }
    }
  }
  if (bytes == 0) return;
  given_memory_ = workplace_.device.allocate_pinned(bytes);
  given_.reserve(writes);
}

void Executor::write(const Site& site, const Instruction& instruction) {
  const ops::TensorView share = view(site, instruction.local);
  const auto& places = given_places_[site.part][static_cast<size_t>(instruction.local)];
  std::byte* to = given_memory_.get() + places[static_cast<size_t>(site.micro_batch)];
  if (share.bytes() > 0) workplace_.stream.copy(to, share.data, share.bytes());
  given_.push_back({local(site, instruction.local).value,
                    part(site).part,
                    first(site.micro_batch),
                    samples(site.micro_batch),
                    {share.dtype, share.shape, to}});
}

}  // namespace kerf::schedmp
