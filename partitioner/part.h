// Parts: a numbered share of a plan's work, as data.
//
// Lowering turns a plan into one Part per part number, each of one stage and bound to one worker:
// local tensors, kernel calls, and instruction lists: F forward, I input gradients, W weight
// gradients, B both in one (a list of its own, so that what I leaves for W need not outlive it);
// of a stage that recomputes (recomputation.h), F that keeps what it was sent alone, and RECOMPUTE;
// and once a step: `contribute` sends what other parts' homes sum, `reduce` sums what is at home
// here and sends this part's share of the step vector, `conclude` (of one part of the plan) sums
// those and sends the result, `update` updates and publishes where the result lets it, `fetch`
// receives what other homes published. A schedule's action runs one list for one micro-batch; U
// runs the last five, where it comes after REDUCE_GRAD the last four. Where a stage updates within
// the step, U runs `apply`, which waits for no other part, and what is left of those five says at
// the step's end what the step came to.
//
// Memory. Every local that is neither persistent nor in a message has an offset within a region:
//
//   kKept            a micro-batch's, from F to the last reader in I (or B)
//   kKeptForWeights  a micro-batch's, from F to the last reader in W (or B)
//   kHanded          a micro-batch's, from I to W, where they are apart
//   kEntered         a micro-batch's, where a stage recomputes: what was unpacked of messages, from
//                    F to the last of RECOMPUTE and the gradients that reads any of it
//   kTransient       the part's: what lives within one run of one list; also the scratch memory of
//                    single instructions. A worker has as much as the parts of one stage need
//
// In a single pass, where a step is one micro-batch and the worker has no other stage, nothing has
// to wait for a micro-batch's turn: what is kept, and the gradients of parameters, lie in the
// transient region too, each from its first use in the step to its last. The lists share it, and
// there is no other but kHanded.
//
// kTake and kGive say when a micro-batch has an instance of a region, kAcquire and kSend (or, of
// what this part reads after that, kRetire) when it has a slot, kReceive and kRelease when it has a
// view: memory is proved by walking the lists, and nothing is taken in any other way. Sizes are
// those of the plan's largest micro-batch; blocks are 64 bytes. A local has a place in those lists
// only in which it has contents.
//
// Locals whose storage is borrowed: an alias shares another local's memory (Flatten's output, and
// what is written over an input that nobody reads later); a local that is received whole is read in
// place from the message; a local that is made to be sent whole is written into the slot of one
// part that it goes to, and read there until its last reader here, if that comes after the send.
// Nobody writes to it after the send, and no kReceive lies between its kAcquire and its kSend.
//
// A message carries the pieces of its route in order, each a dense tensor of piece.box, and is sent
// for an empty micro-batch too. Within one list a part sends what it made right after making it and
// receives what it needs right before using it, in model order (I, W and B: reverse).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ops/pack.h"
#include "partitioner/plan.h"

namespace kerf::partitioner {

enum class LocalKind : uint8_t {
  kData,               // inputs and labels: read from the data set by kRead
  kParameter,          // persistent: what calls read of anything that is kept from step to step
  kHome,               // persistent: the master of a parameter, where calls read more than it
  kParameterGradient,  // persistent; summed over micro-batches in the order in which W runs
  kHomeGradient,       // persistent; of a home, where it is summed from several tensors (both
                       // unless passing)
  kStep,               // persistent; a share of the step vector, or its result
  kStatistics,         // persistent; what each micro-batch says of a state, until U
  kActivation,
  kGradient,  // of an activation; of a parameter, summed into a home
};

enum class Storage : uint8_t {
  kOwn,       // a place in a region
  kAlias,     // of local `alias_of` (which may be an alias itself)
  kReceived,  // the view of a message of `route`
  kSent,      // a slot of `route`
};

struct Local {
  ValueId value = -1;
  LocalKind kind = LocalKind::kActivation;
  ops::Box box;
  ops::ValueSpec whole;  // the value's
  Storage storage = Storage::kOwn;
  int alias_of = -1;
  int route = -1;
  bool trained = false;  // a home: with optimizer states
  bool passing = false;  // a gradient that is made anew in every step, in memory of the step
  bool entered = false;  // of a part that recomputes: has what was received, and is not made again

