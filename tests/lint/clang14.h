// For clang-tidy and the fuzz targets: what clang 14 lacks of GCC 12.
#pragma once

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names are not ours.

// By which GCC says that a build has AddressSanitizer.
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif

namespace std {

// GCC makes its <source_location> from a builtin that clang 14 has not.
struct source_location {
  static constexpr source_location current(const char* file = __builtin_FILE(),
                                           unsigned line = __builtin_LINE()) noexcept {
    return {file, line};
  }
  constexpr const char* file_name() const noexcept { return file_; }
  constexpr unsigned line() const noexcept { return line_; }

  const char* file_ = "";
  unsigned line_ = 0;
};

}  // namespace std

template <class Vector, class Lanes>
Vector __builtin_shuffle(const Vector& low, const Vector& high, const Lanes& lanes) {
  constexpr unsigned kLanes = sizeof(Vector) / sizeof(low[0]);
  Vector shuffled;
  for (unsigned i = 0; i < kLanes; ++i) {
    const auto lane = static_cast<unsigned>(lanes[i]) % (2 * kLanes);
    shuffled[i] = lane < kLanes ? low[lane] : high[lane - kLanes];
  }
  return shuffled;
}

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
