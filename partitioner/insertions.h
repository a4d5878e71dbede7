// Instructions to stand between those of a list: collected while positions hold, put in at once.
#pragma once

#include <cstddef>
#include <vector>

#include "partitioner/part.h"

namespace kerf::partitioner {

class Insertions {
 public:
  // Right before, or after, what the list has at `index`; of several the first given comes first.
  void before(size_t index, Instruction instruction);
  void after(size_t index, Instruction instruction);

  // All of them, which are no more here then.
  void insert_into(InstructionList& list);

 private:
  struct Insertion {
    size_t index = 0;
    bool after = false;
    Instruction instruction;
  };
  std::vector<Insertion> all_;
};

}  // namespace kerf::partitioner
