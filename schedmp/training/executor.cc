#include "schedmp/training/executor.h"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

using ops::TensorView;
using partitioner::Local;
using partitioner::LocalCall;
using partitioner::LocalKind;
using partitioner::Part;
using partitioner::Storage;
using runtime::Span;
using runtime::TraceRow;

namespace {

// What the loss is the mean over, per sample of a batch: rows, or tokens. Its last input has one
// for each: labels, or weights, or the scores that were picked.
double loss_terms(const partitioner::Model& model) {
  if (model.loss() < 0 || model.node(model.loss()).inputs.size() < 2) return 1;
  const partitioner::ValueId labels = model.node(model.loss()).inputs.back();
  return labels < 0 ? 1 : static_cast<double>(model.value(labels).spec.shape.elements_per_sample());
}

// "step 4: 1B0", and what of the row is behind it, the last of that: " (behind ... 1F0 1F1)", an
// action of several lists once. A text in its own memory, as a step takes none; what that does not
// hold is cut off.
constexpr size_t kActionsTold = 16;
constexpr size_t kMostTold = 256;

class Told {
 public:
  Told(int64_t step, const std::vector<std::string>& names, size_t index) {
    add("step {}: {}", step, names[index]);
    action_ = size_;
    const size_t first = index - std::min(index, kActionsTold);
    const char* before = first > 0 ? " (behind ... " : " (behind ";
    for (size_t i = first; i < index; ++i)
      if (names[i] != names[i + 1]) add("{}{}", std::exchange(before, " "), names[i]);
    if (size_ > action_) add("{}", ")");
  }

  std::string_view action() const { return {memory_.data(), action_}; }
  std::string_view row() const { return {memory_.data(), size_}; }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    const size_t room = memory_.size() - size_;
    const auto end =
        fmt::format_to_n(memory_.data() + size_, room, text, std::forward<Args>(args)...);
    size_ += std::min(end.size, room);
  }

  std::array<char, kMostTold> memory_;
  size_t size_ = 0;
  size_t action_ = 0;
};

}  // namespace

Executor::Executor(const partitioner::Model& model, const partitioner::Plan& plan,
                   std::optional<Work> training, Work evaluation,
                   const std::vector<int32_t>& credits, runtime::Workplace& workplace,
                   const ops::OptimizerOptions& optimizer, uint64_t seed)
    : model_(model),
      plan_(plan),
      workplace_(workplace),
      bench_(ops::make_workbench(workplace.device, workplace.stream)),
      trail_(*bench_),
      error_places_(workplace, trail_),
      step_trace_(workplace),
      seed_(seed),
      micro_batches_(plan.micro_batches),
      sizes_(plan.sizes()),
      loss_terms_(loss_terms(model)),
      step_vector_(model, micro_batches_),
      training_(training ? std::make_unique<Purpose>(std::move(*training), workplace.worker,
                                                     static_cast<Machine&>(*this))
                         : nullptr),
      evaluation_(std::make_unique<Purpose>(std::move(evaluation), workplace.worker,
                                            static_cast<Machine&>(*this))),
      current_(training_ ? training_.get() : evaluation_.get()),
      parameters_(model, current_->parts, *bench_, optimizer, seed, training_ != nullptr,
                  micro_batches_, [&activity = workplace.activity] { activity.progress(); }),
      mailbox_(model, plan, credits, workplace),
      slots_(plan.routes.size()),
      held_(plan.routes.size()) {
  const auto entries =
      static_cast<size_t>(std::max<int>(partitioner::StepVector::kResults, micro_batches_ + 2));
  report_memory_ = workplace.device.allocate_pinned(entries * sizeof(double));
  report_ = {reinterpret_cast<double*>(report_memory_.get()), entries};
  arena_ = workplace.device.allocate(
      static_cast<size_t>(std::max(current_->arena.bytes(), evaluation_->arena.bytes())));
  for (const Part* each : current_->parts) {
    auto& kernels = kernels_.emplace_back();
    auto& reads = reads_.emplace_back();
    for (const LocalCall& call : each->calls) {
      kernels.push_back(
          ops::make_kernel({model.op(call.node), call.iterations, plan.division.largest, *bench_}));
      reads.push_back(model.op(call.node).backward_reads());
    }
  }
  take_result_memory();
  const auto each = static_cast<size_t>(current_->steps.under_way());
  for (const partitioner::Route& route : plan.routes) {
    const auto id = static_cast<size_t>(route.id);
    if (plan.binding[static_cast<size_t>(route.from)] == workplace.worker) slots_[id].resize(each);
    if (plan.binding[static_cast<size_t>(route.to)] == workplace.worker) held_[id].resize(each);
  }
}

// What is under way works on our memory.
Executor::~Executor() {
  try {
    workplace_.stream.synchronize();
  } catch (const std::exception&) {
    // Whoever ran the step was told by that, or by what stopped it.
  }
}

bool Executor::reads_data() const {
  return std::any_of(current_->parts.begin(), current_->parts.end(), [](const Part* each) {
    return std::any_of(each->locals.begin(), each->locals.end(),
                       [](const Local& l) { return l.kind == LocalKind::kData; });
  });
}

