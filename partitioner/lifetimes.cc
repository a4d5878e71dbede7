// Memory of a part: what lives how long, and where.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "partitioner/blocks.h"
#include "partitioner/call_needs.h"
#include "partitioner/list_uses.h"
#include "partitioner/lowering.h"
#include "partitioner/regions.h"

namespace kerf::partitioner {
namespace {

using Kind = Instruction::Kind;

class PartMemory {
 public:
  PartMemory(const Model& model, Part& part, int64_t samples)
      : model_(model), part_(part), samples_(samples), lists_(lists_of(part)) {}

  void place() {
    locals_ = uses_of_locals(model_, part_);
    for (size_t list = 0; list < kLists; ++list)
      for (size_t i = 0; i < instructions(list).size(); ++i) note(list, i);
    choose_regions();
    for (size_t list = 0; list < kLists; ++list) place_transient(list, *lists_[list]);
    insert_instructions();
  }

 private:
  // Instructions to stand before and after each of a list's, and at its start.
  using Insertions = std::map<size_t, std::vector<Instruction>>;

  std::vector<Instruction>& instructions(size_t list) { return lists_[list]->instructions; }
  Local& local(int index) { return part_.locals[static_cast<size_t>(index)]; }
  int64_t bytes_of(int index) {
    return whole_blocks(static_cast<int64_t>(local(index).bytes(samples_)));
  }

  void note(size_t list, size_t index);
  void choose_regions();
  std::array<Place, kLists> keep(const ListUses& uses, int64_t bytes);
  void place_transient(size_t list, InstructionList& to);
  int64_t scratch_of(const Instruction& instruction);
  void insert_instructions();
  void insert_regions();
  void insert_views();
  void release_what_was_unpacked(size_t list);
  std::optional<InstructionRange> use_of_region(RegionKind region, size_t list);
  void rebuild(size_t list);

