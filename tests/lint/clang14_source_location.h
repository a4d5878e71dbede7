// For clang-tidy only: clang 14 lacks the builtin from which GCC 12's <source_location> is made.
#pragma once

namespace std {

struct source_location {
  static constexpr source_location current() noexcept { return {}; }
  constexpr const char* file_name() const noexcept { return ""; }
  constexpr unsigned line() const noexcept { return 0; }
};

}  // namespace std