  bool persistent() const {
    return kind <= LocalKind::kStatistics && kind != LocalKind::kData && !passing;
  }
  // Of the local tensor, for a micro-batch of `samples`.
  ops::Shape shape(int64_t samples) const { return ops::local_shape(box, whole.shape, samples); }
  size_t bytes(int64_t samples) const {
    return static_cast<size_t>(shape(samples).elements()) * ops::size_of(whole.dtype);
  }
};

// One node on one part. An operator that aliases() has a call, but no kForward or kGradient.
struct LocalCall {
  NodeId node = -1;
  std::vector<int> inputs;            // locals; -1: absent
  std::vector<int> outputs;           // locals
  std::vector<int> output_gradients;  // locals; -1: none (of a loss, 1); empty if the call has no
                                      // backward pass
  ops::Box iterations;
  int64_t reserve = 0;    // bytes that go from its forward to its gradients
  int64_t handed = 0;     // bytes that go from its I to its W
  int64_t workspace = 0;  // bytes that its kernel may take while it runs
  int64_t packed = 0;     // bytes in which its kernel keeps parameters in a layout of its own
};

// Part of a message, or of a local copy.
struct Move {
  int local = -1;
  bool add = false;               // receive and copy: add instead of overwrite
  bool whole = false;             // the piece is all of the local
  ops::Selection selection = {};  // of the piece within the local; none of times alone
  ops::Box piece = {};            // of the value; of times alone
};

enum class RegionKind : uint8_t { kKept, kKeptForWeights, kHanded, kEntered, kTransient };
inline constexpr int kRegions = 5;

// Where something lies while a list runs; offset -1: nowhere.
struct Place {
  RegionKind region : 8 = RegionKind::kTransient;
  int64_t offset : 56 = -1;
  bool exists() const { return offset >= 0; }
};

struct Instruction {
  enum class Kind : uint8_t {
    kTake,         // region: an instance of it is this micro-batch's from now on
    kGive,         // region
    kRead,         // local, from the data set
    kForward,      // call
    kLoss,         // call: its loss (and its scores) are what the step reports
    kWrite,        // local: this part's share of a result, which the run hands out
    kGradient,     // call, targets
    kAcquire,      // route: a slot (local: that is made in it)
    kSend,         // route, moves in message order (empty: `local` is in the slot already, and
                   // stays there until kRetire if it is `retained`)
    kRetire,       // route: the slot of what was sent
    kReceive,      // route, moves in message order (empty: `local` is the view)
    kRelease,      // route: the view
    kCopy,         // moves[0] (from) to moves[1] (to, add)
    kZero,         // local
    kMeasure,      // local's squares (statistics': of every micro-batch) go to entry of the share
    kConclude,     // local, all shares' sum, gives other, the result
    kUpdate,       // local is the home, other its gradient; if the step is finite, as
    kUpdateState,  // local is the state, other its statistics, keep
    kClear,        // local, an accumulator: it counts as zero, and what comes first overwrites it
  };
  struct Target {
    int input = 0;
    int local = -1;
  };
  Kind kind{};
  RegionKind region{};
  int call = -1;
  int route = -1;
  int local = -1;
  int other = -1;
  int entry = -1;        // of the step vector
  float keep = 0;        // of the state, against the statistics
  bool weights = false;  // kGradient: W's, not I's
  bool retained = false;
  std::vector<Move> moves;
  std::vector<Target> targets;
  int64_t scratch = -1;       // offset in the transient region of what it takes while it runs
  int64_t scratch_bytes = 0;  // 0: nothing
};

struct InstructionList {
  std::vector<Instruction> instructions;
  std::vector<int> turns;  // by instruction, rising: see turns.h; empty where a part needs none
  // Of the transient region, while it runs; and if kernels took no workspace, where that was asked.
  int64_t transient_bytes = 0;
  int64_t transient_tensor_bytes = 0;
  // An empty list has none of these.
  std::vector<Place> places;   // by local (an alias has its root's)
  std::vector<Place> reserve;  // by call
  std::vector<Place> handed;   // by call
};

struct Part {
  int part = 0;
  int stage = 0;
  int worker = 0;
  bool gradients = true;    // false: lowered for forward only, with F alone
  bool times_only = false;  // true: lowered for who asks for times alone
  // A step is one micro-batch, and the worker has no other stage: its lists follow each other.
  bool single_pass = false;
  int versions = 0;  // as StageLists has it
  int ahead = 0;     // likewise
  std::vector<Local> locals;
  std::vector<LocalCall> calls;
  InstructionList forward;
  InstructionList input_gradient;
  InstructionList weight_gradient;
  InstructionList backward;
  InstructionList checkpointed_forward;  // where its stage recomputes, as is the next
  InstructionList recompute;
  InstructionList apply;  // where the stage updates within the step
  InstructionList contribute;
  InstructionList reduce;
  InstructionList conclude;
  InstructionList update;
  InstructionList fetch;
  int step_share = -1;   // local; -1 where the part has nothing to do with the step vector
  int step_result = -1;  // local, likewise
  std::array<int64_t, kRegions> region_bytes{};  // of one instance
  // Of a micro-batch, in whatever region: what it keeps from F to I (or B), and to W (or B).
  int64_t kept_bytes = 0;
  int64_t kept_for_weights_bytes = 0;

