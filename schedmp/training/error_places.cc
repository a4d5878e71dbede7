#include "schedmp/training/error_places.h"

namespace kerf::schedmp {

bool ErrorPlaces::is_of_device(const Error& error) const {
  return error.where().starts_with(workplace_.device.name());
}

// Not a call of it: whatever it is asked, it answers that it failed.
bool ErrorPlaces::device_failed() const {
  try {
    workplace_.stream.synchronize();
  } catch (const Error& error) {
    return error.where() == workplace_.device.name();
  }
  return false;
}

void ErrorPlaces::throw_with(const Error& error, std::string_view place) {
  throw Error(error.code(), error.message(), kerf::format("{}, {}", error.where(), place));
}

void ErrorPlaces::throw_with_open(const Error& error) const {
  const std::string open = trail_.first_open();
  if (open.empty()) return;
  throw Error(error.code(), error.message(),
              kerf::format("{}, {}", workplace_.device.name(), open));
}

}  // namespace kerf::schedmp