bool Executor::reads_inputs() const {
  const auto is_input = [&](const Local& each) {
    return each.kind == LocalKind::kData &&
           model_.value(each.value).role == partitioner::Role::kInput;
  };
  return std::any_of(current_->parts.begin(), current_->parts.end(), [&](const Part* each) {
    return std::any_of(each->locals.begin(), each->locals.end(), is_input);
  });
}

std::vector<int> Executor::part_numbers() const {
  std::vector<int> numbers;
  for (const Part* each : current_->parts) numbers.push_back(each->part);
  return numbers;
}

TrainingResult& Executor::run(const StepData& data) {
  const int64_t begin_ns = runtime::now_ns();
  data_ = data;
  current_ = data.training ? training_.get() : evaluation_.get();
  KERF_CHECK(current_ != nullptr, "a run that only evaluates is to train");
  result_.has_loss = false;
  given_.clear();
  result_.loss = result_.squared_norm = 0;  // nothing of the step before: results are compared
  result_.correct = result_.in_top = 0;
  result_.cause = 0;
  if (data.training) parameters_.set_pace({data.learning_rate, data.step + 1});
  begin_row();
  std::fill(report_.begin(), report_.end(), 0.0);
  mailbox_.begin(data.sequence);
  trail_.begin(data.step);
  error_places_.within_step([&] {
    error_places_.within([&] { return kerf::format("the beginning of step {}", data.step); },
                         [&] { step_trace_.begin(); });
    for (size_t run = 0; run < row_->runs.size(); ++run) run_list(run);
    if (data.training) copy_report();
    error_places_.within([&] { return kerf::format("the end of step {}", data.step); },
                         [&] { workplace_.stream.synchronize(); });
  });
  current_->interpreter.next_step();
  step_trace_.end();
  bench_->check_data();
  data.training ? report_step() : report_evaluation();
  mailbox_.sent(result_.sent);
  result_.bytes_in = mailbox_.bytes_in();
  result_.wait_ns = mailbox_.waited_ns() + waited_for_updates();
  result_.compute_ns = runtime::now_ns() - begin_ns - result_.wait_ns;
  result_.kernel_bytes = static_cast<int64_t>(bench_->kernel_bytes());
  result_.peak_bytes = static_cast<int64_t>(workplace_.device.memory().peak +
                                            workplace_.endpoint.slot_bytes() + given_bytes_);
  return result_;
}

int64_t Executor::waited_for_updates() {
  if (updates_ == nullptr) return 0;
  const int64_t before = std::exchange(waited_for_updates_ns_, updates_->waited_ns());
  return waited_for_updates_ns_ - before;
}

void Executor::run_list(size_t index) {
  const std::string& name = row_->names[index];
  action_ = name;
  now_ = &row_->runs[index];
  behind_ = behind(*now_);
  const Told told(data_.step, row_->names, index);
  const std::string_view text = told.action();
  workplace_.activity.doing(told.row());
  const auto run = [&] {
    if (now_->list == &Part::apply) begin_update();
    current_->interpreter.run(*now_);
    trail_.passed(name);
  };
  error_places_.within([&] { return text; },
                       [&] { step_trace_.cover_list([&] { return name; }, run); });
  if (const auto done = trail_.done())
    workplace_.activity.enqueued(text, trail_.last(), done);
  else
    workplace_.activity.progress();
}

std::byte* Executor::at(const Site& site, const partitioner::Place& place) const {
  if (!place.exists()) return nullptr;
  const int instance = current_->interpreter.instance(site, place.region);
  return arena_.data() + current_->arena.start(part(site), site.part, place.region, instance) +
         place.offset;
}

std::span<std::byte> Executor::bytes_at(const Site& site, const partitioner::Place& place,
                                        int64_t bytes) const {
  std::byte* data = at(site, place);
  return {data, data == nullptr ? 0 : static_cast<size_t>(bytes)};
}

std::byte* Executor::scratch(const Site& site, const Instruction& instruction) const {
  return at(site, {partitioner::RegionKind::kTransient, instruction.scratch});
}

std::byte* Executor::memory_of(const Site& site, int root) const {
  const Local& each = local(site, root);
  if (each.box.empty()) return nullptr;
  if (each.kind == LocalKind::kStatistics)
    return parameters_.statistics(site.part, root, current_->interpreter.place(site)).data;
  if (each.persistent()) return parameters_.view(site.part, root, behind_).data;
  const auto route = static_cast<size_t>(each.route);
  const size_t message = message_place(site);
  if (each.storage == Storage::kSent) return slots_[route][message].data;
  // Nobody writes to a local that is read in place.
  if (each.storage == Storage::kReceived) return const_cast<std::byte*>(held_[route][message].data);
  return at(site, site.list->places[static_cast<size_t>(root)]);
}

TensorView Executor::view(const Site& site, int index) const {
  const Local& each = local(site, index);
  const int root = current_->roots[site.part][static_cast<size_t>(index)];
  return {each.whole.dtype, each.shape(samples(site)), memory_of(site, root)};
}

