#include "partitioner/tenants.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "partitioner/blocks.h"
#include "partitioner/call_needs.h"

namespace kerf::partitioner {
namespace {

void add_locals(const Model& model, Part& part, int64_t samples, std::vector<Tenant>& to) {
  const auto lists = lists_of(part);
  for (InstructionList* list : lists) list->places.resize(part.locals.size());
  const std::vector<ListUses> uses = uses_of_locals(model, part);
  for (size_t index = 0; index < uses.size(); ++index) {
    const Local& local = part.locals[index];
    if (!uses[index].in_any() || local.storage != Storage::kOwn) continue;
    Tenant& tenant = to.emplace_back();
    tenant.uses = uses[index];
    tenant.entered = local.entered;
    tenant.bytes = whole_blocks(static_cast<int64_t>(local.bytes(samples)));
    for (size_t list = 0; list < kLists; ++list) tenant.places[list] = &lists[list]->places[index];
  }
}

// What calls save, or hand on: `bytes` of each, found in lists at `places`, used as `uses` says.
template <class Uses>
void add_of_calls(const Model& model, Part& part, int64_t LocalCall::*bytes,
                  std::vector<Place> InstructionList::*places, const Uses& uses,
                  std::vector<Tenant>& to) {
  const auto lists = lists_of(part);
  std::vector<Tenant> of_calls(part.calls.size());
  for (size_t call = 0; call < part.calls.size(); ++call)
    of_calls[call].bytes = part.calls[call].*bytes;
  for (size_t list = 0; list < kLists; ++list) {
    (lists[list]->*places).resize(part.calls.size());
    for (size_t call = 0; call < part.calls.size(); ++call)
      of_calls[call].places[list] = &(lists[list]->*places)[call];
    const auto& instructions = lists[list]->instructions;
    for (size_t i = 0; i < instructions.size(); ++i) {
      const Instruction::Kind kind = instructions[i].kind;
      if (kind != Instruction::Kind::kForward && kind != Instruction::Kind::kGradient) continue;
      const auto call = static_cast<size_t>(instructions[i].call);
      if (uses(model, part.calls[call], pass_of(instructions[i])))
        of_calls[call].uses.extend(list, i);
    }
  }
  std::ranges::move(of_calls, std::back_inserter(to));
}

}  // namespace

std::vector<Tenant> tenants_of(const Model& model, Part& part, int64_t samples) {
  std::vector<Tenant> tenants;
  add_locals(model, part, samples, tenants);
  add_of_calls(model, part, &LocalCall::reserve, &InstructionList::reserve, uses_reserve, tenants);
  add_of_calls(
      model, part, &LocalCall::handed, &InstructionList::handed,
      [](const Model&, const LocalCall& call, Pass pass) { return uses_handed(call, pass); },
      tenants);
  return tenants;
}

void Stretch::add(Instruction& instruction) {
  if (instruction.scratch_bytes > 0) {
    blocks_.push_back({instruction.scratch_bytes, length_, length_});
    wanted_.push_back({{}, &instruction});
  }
  ++length_;
}

void Stretch::add(const Tenant& tenant, const InstructionRange& use, std::vector<Place*> places) {
  blocks_.push_back({tenant.bytes, use.first, use.last});
  wanted_.push_back({std::move(places), nullptr});
}

Stretch::Bytes Stretch::place(const Bytes& first, const LowerOptions& options) {
  if (!options.packs)
    for (Block& block : blocks_) block.offset = 0;
  const int64_t all = options.packs ? place_blocks(blocks_) : greatest_sum(blocks_);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const int64_t offset = first.all + blocks_[i].offset;
    for (Place* place : wanted_[i].places) *place = {RegionKind::kTransient, offset};
    if (wanted_[i].scratch != nullptr) wanted_[i].scratch->scratch = offset;
  }
  return {first.all + all, options.tensor_bytes ? first.of_tensors + bytes_of_tensors(all) : 0};
}

int64_t Stretch::bytes_of_tensors(int64_t of_all) const {
  std::vector<Block> tensors;
  for (size_t i = 0; i < blocks_.size(); ++i)
    if (const Instruction* scratch = wanted_[i].scratch; scratch == nullptr || scratch->call < 0)
      tensors.push_back(blocks_[i]);
  return tensors.size() == blocks_.size() ? of_all : place_blocks(tensors);
}

}  // namespace kerf::partitioner
