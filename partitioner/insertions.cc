#include "partitioner/insertions.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace kerf::partitioner {

void Insertions::before(size_t index, Instruction instruction) {
  all_.push_back({index, false, std::move(instruction)});
}

void Insertions::after(size_t index, Instruction instruction) {
  all_.push_back({index, true, std::move(instruction)});
}

void Insertions::insert_into(InstructionList& list) {
  if (all_.empty()) return;
  std::ranges::stable_sort(
      all_, {}, [](const Insertion& each) { return std::tuple(each.index, each.after); });
  std::vector<Instruction> result;
  result.reserve(list.instructions.size() + all_.size());
  auto next = all_.begin();
  const auto add = [&](size_t index, bool after) {
    for (; next != all_.end() && next->index == index && next->after == after; ++next)
      result.push_back(std::move(next->instruction));
  };
  for (size_t i = 0; i < list.instructions.size(); ++i) {
    add(i, false);
    result.push_back(std::move(list.instructions[i]));
    add(i, true);
  }
  list.instructions = std::move(result);
  all_.clear();
}

}  // namespace kerf::partitioner
