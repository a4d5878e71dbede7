// What a value that workers keep holds at first, where no initializer makes it: weights of a file.
//
// A worker asks for its shares in slices, so that nobody holds a tensor whole. Immutable and
// thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kerf::partitioner {

class Contents {
 public:
  virtual ~Contents() = default;
  // Bytes [first, first + to.size()) of the dense row-major tensor, in the value's element type.
  // Throws Error{kUnavailable} naming the file where they cannot be read any more.
  virtual void read(size_t first, std::span<std::byte> to) const = 0;
  // The same of equal bytes, for a model's fingerprint.
  virtual std::string identity() const = 0;
};

}  // namespace kerf::partitioner
