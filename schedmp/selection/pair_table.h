// A table from pairs of variables to numbers, by open addressing: one access to memory for most
// look-ups, of which a scheduler makes hundreds of thousands a round. 32 to 64 bytes a pair. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kerf::schedmp {

class PairTable {
 public:
  // Two different variables below kMostVariables, either way round. The same twice is in no table.
  const double* find(int64_t variable, int64_t other) const;
  void set(int64_t variable, int64_t other, double number);
  int64_t size() const { return size_; }

 private:
  struct Slot {
    uint64_t pair = 0;  // the lower variable and the higher; 0: empty
    double number = 0;
  };
  size_t place_of(uint64_t pair) const;
  void grow();

  std::vector<Slot> slots_ = std::vector<Slot>(16);  // a power of 2, at most half of them full
  int64_t size_ = 0;
};

}  // namespace kerf::schedmp