  bool recomputes() const { return !checkpointed_forward.instructions.empty(); }
  bool updates_within() const { return versions > 0; }
  int64_t bytes_of(RegionKind region) const { return region_bytes[static_cast<size_t>(region)]; }
};

// What a schedule wants of a stage's parts, beside a step's forward, gradients and update.
struct StageLists {
  bool recomputes = false;  // any of its micro-batches
  // Versions of its weights that it keeps at once, where it updates them within the step: what
  // calls read, as it was before the last updates. 0: it updates them at the step's end.
  int versions = 0;
  // Micro-batches of the next step that a step begins: what they say of states lies beside that of
  // the step's own.
  int ahead = 0;
};

struct LowerOptions {
  bool gradients = true;  // false: F alone, and nothing is kept for gradients
  // Kernels' workspace depends on these: threads per worker, and the workers' devices in turn
  // (empty: CPUs).
  int threads = 1;
  std::vector<runtime::DeviceKind> devices = {};
  // For who asks for times alone: what is computed, sent, received and copied, in the order of a
  // run. Moves have no selections, and nothing lies anywhere but in messages.
  bool times_only = false;
  // For who asks how much transient memory would be if kernels took no workspace.
  bool tensor_bytes = false;
  // False: for who asks how much transient memory it takes at the least, which is what lives at
  // once: no packing is below that. All of it is placed at the beginning.
  bool packs = true;
  // By in_parallel.h: for who plans, with no tensors about.
  bool in_parallel = false;
  // For who runs the parts of this worker alone: those of others are left out, and are lowered
  // only where parts of their stage take turns (turns.h).
  std::optional<int> worker = {};
  std::vector<StageLists> stages = {};  // those that it lacks want nothing
};

// One part per part number, or in their order those of one worker. Forward-only parts number locals
// of the forward pass and calls as those with gradients do. The plan must be valid. Throws
// Error{kUsage} for a division that an operator refuses, and for weights that several parts sum or
// read where a stage updates them within the step: no part waits for another there.
std::vector<Part> lower(const Model& model, const Plan& plan, const LowerOptions& options = {});
// The same of what the plan was connected by.
class Sums;
std::vector<Part> lower(const Sums& sums, const Plan& plan, const LowerOptions& options = {});

// Whether the B of this stage makes the gradients of weights node by node among those of inputs:
// where the plan says so, and where nothing leaves the stage that ought to leave first.
bool interleaves(const Plan& plan, int stage);

// The local whose memory `local` shares: itself unless it is an alias.
int root_of(const Part& part, int local);

// Parameters, as they are and packed by kernels, and, where it trains, their older versions,
// gradients, optimizer states, statistics of each of the micro-batches and of those ahead, and the
// step vector, in blocks.
int64_t persistent_bytes(const Part& part, int optimizer_states, int micro_batches, bool trains);

// One line per instruction, for people and golden tests: "F  fc1 = Gemm(x, w, b)", "F  send fc1 ->
// 2". The lists are F, I, W, B, K (F that keeps what it was sent alone), A (RECOMPUTE), P (apply),
// C (contribute), S (reduce), V (conclude), U, R (fetch).
std::string describe(const Model& model, const Plan& plan, const Part& part);

}  // namespace kerf::partitioner