void Executor::look(const Site& site, const std::vector<int>& locals, std::vector<TensorView>& to) {
  to.clear();
  for (const int each : locals) to.push_back(each < 0 ? TensorView{} : view(site, each));
}

// Memory of what is not read may be another's by now.
void Executor::look_back(const Site& site, const Instruction& instruction) {
  const LocalCall& call = call_of(site, instruction);
  const ops::BackwardReads& reads = reads_[site.part][static_cast<size_t>(instruction.call)];
  const bool weights = instruction.weights;
  const auto keep = [](const std::vector<int>& read, std::vector<TensorView>& views) {
    for (size_t i = 0; i < views.size(); ++i)
      if (std::find(read.begin(), read.end(), static_cast<int>(i)) == read.end())
        views[i].data = nullptr;
  };
  look(site, call.inputs, inputs_);
  keep(weights ? reads.inputs_for_weight_gradient : reads.inputs_for_input_gradient, inputs_);
  look(site, call.outputs, outputs_);
  keep(weights ? reads.outputs_for_weight_gradient : reads.outputs_for_input_gradient, outputs_);
  look(site, call.output_gradients, output_gradients_);
  if (weights && !reads.output_gradients_for_weight_gradient) keep({}, output_gradients_);
}

ops::Call Executor::make_call(const Site& site, const Instruction& instruction) {
  const auto call = static_cast<size_t>(instruction.call);
  ops::Call made;
  made.inputs = inputs_;
  made.outputs = outputs_;
  made.output_gradients = output_gradients_;
  const LocalCall& of = part(site).calls[call];
  const bool reads_reserve = instruction.kind != Instruction::Kind::kGradient ||
                             !instruction.weights ||
                             reads_[site.part][call].reserve_for_weight_gradient;
  if (reads_reserve) made.reserve = bytes_at(site, site.list->reserve[call], of.reserve);
  made.handed = bytes_at(site, site.list->handed[call], of.handed);
  made.workspace = {scratch(site, instruction), static_cast<size_t>(instruction.scratch_bytes)};
  made.packed = parameters_.packed(site.part, instruction.call);
  made.version = parameters_.version();
  made.samples = samples(site);
  made.first_sample = first(site);
  made.key = {seed_, model_.node(part(site).calls[call].node).key, data_.step + site.step,
              site.micro_batch};
  made.training = data_.training;
  made.normaliser = static_cast<double>(rows_of_loss(site, instruction)) * loss_terms_;
  return made;
}

void Executor::forward(const Site& site, const Instruction& instruction) {
  const std::string& node = model_.node(call_of(site, instruction).node).name;
  look(site, call_of(site, instruction).inputs, inputs_);
  look(site, call_of(site, instruction).outputs, outputs_);
  output_gradients_.clear();
  compute(
      node, [&] { return node; },
      [&] { bench_->forward(kernel(site, instruction), make_call(site, instruction)); });
}

void Executor::gradient(const Site& site, const Instruction& instruction,
                        std::span<const char> accumulate) {
  const std::string& node = model_.node(call_of(site, instruction).node).name;
  look_back(site, instruction);
  targets_.clear();
  for (size_t i = 0; i < instruction.targets.size(); ++i)
    targets_.push_back({instruction.targets[i].input, view(site, instruction.targets[i].local),
                        accumulate[i] != 0});
  const auto act =
      instruction.weights ? &ops::Workbench::weight_gradient : &ops::Workbench::input_gradient;
  compute(
      node, [&] { return node + (instruction.weights ? " weight gradient" : " input gradient"); },
      [&] { ((*bench_).*act)(kernel(site, instruction), make_call(site, instruction), targets_); });
}

// A kernel's call, by the names of its node and of its span.
template <class Name, class Act>
void Executor::compute(const std::string& node, const Name& name, const Act& act) {
  error_places_.within([&] { return std::string_view(node); },
                       [&] {
                         step_trace_.cover(Span::Kind::kCompute, TraceRow::kOperators, name, act);
                         trail_.passed(action_, node);
                       });
}

void Executor::copy(const Site& site, const Instruction& instruction) {
  step_trace_.works();
  const partitioner::Move& from = instruction.moves[0];
  const partitioner::Move& to = instruction.moves[1];
  // The update copies between parameters' accumulators, which have no rows.
  const int64_t rows = samples(site);
  const TensorView source = view(site, from.local);
  const TensorView target = view(site, to.local);
  if (!from.selection.everything() && to.selection.everything())
    return to.add ? bench_->pack_add(from.selection, source, target.data, rows)
                  : bench_->pack(from.selection, source, target.data, rows);
  const std::byte* piece = source.data;
  if (!from.selection.everything()) {
    std::byte* dense = scratch(site, instruction);
    bench_->pack(from.selection, source, dense, rows);
    piece = dense;
  }
  if (to.add)
    bench_->unpack_add(to.selection, piece, target, rows);
  else
    bench_->unpack(to.selection, piece, target, rows);
}

void Executor::zero(const Site& site, int index) {
  step_trace_.works();
  const TensorView each = view(site, index);
  workplace_.stream.fill_zero(each.data, each.bytes());
}

}  // namespace kerf::schedmp
