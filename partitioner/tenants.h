// Tenants: what needs memory in a part's lists, and stretches of time in which it takes its place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "partitioner/list_uses.h"
#include "partitioner/regions.h"

namespace kerf::partitioner {

// A local with memory of its own, or what a call saves, or hands from I to W.
struct Tenant {
  ListUses uses;
  int64_t bytes = 0;
  bool entered = false;                 // part.h
  std::array<Place*, kLists> places{};  // where each list finds it

  bool in_list(size_t list) const { return uses.in_list(list); }
  // Whether the list has a use for it, and it no place there.
  bool homeless(size_t list) const { return in_list(list) && !places[list]->exists(); }
};

// Of locals that are not persistent, for a micro-batch of `samples`, and of calls. Makes room for
// places in the lists. The part's lists, locals and calls stay as many while tenants are used.
std::vector<Tenant> tenants_of(const Model& model, Part& part, int64_t samples);

// Lists one after the other, in which tenants live from one instruction to another, and the scratch
// memory of instructions for as long as they run.
class Stretch {
 public:
  size_t length() const { return length_; }
  // The next instruction.
  void add(Instruction& instruction);
  // Alive during `use` of the stretch, and found at these places.
  void add(const Tenant& tenant, const InstructionRange& use, std::vector<Place*> places);

  struct Bytes {
    int64_t all = 0;
    int64_t of_tensors = 0;  // if kernels took no workspace, where that is asked
  };
  // Gives all of them their places in the transient region, behind the first bytes of it; what is
  // taken with those.
  Bytes place(const Bytes& first, const LowerOptions& options);

 private:
  struct Wanted {
    std::vector<Place*> places;
    Instruction* scratch = nullptr;
  };
  int64_t bytes_of_tensors(int64_t of_all) const;

  size_t length_ = 0;  // instructions
  std::vector<Block> blocks_;
  std::vector<Wanted> wanted_;  // by block
};

}  // namespace kerf::partitioner
