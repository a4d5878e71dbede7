// Memory of a part: what lives how long, and where.
#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "partitioner/blocks.h"
#include "partitioner/call_needs.h"
#include "partitioner/insertions.h"
#include "partitioner/lowering.h"
#include "partitioner/tenants.h"

namespace kerf::partitioner {
namespace {

using Kind = Instruction::Kind;

// Lists that follow each other where the part has a single pass: its one micro-batch's, by way of
// B, and the step's.
constexpr std::array kPass = {kF, kB, kContribute, kReduce, kConclude, kUpdate, kFetch};

class PartMemory {
 public:
  PartMemory(const Model& model, Part& part, int64_t samples, const LowerOptions& options)
      : model_(model),
        part_(part),
        samples_(samples),
        options_(options),
        lists_(lists_of(part)),
        tenants_(tenants_of(model, part, samples)),
        entered_until_(last_of_entered()) {}

  void place() {
    measure_scratch();
    for (const Tenant& tenant : tenants_) keep(tenant);
    if (part_.single_pass) place_pass();
    for (size_t list = 0; list < kLists; ++list) place_list(list);
    place_aliases();
    insert_instructions();
    for (InstructionList* list : lists_)
      if (list->instructions.empty())
        for (auto* places : {&list->places, &list->reserve, &list->handed})
          *places = std::vector<Place>();  // gives its memory back
  }

 private:
  std::vector<Instruction>& instructions(size_t list) { return lists_[list]->instructions; }

  void measure_scratch();
  void keep(const Tenant& tenant);
  std::optional<size_t> last_of_entered() const;
  void place_pass();
  void place_list(size_t list);
  void place_aliases();
  int64_t scratch_of(const Instruction& instruction);
  void insert_instructions();
  void insert_regions();
  void insert_views();
  void release_what_was_unpacked(size_t list);
  void insert_entered();
  std::optional<InstructionRange> use_of_region(RegionKind region, size_t list);

