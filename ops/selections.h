// Selections of a part, in which the same pieces of the same boxes come again and again: each is
// made once, and its copies share it. One thread.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "ops/pack.h"

namespace kerf::ops {

class Selections {
 public:
  // As Selection's constructor, and its errors.
  const Selection& of(const Box& holder, const Box& piece, const ValueSpec& spec);

 private:
  struct Key {
    Box holder;
    Box piece;
    ValueSpec spec;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  std::unordered_map<Key, Selection, Hash> known_;
};

}  // namespace kerf::ops
