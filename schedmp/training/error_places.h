// What a device's errors are told with: what it was to do, of those that show at once, and how far
// it had come, of those that show late (trail.h).
//
// Owned by the executor; its thread.
#pragma once

#include <string>

#include "runtime/error.h"
#include "runtime/worker.h"
#include "schedmp/training/trail.h"

namespace kerf::schedmp {

class ErrorPlaces {
 public:
  // Both outlive it.
  ErrorPlaces(runtime::Workplace& workplace, const Trail& trail)
      : workplace_(workplace), trail_(trail) {}

  // What the device refuses of `act` is told with place(), "fc1".
  template <class Place, class Act>
  void within(const Place& place, const Act& act) const {
    try {
      act();
    } catch (const Error& error) {
      if (is_of_device(error)) throw_with(error, place());
      throw;
    }
  }

  // `act` is all of a step: a device that failed says so to whoever asks it next, which is seldom
  // who was to blame.
  template <class Act>
  void within_step(const Act& act) const {
    try {
      act();
    } catch (const Error& error) {
      if (is_of_device(error) && device_failed()) throw_with_open(error);
      throw;
    }
  }

 private:
  bool is_of_device(const Error& error) const;
  bool device_failed() const;
  [[noreturn]] static void throw_with(const Error& error, std::string_view place);
  // Returns where nothing is open: the error is of what was enqueued last.
  void throw_with_open(const Error& error) const;

  runtime::Workplace& workplace_;
  const Trail& trail_;
};

}  // namespace kerf::schedmp
