#include "partitioner/onnx/importer.h"

#include <algorithm>
#include <utility>

#include "partitioner/onnx/fuse.h"
#include "partitioner/onnx/pruned.h"
#include "partitioner/onnx/read.h"
#include "partitioner/onnx/tied_tables.h"
#include "partitioner/onnx/told_apart.h"
#include "partitioner/onnx/torch_names.h"
#include "partitioner/onnx/training_form.h"
#include "partitioner/onnx/weight_file.h"
#include "partitioner/plan.h"

namespace kerf::partitioner::onnx {

Importer::Importer(const Graph& graph, const ImportOptions& options, Budget& budget)
    : graph_(graph),
      options_(options),
      names_(names_of(graph)),
      result_{Model(graph.origin)},
      budget_(budget) {
  if (options.whole_inputs) result_.model.take_whole_inputs();
}

void Importer::refuse(const std::string& why, const std::string& where) const {
  throw Error(ErrorCode::kUsage, why, where.empty() ? graph_.origin : where);
}

void Importer::note(const std::string& text) {
  if (noted_.insert(text).second) result_.notes.push_back(text);
}

Imported Importer::import() {
  weights_ = weight_places(graph_);
  count_readers();
  for (size_t i = 0; i < graph_.torch.size(); ++i) torch_places_.emplace(graph_.torch[i].name, i);
  says_modules_ = graph_.by_torch && graph_.torch.empty() &&
                  std::any_of(graph_.nodes.begin(), graph_.nodes.end(),
                              [](const GraphNode& node) { return node.name.starts_with('/'); });
  for (const GraphNode& node : graph_.nodes)
    if (node.op == "BatchNormalization" && node.inputs.size() == 5) {
      statistics_.insert(node.inputs.begin() + 3, node.inputs.end());
      if (ops::attribute_int(node.attributes, "training_mode", 0) != 0)
        states_.insert(node.inputs.begin() + 3, node.inputs.end());
    }
  add_initializers();
  find_batch();
  add_inputs();
  between_.clear();
  for (const GraphNode& node : graph_.nodes) {
    add(node);
    release(node);
  }
  options_.loss.empty() ? add_results() : add_loss();
  check_all_fit();
  list_folded();
  note_collected();
  if (!options_.loss.empty()) note_untrained();
  return std::move(result_);
}

void Importer::add_initializers() {
  std::map<ops::DType, int> narrowed;
  forms_ = torch_forms(graph_);
  for (const auto& [name, stored] : graph_.initializers) {
    if (stored.in_file != stored.spec.dtype) ++narrowed[stored.in_file];
    set(name, Fixed{name, stored.spec, stored.contents, stored.initializer, forms_[name]});
  }
  for (const auto& [dtype, count] : narrowed)
    note(format("{} of {} became float32", plural(count, "weight tensor"), ops::to_string(dtype)));
  for (const auto& [name, literal] : options_.constants) {
    set(name, Fixed{name,
                    {given_as(literal.dtype), literal.shape},
                    contents_of(literal.bytes, literal.dtype)});
  }
}

// One name, or one number, for the first axis of every input.
void Importer::find_batch() {
  if (options_.whole_inputs) return;
  const GraphInput* first = nullptr;
  for (const GraphInput& input : graph_.inputs) {
    if (options_.constants.contains(input.name)) continue;
    const std::string where = format("{}: input {}", graph_.origin, input.name);
    if (input.shape.empty())
      refuse("it is a scalar, but the first axis of every input must be the batch", where);
    const Dimension& batch = input.shape[0];
    if (batch.extent == 0) refuse("its first axis, the batch, has no index", where);
    if (batch.extent > kMostRows)
      refuse(format("its first axis, the batch, has {} indices; {} are the most", batch.extent,
                    kMostRows),
             where);
    if (first == nullptr) first = &input;
    const Dimension& of_first = first->shape[0];
    if (batch.extent != of_first.extent ||
        (batch.extent < 0 && batch.symbol != of_first.symbol && !batch.symbol.empty()))
      refuse(format("its first axis has {} indices and that of {} has {}: the batch must be the "
                    "first axis of every input",
                    batch.extent < 0 ? batch.symbol : std::to_string(batch.extent), first->name,
                    of_first.extent < 0 ? of_first.symbol : std::to_string(of_first.extent)),
             where);
  }
  if (first != nullptr && first->shape[0].extent > 0) fixed_batch_ = first->shape[0].extent;
}

ops::Shape Importer::shape_of_input(const GraphInput& input) {
  std::vector<int64_t> extents;
  for (size_t i = 0; i < input.shape.size(); ++i) {
    const Dimension& axis = input.shape[i];
    if (i == 0 && !options_.whole_inputs) {
      extents.push_back(ops::kBatch);
      continue;
    }
    const auto given = options_.dims.find(axis.symbol);
    const bool asked = axis.extent < 0 && given != options_.dims.end();
    if (asked) used_dims_.insert(axis.symbol);
    const int64_t extent = asked ? given->second : axis.extent;
    if (extent < 0)
      refuse(axis.symbol.empty()
                 ? format("its axis {} has no extent and no name; export the model with one", i)
                 : format("its axis {} is as long as {} says; say it, as in --dim {}=16", i,
                          axis.symbol, axis.symbol),
             format("{}: input {}", graph_.origin, input.name));
    extents.push_back(extent);
  }
  return ops::Shape(extents);
}

// What a person asks for and nothing has is a slip of the pen.
void Importer::check_all_fit() const {
  std::set<std::string> symbols;
  for (const GraphInput& input : graph_.inputs)
    for (const Dimension& axis : input.shape)
      if (axis.extent < 0 && !axis.symbol.empty()) symbols.insert(axis.symbol);
  for (const auto& [name, extent] : options_.dims)
    if (!used_dims_.contains(name))
      refuse(symbols.contains(name)
                 ? format("{} is its batch, of which --dim says nothing: leave it out", name)
                 : format("no axis of its inputs is named {}, as --dim has it; there {}", name,
                          symbols.empty() ? "is none with a name"
                                          : format("is {}", fmt::join(symbols, ", "))));
  for (const auto* patterns : {&options_.train, &options_.freeze})
    for (const std::string& pattern : *patterns)
      if (!fitting_.contains(pattern))
        refuse(format("{} \"{}\" fits the name of none of its weights{}",
                      patterns == &options_.train ? "--train" : "--freeze", pattern,
                      some_weights()));
}

// Weights of the file that are read, but no value of the model: constants are made of them.
void Importer::list_folded() {
  std::set<std::string> kept;
  for (const auto& [name, in_model] : in_model_) {
    if (result_.model.value(in_model.id).role == Role::kConstant) continue;
    kept.insert(name);
    if (in_model.fixed.stored != nullptr)
      for (const StoredTensor& tensor : in_model.fixed.stored->tensors) kept.insert(tensor.name);
  }
  for (const auto& [name, stored] : graph_.initializers)
    if (readers_.contains(name) && !kept.contains(name) && stored.contents != nullptr)
      result_.folded.weights[name] = {stored.spec, stored.contents};
  for (const std::string& name : graph_.doubtful)
    if (const auto found = graph_.initializers.find(name);
        found != graph_.initializers.end() && readers_.contains(name) &&
        found->second.contents != nullptr && found->second.spec.dtype == ops::DType::kFloat32)
      result_.folded.weights[name] = {found->second.spec, found->second.contents, true};
  list_computed();
  result_.folded.lost = graph_.lost;
  for (const TorchTensor& each : graph_.torch)
    if (each.saved)
      (each.parameter ? result_.folded.parameters : result_.folded.buffers).insert(each.name);
  if (!graph_.torch.empty()) return;
  for (const std::string& name : kept)
    if (const auto readers = readers_.find(name);
        readers != readers_.end() && readers->second > 1 && !weights_.tables.contains(name))
      result_.folded.shared.insert(name);
}

// But what is a weight of the model in another form.
void Importer::list_computed() {
  for (const auto& [name, computed] : graph_.computed) {
    const auto made = graph_.initializers.find(name);
    if (!readers_.contains(name) || made == graph_.initializers.end() ||
        made->second.spec.dtype != ops::DType::kFloat32)
      continue;
    std::set<std::string> in_form;
    if (const auto form = forms_.find(name); form != forms_.end() && form->second != nullptr)
      for (const StoredTensor& tensor : form->second->tensors) in_form.insert(tensor.name);
    for (const size_t each : computed.tensors) {
      const std::string& of = graph_.torch[each].name;
      if (in_form.contains(of)) continue;
      FoldedWeights::Computed& listed = result_.folded.computed[of];
      listed.made = name;
      listed.parameter = graph_.torch[each].parameter;
      if (const auto before = graph_.initializers.find(of); before != graph_.initializers.end())
        listed.before = {before->second.spec, before->second.contents};
    }
  }
}

// All names are in the metadata of a file of weights.
void Importer::note_collected() {
  constexpr size_t kFew = 3;
  const auto note_some = [&](const std::vector<std::string>& texts, const char* others) {
    if (texts.size() > kFew)
      return note(format("{}, and {} others {}", texts.front(), texts.size() - 1, others));
    for (const std::string& each : texts) note(each);
  };
  note_some(kept_turned_, "likewise");
  note_some(renamed_, "have other names there than in this file");
}

// Of the file's float tensors, but statistics and what --freeze names.
void Importer::note_untrained() {
  constexpr size_t kFew = 4;
  std::set<std::string> trained;
  for (const auto& [name, in_model] : in_model_)
    if (result_.model.value(in_model.id).role == Role::kParameter) {
      trained.insert(name);
      trained.insert(in_model.fixed.of);
    }
  std::set<std::string> statistics;
  for (const GraphNode& node : graph_.nodes)
    if (node.op == "BatchNormalization" && node.inputs.size() == 5)
      statistics.insert(node.inputs.begin() + 3, node.inputs.end());
  std::vector<std::string> left;
  for (const auto& [name, stored] : graph_.initializers) {
    const Fixed fixed{name, stored.spec, nullptr, {}, forms_[name]};
    if (readers_.contains(name) && may_be_weight(fixed) && !trained.contains(name) &&
        !statistics.contains(name) && !fits(fixed, options_.freeze))
      left.push_back(name);
  }
  if (left.empty()) return;
  const size_t count = left.size();
  left.resize(std::min(kFew, count));
  note(format("{} of the file {} not trained: {}{}; --train NAME trains one that is a weight",
              plural(count, "float tensor"), count == 1 ? "is" : "are", fmt::join(left, ", "),
              count > kFew ? " and so on" : ""));
}

std::string Importer::some_weights() const {
  constexpr size_t kFew = 8;
  std::vector<std::string> names;
  for (const ValueId id : result_.model.kept_values())
    if (result_.model.value(id).role != Role::kConstant && names.size() < kFew)
      names.push_back(result_.model.value(id).name);
  return names.empty() ? "" : format(", as {}", fmt::join(names, ", "));
}

void Importer::add_inputs() {
  for (const GraphInput& input : graph_.inputs) {
    if (options_.constants.contains(input.name)) continue;
    set(input.name, result_.model.add_input(input.name, {input.dtype, shape_of_input(input)}));
    if (input.in_file)
      note(format("input {} is {} in the file: it is read as {}, as all is that is computed of it",
                  input.name, ops::to_string(*input.in_file), ops::to_string(input.dtype)));
  }
}

void Importer::add_results() {
  std::set<ValueId> given;
  for (const std::string& output : graph_.outputs) {
    const std::string where = format("{}: output {}", graph_.origin, output);
    if (is_constant(output)) {
      result_.constants[output] = literal(output, size_t{1} << 30);
      note(format("output {} is the same for all inputs", output));
      continue;
    }
    const ValueId* value = std::get_if<ValueId>(&known(output));
    if (value == nullptr) refuse("it is the same for all inputs", where);
    if (result_.model.value(*value).producer < 0)
      refuse("it is an input of the model, which computes nothing for it", where);
    if (outer_of(*value) != 1)
      refuse(format("it is {}, with {} rows of each sample that lie apart; let the batch be its "
                    "first axis, as [N, ...]",
                    ops::to_string(result_.model.value(*value).spec.shape), outer_of(*value)),
             where);
    // Each has a value of its own, which is written under its name.
    if (!given.insert(*value).second)
      add_node({free_name(output + ".copy", names_), "Identity", {}, {output}, {output}});
    result_.model.add_result(output, std::get<ValueId>(known(output)));
  }
}

void Importer::add_loss() {
  const std::string& output = graph_.outputs[0];
  const std::string where = format("{}: output {}", graph_.origin, output);
  const ValueId* found = std::get_if<ValueId>(&known(output));
  if (found == nullptr) refuse("it is the same for all inputs: there is nothing to train", where);
  const ValueId scores = *found;
  result_.model.add_result(output, scores);
  partitioner::add_loss(result_.model, options_.loss, scores, where);
}

namespace {

// Which weights those are is in `trained` and `frozen` of a plan as JSON.
std::string trained_note(const Model& model) {
  const auto text_of = [&](Role role) {
    int64_t tensors = 0;
    int64_t numbers = 0;
    for (const ValueId id : model.kept_values()) {
      if (model.value(id).role != role) continue;
      ++tensors;
      numbers += model.value(id).spec.shape.elements();
    }
    return format("{} of {}", plural(tensors, "tensor"), plural(numbers, "number"));
  };
  return format("trained are {}; frozen, {}", text_of(Role::kParameter), text_of(Role::kFrozen));
}

}  // namespace

Imported import_graph(const Graph& graph, const ImportOptions& options) {
  Graph formed = graph;
  std::vector<std::string> notes;
  tell_apart(formed, notes);
  repeat_here(formed);
  Joined joined;
  if (!options.loss.empty()) joined = end_in_scores(formed, options.loss, notes);
  if (options.head > 0) replace_head(formed, options.head, notes);
  Budget budget(stored_bytes(graph));
  tie_tables(formed, budget, notes);
  if (options.train_batch_norms) train_batch_norms(formed);
  if (!options.loss.empty()) report_folded_norms(formed, notes);
  Imported imported = Importer(formed, options, budget).import();
  if (!options.loss.empty())
    check_joined(joined, imported.model.value(imported.model.results().front().value).spec.shape);
  imported.notes.insert(imported.notes.begin(), notes.begin(), notes.end());
  if (options.fuse) imported.model = fused(imported.model, imported.notes);
  imported.model = pruned(imported.model, imported.notes);
  if (options.answers) imported.model = fused_for_answers(imported.model);
  if (!options.loss.empty()) imported.notes.push_back(trained_note(imported.model));
  return imported;
}

Imported import_file(const std::filesystem::path& path, const ImportOptions& options) {
  return import_graph(read_graph(path), options);
}

}  // namespace kerf::partitioner::onnx