  const Model& model_;
  Part& part_;
  const int64_t samples_;
  const LowerOptions& options_;
  const std::array<InstructionList*, kLists> lists_;
  const std::vector<Tenant> tenants_;
  const std::optional<size_t> entered_until_;  // list; empty: nothing is read again
  std::array<Insertions, kLists> insertions_;
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

// What outlives the list that made it, by list: in regions that a micro-batch takes and gives.
// Everything in such a region is there at once at the end of the list that fills it, so one after
// the other is as dense as can be. In a single pass there is but what I hands to W: the rest has
// its place from its first use to its last.
void PartMemory::keep(const Tenant& tenant) {
  const auto take = [&](RegionKind region, std::initializer_list<size_t> lists) {
    int64_t& end = part_.region_bytes[static_cast<size_t>(region)];
    for (const size_t list : lists)
      if (tenant.in_list(list)) *tenant.places[list] = {region, end};
    end += tenant.bytes;
  };
  const bool weights = tenant.in_list(kW);
  if (tenant.entered) {
    if (entered_until_ == kRecomputed && tenant.in_list(kRecomputed))
      take(RegionKind::kEntered, {kCheckpointed, kRecomputed});
    else if (tenant.in_list(kRecomputed) || tenant.in_list(kI) || weights)
      take(RegionKind::kEntered, {kF, kCheckpointed, kRecomputed, kI, kW, kB});
    return;
  }
  if (tenant.in_list(kF) && (weights || tenant.in_list(kI))) {
    (weights ? part_.kept_for_weights_bytes : part_.kept_bytes) += tenant.bytes;
    if (part_.single_pass) return;
    if (weights)
      take(RegionKind::kKeptForWeights, {kF, kRecomputed, kI, kW, kB});
    else
      take(RegionKind::kKept, {kF, kRecomputed, kI, kB});
  } else if (tenant.in_list(kI) && weights) {
    take(RegionKind::kHanded, {kI, kW});
  }
}

// The last list, of a micro-batch, that reads what was entered.
std::optional<size_t> PartMemory::last_of_entered() const {
  for (const size_t list : {kW, kI, kRecomputed})
    for (const Tenant& tenant : tenants_)
      if (tenant.entered && tenant.in_list(list)) return list;
  return std::nullopt;
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
      const bool direct = from.whole || to.whole;
      return direct ? 0 : whole_blocks(static_cast<int64_t>(from.selection.bytes(samples_)));
    }
    case Kind::kRead: {
      const Local& data = part_.locals[static_cast<size_t>(instruction.local)];
      return divides_rows(data.box) ? whole_blocks(static_cast<int64_t>(data.whole.bytes(1))) : 0;
    }
    default:
      return 0;
  }
}

void set_bytes(const Stretch::Bytes& bytes, InstructionList& to) {
  to.transient_bytes = bytes.all;
  to.transient_tensor_bytes = bytes.of_tensors;
}

void PartMemory::measure_scratch() {
  for (size_t list = 0; list < kLists; ++list)
    for (Instruction& instruction : instructions(list))
      instruction.scratch_bytes = scratch_of(instruction);
}

// One stretch of time. I and W come in B's stead, with what they share with other lists where B has
// it: of two tenants of which B uses one no more when it makes the other, W and I use that one no
// more, either.
void PartMemory::place_pass() {
  Stretch pass;
  std::array<size_t, kLists> begin{};
  for (const size_t list : kPass) {
    begin[list] = pass.length();
    for (Instruction& instruction : instructions(list)) pass.add(instruction);
  }
  for (const Tenant& tenant : tenants_) {
    std::optional<InstructionRange> use;
    std::vector<Place*> places;
    bool shared = false;
    for (const size_t list : kPass) {
      if (!tenant.in_list(list)) continue;
      if (!use) use = InstructionRange{begin[list] + tenant.uses.in[list]->first, 0};
      use->last = begin[list] + tenant.uses.in[list]->last;
      places.push_back(tenant.places[list]);
      shared = shared || list != kB;
    }
    for (const size_t list : {kI, kW})
      if (shared && tenant.in_list(list)) places.push_back(tenant.places[list]);
    if (use) pass.add(tenant, *use, std::move(places));
  }
  const Stretch::Bytes bytes = pass.place({}, options_);
  for (InstructionList* list : lists_) set_bytes(bytes, *list);
}

// What has no place yet, behind what has.
void PartMemory::place_list(size_t list) {
  InstructionList& to = *lists_[list];
  if (!part_.single_pass || std::ranges::find(kPass, list) == kPass.end()) {
    Stretch stretch;
    for (const Tenant& tenant : tenants_)
      if (tenant.homeless(list)) stretch.add(tenant, *tenant.uses.in[list], {tenant.places[list]});
    for (Instruction& instruction : to.instructions) stretch.add(instruction);
    set_bytes(stretch.place({to.transient_bytes, to.transient_tensor_bytes}, options_), to);
  }
  int64_t& most = part_.region_bytes[static_cast<size_t>(RegionKind::kTransient)];
  most = std::max(most, to.transient_bytes);
}

void PartMemory::place_aliases() {
  for (InstructionList* list : lists_)
    for (size_t i = 0; i < part_.locals.size(); ++i)
      list->places[i] = list->places[static_cast<size_t>(root_of(part_, static_cast<int>(i)))];
}

std::optional<InstructionRange> PartMemory::use_of_region(RegionKind region, size_t list) {
  std::optional<InstructionRange> result;
  for (const Tenant& tenant : tenants_) {
    if (!tenant.in_list(list) || !tenant.places[list]->exists() ||
        tenant.places[list]->region != region)
      continue;
    const InstructionRange& use = *tenant.uses.in[list];
    if (!result) result = use;
    result->first = std::min(result->first, use.first);
    result->last = std::max(result->last, use.last);
  }
  return result;
}

void PartMemory::insert_regions() {
  const auto take = [&](RegionKind region, size_t list) {
    if (part_.bytes_of(region) > 0)
      insertions_[list].before(use_of_region(region, list)->first, of_region(Kind::kTake, region));
  };
  const auto give = [&](RegionKind region, size_t list) {
    if (part_.bytes_of(region) > 0)
      insertions_[list].after(use_of_region(region, list)->last, of_region(Kind::kGive, region));
  };
  for (const RegionKind region : {RegionKind::kKept, RegionKind::kKeptForWeights}) {
    take(region, kF);
    if (part_.recomputes()) take(region, kRecomputed);
  }
  take(RegionKind::kHanded, kI);
  give(RegionKind::kKept, kI);
  give(RegionKind::kKept, kB);
  for (const RegionKind region : {RegionKind::kKeptForWeights, RegionKind::kHanded})
    give(region, kW);
  give(RegionKind::kKeptForWeights, kB);
  insert_entered();
}

// Who recomputes and who does not have the same memory for it where gradients read it.
void PartMemory::insert_entered() {
  if (part_.bytes_of(RegionKind::kEntered) == 0) return;
  const auto use = [&](size_t list) { return *use_of_region(RegionKind::kEntered, list); };
  const auto give = [&](size_t list) {
    insertions_[list].after(use(list).last, of_region(Kind::kGive, RegionKind::kEntered));
  };
  const auto take = [&](size_t list) {
    insertions_[list].before(use(list).first, of_region(Kind::kTake, RegionKind::kEntered));
  };
  take(kCheckpointed);
  give(*entered_until_);
  if (entered_until_ == kRecomputed) return;
  take(kF);
  give(kB);
}

// A message is released after its last reader, in both orders of the backward pass, and whether it
// comes to what is made again or not.
void PartMemory::insert_views() {
  constexpr std::array kLast = {std::array{kW, kI, kF, kLists},
                                std::array{kW, kI, kRecomputed, kCheckpointed},
                                std::array{kB, kLists, kLists, kLists}};
  const std::vector<ListUses> uses_of = uses_of_locals(model_, part_);
  for (size_t root = 0; root < uses_of.size(); ++root) {
    const ListUses& uses = uses_of[root];
    const Local& view = part_.locals[root];
    if (view.storage != Storage::kReceived) continue;
    std::set<size_t> lists;
    for (const auto& passage : kLast)
      for (const size_t list : passage)
        if (list < kLists && uses.in_list(list)) {
          lists.insert(list);
          break;
        }
    for (const size_t list : {kContribute, kReduce, kConclude, kUpdate, kFetch})
      if (uses.in_list(list)) lists.insert(list);
    for (const size_t list : lists) {
      Instruction instruction = make(Kind::kRelease);
      instruction.route = view.route;
      instruction.local = static_cast<int>(root);
      insertions_[list].after(uses.in[list]->last, std::move(instruction));
    }
  }
}

void PartMemory::release_what_was_unpacked(size_t list) {
  for (size_t i = 0; i < instructions(list).size(); ++i) {
    const Instruction& instruction = instructions(list)[i];
    if (instruction.kind != Kind::kReceive || instruction.moves.empty()) continue;
    Instruction release = make(Kind::kRelease);
    release.route = instruction.route;
    insertions_[list].after(i, std::move(release));
  }
}

void PartMemory::insert_instructions() {
  insert_regions();
  insert_views();
  for (size_t list = 0; list < kLists; ++list) {
    release_what_was_unpacked(list);
    insertions_[list].insert_into(*lists_[list]);
  }
}

}  // namespace

