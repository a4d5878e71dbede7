// What the executor does with messages: it packs what is not made in its slot, and unpacks what is
// not read there.
#include "schedmp/training/executor.h"

namespace kerf::schedmp {

using ops::TensorView;
using runtime::Span;
using runtime::TraceRow;

size_t Executor::message_bytes(int route, int micro_batch) const {
  return partitioner::message_bytes(model_, plan_.routes[static_cast<size_t>(route)],
                                    samples(micro_batch));
}

void Executor::acquire(const Site& site, const Instruction& instruction) {
  runtime::Slot& slot = this->slot(instruction.route, site.micro_batch);
  const int route = instruction.route;
  step_trace_.cover(
      Span::Kind::kWait, TraceRow::kWaits,
      [&] { return "wait for a free slot for " + mailbox_.name_of(route, site.micro_batch); },
      [&] {
        slot = mailbox_.acquire(route, site.micro_batch, message_bytes(route, site.micro_batch));
        if (slot.writable != nullptr) workplace_.stream.wait(*slot.writable);
      });
}

void Executor::send(const Site& site, const Instruction& instruction) {
  const int route = instruction.route;
  runtime::Slot& slot = this->slot(route, site.micro_batch);
  const auto pack = [&] {
    std::byte* to = slot.data;
    for (const partitioner::Move& move : instruction.moves) {
      bench_->pack(move.selection, view(site, move.local), to, samples(site.micro_batch));
      to += move.selection.bytes(samples(site.micro_batch));
    }
  };
  if (!instruction.moves.empty()) {
    step_trace_.works();
    step_trace_.cover(
        Span::Kind::kOther, TraceRow::kMessages,
        [&] { return "pack " + mailbox_.name_of(route, site.micro_batch); }, pack);
  }
  step_trace_.cover(
      Span::Kind::kSend, TraceRow::kMessages,
      [&] { return "send " + mailbox_.name_of(route, site.micro_batch); },
      [&] { mailbox_.commit(route, site.micro_batch, slot, instruction.retained); },
      mailbox_.flow_of(route, site.micro_batch));
  if (!instruction.retained) slot = {};
}

void Executor::retire(const Site& site, const Instruction& instruction) {
  runtime::Slot& slot = this->slot(instruction.route, site.micro_batch);
  mailbox_.retire(instruction.route, slot);
  slot = {};
}

void Executor::receive(const Site& site, const Instruction& instruction) {
  const int route = instruction.route;
  runtime::View& message = held(route, site.micro_batch);
  step_trace_.cover(
      Span::Kind::kWait, TraceRow::kWaits,
      [&] { return "wait for " + mailbox_.name_of(route, site.micro_batch); },
      [&] {
        message = mailbox_.take(route, site.micro_batch, message_bytes(route, site.micro_batch));
        if (message.ready != nullptr) workplace_.stream.wait(*message.ready);
      },
      mailbox_.flow_of(route, site.micro_batch));
  if (site.micro_batch < 0) parameters_.changed();  // what homes publish is among the step's own
  const auto unpack = [&] {
    const std::byte* from = message.data;
    for (const partitioner::Move& move : instruction.moves) {
      const TensorView to = view(site, move.local);
      if (move.add)
        bench_->unpack_add(move.selection, from, to, samples(site.micro_batch));
      else
        bench_->unpack(move.selection, from, to, samples(site.micro_batch));
      from += move.selection.bytes(samples(site.micro_batch));
    }
  };
  if (!instruction.moves.empty()) step_trace_.works();
  step_trace_.cover(
      Span::Kind::kReceive, TraceRow::kMessages,
      [&] { return "receive " + mailbox_.name_of(route, site.micro_batch); }, unpack,
      mailbox_.flow_of(route, site.micro_batch));
}

void Executor::release(const Site& site, const Instruction& instruction) {
  runtime::View& view = held(instruction.route, site.micro_batch);
  mailbox_.release(instruction.route, view);
  view = {};
}

}  // namespace kerf::schedmp
