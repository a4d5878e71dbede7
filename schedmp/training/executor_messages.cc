// What the executor does with messages: it packs what is not made in its slot, and unpacks what is
// not read there.
#include "schedmp/training/executor.h"

namespace kerf::schedmp {

using ops::TensorView;
using runtime::Span;
using runtime::TraceRow;

size_t Executor::message_bytes(int route, const Site& site) const {
  return partitioner::message_bytes(model_, plan_.routes[static_cast<size_t>(route)],
                                    samples(site));
}

void Executor::acquire(const Site& site, const Instruction& instruction) {
  runtime::Slot& slot = this->slot(instruction.route, site);
  const int route = instruction.route;
  step_trace_.cover(
      Span::Kind::kWait, TraceRow::kWaits,
      [&] { return "wait for a free slot for " + mailbox_.name_of(route, site); },
      [&] {
        slot = mailbox_.acquire(route, site, message_bytes(route, site));
        if (slot.writable != nullptr) workplace_.stream.wait(*slot.writable);
      });
}

void Executor::send(const Site& site, const Instruction& instruction) {
  const int route = instruction.route;
  runtime::Slot& slot = this->slot(route, site);
  const auto pack = [&] {
    std::byte* to = slot.data;
    for (const partitioner::Move& move : instruction.moves) {
      bench_->pack(move.selection, view(site, move.local), to, samples(site));
      to += move.selection.bytes(samples(site));
    }
  };
  if (!instruction.moves.empty()) {
    step_trace_.works();
    step_trace_.cover(
        Span::Kind::kOther, TraceRow::kMessages,
        [&] { return "pack " + mailbox_.name_of(route, site); }, pack);
  }
  step_trace_.cover(
      Span::Kind::kSend, TraceRow::kMessages,
      [&] { return "send " + mailbox_.name_of(route, site); },
      [&] { mailbox_.commit(route, site, slot, instruction.retained); },
      mailbox_.flow_of(route, site));
  if (!instruction.retained) slot = {};
}

void Executor::retire(const Site& site, const Instruction& instruction) {
  runtime::Slot& slot = this->slot(instruction.route, site);
  mailbox_.retire(instruction.route, slot);
  slot = {};
}

void Executor::receive(const Site& site, const Instruction& instruction) {
  const int route = instruction.route;
  runtime::View& message = held(route, site);
  step_trace_.cover(
      Span::Kind::kWait, TraceRow::kWaits,
      [&] { return "wait for " + mailbox_.name_of(route, site); },
      [&] {
        message = mailbox_.take(route, site, message_bytes(route, site));
        if (message.ready != nullptr) workplace_.stream.wait(*message.ready);
      },
      mailbox_.flow_of(route, site));
  if (site.micro_batch < 0) parameters_.changed();  // what homes publish is among the step's own
  const auto unpack = [&] {
    const std::byte* from = message.data;
    for (const partitioner::Move& move : instruction.moves) {
      const TensorView to = view(site, move.local);
      if (move.add)
        bench_->unpack_add(move.selection, from, to, samples(site));
      else
        bench_->unpack(move.selection, from, to, samples(site));
      from += move.selection.bytes(samples(site));
    }
  };
  if (!instruction.moves.empty()) step_trace_.works();
  step_trace_.cover(
      Span::Kind::kReceive, TraceRow::kMessages,
      [&] { return "receive " + mailbox_.name_of(route, site); }, unpack,
      mailbox_.flow_of(route, site));
}

void Executor::release(const Site& site, const Instruction& instruction) {
  runtime::View& view = held(instruction.route, site);
  mailbox_.release(instruction.route, view);
  view = {};
}

}  // namespace kerf::schedmp