  const Model& model_;
  Part& part_;
  const int64_t samples_;
  const std::array<InstructionList*, kLists> lists_;
  std::map<int, ListUses> locals_;    // by root
  std::map<int, ListUses> reserves_;  // by call
  std::map<int, ListUses> handed_;    // by call
  std::array<Insertions, kLists> before_, after_;
};

Instruction make(Kind kind) {
  Instruction instruction;
  instruction.kind = kind;
  return instruction;
}

Instruction of_region(Kind kind, RegionKind region) {
  Instruction instruction = make(kind);
  instruction.region = region;
  return instruction;
}

// Whether a row of data is not read whole.
bool divides_rows(const ops::Box& box) {
  return std::any_of(box.axes.begin() + 1, box.axes.end(),
                     [](const ops::IndexSet& set) { return !set.is_all(); });
}

ops::Selection share_of_row(const Local& data) {
  ops::Box row = data.box;
  row.axes[0] = ops::IndexSet::all();
  return {ops::Box::whole(data.whole.shape.rank()), row, data.whole};
}

// What a call saves.
void PartMemory::note(size_t list, size_t index) {
  const Instruction& instruction = instructions(list)[index];
  if (instruction.kind != Kind::kForward && instruction.kind != Kind::kGradient) return;
  const LocalCall& call = part_.calls[static_cast<size_t>(instruction.call)];
  const Pass pass = pass_of(instruction);
  if (uses_reserve(model_, call, pass)) reserves_[instruction.call].extend(list, index);
  if (uses_handed(call, pass)) handed_[instruction.call].extend(list, index);
}

// What outlives the list that made it, by list: in regions that a micro-batch takes and gives.
// Everything in such a region is there at once at the end of the list that fills it, so one after
// the other is as dense as can be.
std::array<Place, kLists> PartMemory::keep(const ListUses& uses, int64_t bytes) {
  std::array<Place, kLists> places;
  const auto take = [&](RegionKind region, std::initializer_list<size_t> lists) {
    int64_t& end = part_.region_bytes[static_cast<size_t>(region)];
    for (const size_t list : lists)
      if (uses.in_list(list)) places[list] = {region, end};
    end += bytes;
  };
  if (uses.in_list(kF) && uses.in_list(kW))
    take(RegionKind::kKeptForWeights, {kF, kI, kW, kB});
  else if (uses.in_list(kF) && uses.in_list(kI))
    take(RegionKind::kKept, {kF, kI, kB});
  else if (uses.in_list(kI) && uses.in_list(kW))
    take(RegionKind::kHanded, {kI, kW});
  return places;
}

void PartMemory::choose_regions() {
  for (InstructionList* list : lists_) {
    list->places.resize(part_.locals.size());
    list->reserve.resize(part_.calls.size());
    list->handed.resize(part_.calls.size());
  }
  for (const auto& [root, uses] : locals_) {
    if (local(root).storage != Storage::kOwn) continue;
    const auto places = keep(uses, bytes_of(root));
    for (size_t list = 0; list < kLists; ++list)
      lists_[list]->places[static_cast<size_t>(root)] = places[list];
  }
  for (const auto& [call, uses] : reserves_) {
    const auto places = keep(uses, part_.calls[static_cast<size_t>(call)].reserve);
    for (size_t list = 0; list < kLists; ++list)
      lists_[list]->reserve[static_cast<size_t>(call)] = places[list];
  }
  for (const auto& [call, uses] : handed_) {
    const auto places = keep(uses, part_.calls[static_cast<size_t>(call)].handed);
    for (size_t list = 0; list < kLists; ++list)
      lists_[list]->handed[static_cast<size_t>(call)] = places[list];
  }
}

// A copy between a piece of one tensor and a piece of another goes through a dense one; shares of
// rows of data are cut out of whole rows, one at a time.
int64_t PartMemory::scratch_of(const Instruction& instruction) {
  switch (instruction.kind) {
    case Kind::kForward:
    case Kind::kGradient:
      return part_.calls[static_cast<size_t>(instruction.call)].workspace;
    case Kind::kCopy: {
      const auto& [from, to] = std::tie(instruction.moves[0], instruction.moves[1]);
      const bool direct = from.selection.everything() || to.selection.everything();
      return direct ? 0 : whole_blocks(static_cast<int64_t>(from.selection.bytes(samples_)));
    }
    case Kind::kRead: {
      const Local& data = local(instruction.local);
      return divides_rows(data.box) ? whole_blocks(static_cast<int64_t>(data.whole.bytes(1))) : 0;
    }
    default:
      return 0;
  }
}

void PartMemory::place_transient(size_t list, InstructionList& to) {
  std::vector<Block> blocks;
  std::vector<Block> of_tensors;  // all but kernels' workspace
  std::vector<int64_t*> offsets;
  const auto add = [&](int64_t bytes, const InstructionRange& use, int64_t* offset) {
    blocks.push_back({bytes, use.first, use.last});
    offsets.push_back(offset);
  };
  for (auto& [root, uses] : locals_)
    if (Place& place = to.places[static_cast<size_t>(root)];
        uses.in_list(list) && local(root).storage == Storage::kOwn && !place.exists())
      add(bytes_of(root), *uses.in[list], &place.offset);
  for (auto& [call, uses] : reserves_)
    if (Place& place = to.reserve[static_cast<size_t>(call)]; uses.in_list(list) && !place.exists())
      add(part_.calls[static_cast<size_t>(call)].reserve, *uses.in[list], &place.offset);
  for (auto& [call, uses] : handed_)
    if (Place& place = to.handed[static_cast<size_t>(call)]; uses.in_list(list) && !place.exists())
      add(part_.calls[static_cast<size_t>(call)].handed, *uses.in[list], &place.offset);
  of_tensors = blocks;
  for (size_t i = 0; i < to.instructions.size(); ++i) {
    Instruction& instruction = to.instructions[i];
    instruction.scratch_bytes = scratch_of(instruction);
    if (instruction.scratch_bytes == 0) continue;
    add(instruction.scratch_bytes, {i, i}, &instruction.scratch);
    if (instruction.call < 0) of_tensors.push_back(blocks.back());
  }
  int64_t& most = part_.region_bytes[static_cast<size_t>(RegionKind::kTransient)];
  to.transient_bytes = place_blocks(blocks);
  most = std::max(most, to.transient_bytes);
  part_.transient_tensor_bytes =
      std::max(part_.transient_tensor_bytes,
               of_tensors.size() == blocks.size() ? to.transient_bytes : place_blocks(of_tensors));
  for (size_t i = 0; i < blocks.size(); ++i) *offsets[i] = blocks[i].offset;
  for (size_t i = 0; i < part_.locals.size(); ++i)
    to.places[i] = to.places[static_cast<size_t>(root_of(part_, static_cast<int>(i)))];
}

std::optional<InstructionRange> PartMemory::use_of_region(RegionKind region, size_t list) {
  std::optional<InstructionRange> result;
  const auto extend = [&](const Place& place, const ListUses& uses) {
    if (!place.exists() || place.region != region) return;
    const InstructionRange& use = *uses.in[list];
    if (!result) result = use;
    result->first = std::min(result->first, use.first);
    result->last = std::max(result->last, use.last);
  };
  for (const auto& [root, uses] : locals_)
    extend(lists_[list]->places[static_cast<size_t>(root)], uses);
  for (const auto& [call, uses] : reserves_)
    extend(lists_[list]->reserve[static_cast<size_t>(call)], uses);
  for (const auto& [call, uses] : handed_)
    extend(lists_[list]->handed[static_cast<size_t>(call)], uses);
  return result;
}

void PartMemory::insert_regions() {
  const auto take = [&](RegionKind region, size_t list) {
    if (part_.bytes_of(region) > 0)
      before_[list][use_of_region(region, list)->first].push_back(of_region(Kind::kTake, region));
  };
  const auto give = [&](RegionKind region, size_t list) {
    if (part_.bytes_of(region) > 0)
      after_[list][use_of_region(region, list)->last].push_back(of_region(Kind::kGive, region));
  };
  take(RegionKind::kKept, kF);
  take(RegionKind::kKeptForWeights, kF);
  take(RegionKind::kHanded, kI);
  give(RegionKind::kKept, kI);
  give(RegionKind::kKept, kB);
  for (const RegionKind region : {RegionKind::kKeptForWeights, RegionKind::kHanded})
    give(region, kW);
  give(RegionKind::kKeptForWeights, kB);
}

// A message is released after its last reader, in both orders of the backward pass.
void PartMemory::insert_views() {
  for (const auto& used : locals_) {
    const int root = used.first;
    const ListUses& uses = used.second;
    if (local(root).storage != Storage::kReceived) continue;
    const auto release = [&](size_t list) {
      Instruction instruction = make(Kind::kRelease);
      instruction.route = local(root).route;
      instruction.local = root;
      after_[list][uses.in[list]->last].push_back(std::move(instruction));
    };
    for (const size_t list : {kContribute, kReduce, kConclude, kUpdate, kFetch})
      if (uses.in_list(list)) release(list);
    if (uses.in_list(kB)) release(kB);
    for (const size_t list : {kW, kI, kF})
      if (uses.in_list(list)) {
        release(list);
        break;
      }
  }
}

void PartMemory::release_what_was_unpacked(size_t list) {
  for (size_t i = 0; i < instructions(list).size(); ++i) {
    const Instruction& instruction = instructions(list)[i];
    if (instruction.kind != Kind::kReceive || instruction.moves.empty()) continue;
    Instruction release = make(Kind::kRelease);
    release.route = instruction.route;
    after_[list][i].push_back(std::move(release));
  }
}

void PartMemory::rebuild(size_t list) {
  std::vector<Instruction> result;
  const auto add = [&](Insertions& from, size_t at) {
    for (Instruction& instruction : from[at]) result.push_back(std::move(instruction));
  };
  for (size_t i = 0; i < instructions(list).size(); ++i) {
    add(before_[list], i);
    result.push_back(std::move(instructions(list)[i]));
    add(after_[list], i);
  }
  instructions(list) = std::move(result);
}

void PartMemory::insert_instructions() {
  insert_regions();
  insert_views();
  for (size_t list = 0; list < kLists; ++list) {
    release_what_was_unpacked(list);
    rebuild(list);
  }
}

// Data are read right before their first use.
void read_data(const Model& model, Part& part) {
  std::vector<Instruction> with_reads;
  std::vector<bool> known(part.locals.size());
  for (Instruction& instruction : part.forward.instructions) {
    for (const int each : locals_touched(model, part, instruction)) {
      const auto root = static_cast<size_t>(root_of(part, each));
      const Local& data = part.locals[root];
      if (data.kind != LocalKind::kData || known[root]) continue;
      known[root] = true;
      with_reads.push_back(make(Kind::kRead));
      with_reads.back().local = static_cast<int>(root);
      if (divides_rows(data.box))
        with_reads.back().moves = {{static_cast<int>(root), share_of_row(data), false}};
    }
    with_reads.push_back(std::move(instruction));
  }
  part.forward.instructions = std::move(with_reads);
}

}  // namespace

void place_memory(const Model& model, Part& part, int64_t samples) {
  write_in_place(model, part);
  read_data(model, part);
  write_into_slots(model, part);
  PartMemory(model, part, samples).place();
}

}  // namespace kerf::partitioner
