// What a half of a program holds, as bytes and back: for snapshot() and restore().
//
//   class Walk : public SchedulerHalf<...> {
//    public:
//     template <class Archive>
//     void state(Archive& archive) { archive(place_, steps_); }
//     std::string snapshot() override { return state_of(*this); }
//     void restore(std::string_view snapshot) override { take_state(*this, snapshot); }
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

}  // namespace kerf::schedmp