namespace {

Instruction read_of(const Part& part, int root) {
  const Local& data = part.locals[static_cast<size_t>(root)];
  Instruction read = make(Kind::kRead);
  read.local = root;
  if (divides_rows(data.box)) read.moves = {{.local = root, .selection = share_of_row(data)}};
  return read;
}

// Those data among an instruction's locals that are not `known` yet, which they are then.
void read_data(const Model& model, const Part& part, const Instruction& instruction,
               std::vector<bool>& known, std::vector<Instruction>& to) {
  for (const int each : locals_touched(model, part, instruction)) {
    const int root = root_of(part, each);
    const auto index = static_cast<size_t>(root);
    if (part.locals[index].kind != LocalKind::kData || known[index]) continue;
    known[index] = true;
    to.push_back(read_of(part, root));
  }
}

}  // namespace

void read_data(const Model& model, Part& part) {
  for (InstructionList* list : {&part.forward, &part.checkpointed_forward, &part.recompute}) {
    std::vector<Instruction> with_reads;
    std::vector<bool> known(part.locals.size());
    for (Instruction& instruction : list->instructions) {
      read_data(model, part, instruction, known, with_reads);
      with_reads.push_back(std::move(instruction));
    }
    if (list == &part.recompute && part.recomputes())
      for (const InstructionList* reader : {&part.input_gradient, &part.weight_gradient})
        for (const Instruction& instruction : reader->instructions)
          read_data(model, part, instruction, known, with_reads);
    list->instructions = std::move(with_reads);
  }
}

void place_memory(const Model& model, Part& part, int64_t samples, const LowerOptions& options) {
  PartMemory(model, part, samples, options).place();
}

}  // namespace kerf::partitioner
