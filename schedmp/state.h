// What a half of a program holds, as bytes and back: for snapshot() and restore().
//
//   class Walk : public KeepsState<Walk, SchedulerHalf<WalkMessages>> {
//    public:
//     template <class Archive>
//     void state(Archive& archive) { archive(place_, steps_); }
//
// Bytes are as on the wire: members of any types that travel (runtime/wire.h). Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "runtime/wire.h"

namespace kerf::schedmp {

template <class Half>
std::string state_of(Half& half) {
  runtime::WireWriter writer;
  half.state(writer);
  return writer.take();
}

// Throws Error{kProtocol} where the bytes are no such state.
template <class Half>
void take_state(Half& half, std::string_view bytes) {
  try {
    runtime::WireReader reader(bytes);
    half.state(reader);
    if (reader.left() != 0) runtime::throw_wire_fault("bytes are left over");
  } catch (...) {
    runtime::rethrow_as_protocol_error();
  }
}

// A half of a program that keeps snapshots of its state(archive). Base: SchedulerHalf, WorkerHalf.
template <class Half, class Base>
class KeepsState : public Base {
 public:
  virtual bool keeps_state() const { return true; }
  std::string snapshot() override { return state_of(static_cast<Half&>(*this)); }
  void restore(std::string_view snapshot) override {
    take_state(static_cast<Half&>(*this), snapshot);
  }
};

}  // namespace kerf::schedmp
