// For clang-tidy only: what clang 14 lacks of GCC 12.
#pragma once

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names are not ours.

namespace std {

// GCC makes its <source_location> from a builtin.
struct source_location {
  static constexpr source_location current() noexcept { return {}; }
  constexpr const char* file_name() const noexcept { return ""; }
  constexpr unsigned line() const noexcept { return 0; }
};

}  // namespace std

template <class Vector, class Lanes>
Vector __builtin_shuffle(const Vector& low, const Vector& high, const Lanes& lanes);

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
