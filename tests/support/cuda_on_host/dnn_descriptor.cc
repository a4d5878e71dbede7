#include "tests/support/cuda_on_host/dnn_descriptor.h"

#include <algorithm>
#include <tuple>

#include "tests/support/cuda_on_host/gpu_state.h"

namespace kerf::tests {
namespace {

using Name = cudnnBackendAttributeName_t;
using Type = cudnnBackendAttributeType_t;

std::set<const DnnDescriptor*> living;
thread_local const char* last_words = "";

size_t size_of(Type type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

// What a descriptor may be given; all of it must be there when it is finalised, but a workspace.
struct Rule {
  cudnnBackendDescriptorType_t of;
  Name name;
  Type type;
  int64_t least;
  int64_t most;
  cudnnBackendDescriptorType_t given = {};  // of descriptors
};

std::vector<Rule> rules_of_operation(cudnnBackendDescriptorType_t of, Name convolution, Name x,
                                     Name w, Name y, Name alpha, Name beta) {
  const auto tensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  return {
      {of, convolution, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR},
      {of, x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, tensor},
      {of, w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, tensor},
      {of, y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, tensor},
      {of, alpha, CUDNN_TYPE_FLOAT, 1, 1},
      {of, beta, CUDNN_TYPE_FLOAT, 1, 1}};
}

std::vector<Rule> make_rules() {
  const auto convolution = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
  const auto graph = CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
  const auto tensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  const auto heuristic = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
  const auto plan = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  const auto pack = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
  std::vector<Rule> rules{
      {tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
      {tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 1, 8},
      {tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 1, 8},
      {tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, 1},
      {tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, 1},
      {convolution, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
      {convolution, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, 1},
      {convolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, 1},
      {convolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 1, 8},
      {convolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 1, 8},
      {convolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 1, 8},
      {convolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 1, 8},
      {graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, 1},
      {graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1},
      {heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
       graph},
      {heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1},
      {plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, 1},
      {plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
       CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
      {pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, 64},
      {pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, 64},
      {pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, 1}};
  for (const std::vector<Rule>& more :
       {rules_of_operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA),
        rules_of_operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA),
        rules_of_operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA)})
    rules.insert(rules.end(), more.begin(), more.end());
  return rules;
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kAll = make_rules();
  return kAll;
}

bool is_operation(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

// ---- what finalising looks at

cudnnStatus_t finalize_tensor(DnnDescriptor& d) {
  const auto sizes = d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  const auto alignment = d.one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  if (d.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) != CUDNN_DATA_FLOAT || sizes.size() != 4)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "played are images of float32");
  const auto positive = [](int64_t number) { return number > 0; };
  if (strides.size() != sizes.size() || !std::all_of(sizes.begin(), sizes.end(), positive) ||
      !std::all_of(strides.begin(), strides.end(), positive))
    return refuse(CUDNN_STATUS_BAD_PARAM, "a size or stride is not positive");
  if (alignment < 4 || (alignment & (alignment - 1)) != 0)
    return refuse(CUDNN_STATUS_BAD_PARAM, "an alignment is no power of two");
  d.ids[0] = d.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  d.alignment[0] = alignment;
  std::copy(sizes.begin(), sizes.end(), d.problem.x.sizes.begin());
  std::copy(strides.begin(), strides.end(), d.problem.x.strides.begin());
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_convolution(DnnDescriptor& d) {
  if (d.one<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) != 2)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "played are two axes of space");
  if (d.one<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT ||
      d.one<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "played are cross-correlations in float32");
  const auto take = [&](Name name, int64_t least, std::array<int64_t, 2>& to) {
    const auto numbers = d.all<int64_t>(name);
    if (numbers.size() != 2 || *std::min_element(numbers.begin(), numbers.end()) < least)
      return false;
    std::copy(numbers.begin(), numbers.end(), to.begin());
    return true;
  };
  if (!take(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1, d.problem.dilations) ||
      !take(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1, d.problem.strides) ||
      !take(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0, d.problem.pads_before) ||
      !take(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0, d.problem.pads_behind))
    return refuse(CUDNN_STATUS_BAD_PARAM, "a number of a convolution is out of range");
  return CUDNN_STATUS_SUCCESS;
}

bool shapes_fit(const DnnProblem& p) {
  const auto& [x, w, y] = std::tie(p.x.sizes, p.w.sizes, p.y.sizes);
  if (x[0] != y[0] || w[0] != y[1] || x[1] % w[1] != 0 || w[0] % (x[1] / w[1]) != 0) return false;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = (w[i + 2] - 1) * p.dilations[i] + 1;
    const int64_t room = x[i + 2] + p.pads_before[i] + p.pads_behind[i] - reach;
    if (room < 0 || room / p.strides[i] + 1 != y[i + 2]) return false;
  }
  return true;
}

cudnnStatus_t finalize_operation(DnnDescriptor& d) {
  std::vector<Name> names;  // as in rules_of_operation()
  for (const Rule& rule : rules())
    if (rule.of == d.type) names.push_back(rule.name);
  d.problem = d.given(names[0]).problem;
  const std::array<DnnTensor*, 3> tensors{&d.problem.x, &d.problem.w, &d.problem.y};
  for (size_t i = 0; i < 3; ++i) {
    const DnnDescriptor& tensor = d.given(names[i + 1]);
    *tensors[i] = tensor.problem.x;
    d.ids[i] = tensor.ids[0];
    d.alignment[i] = tensor.alignment[0];
  }
  d.problem.alpha = d.one<float>(names[4]);
  d.problem.beta = d.one<float>(names[5]);
  d.problem.kind = d.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
                       ? DnnKind::kForward
                   : d.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
                       ? DnnKind::kInputGradient
                       : DnnKind::kWeightGradient;
  if (std::set<int64_t>(d.ids.begin(), d.ids.end()).size() != 3)
    return refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "tensors share an id");
  if (!shapes_fit(d.problem))
    return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "shapes make no convolution");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_heuristic(DnnDescriptor& d) {
  d.follow(d.given(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
  const auto engines =
      dnn_engines_for(d.problem, d.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE));
  if (!engines) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the mode knows no such problem");
  d.engines = *engines;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_plan(DnnDescriptor& d) {
  if (takes_failure("cudnnBackendFinalize of a plan"))
    return refuse(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, "memory is short");
  d.follow(d.given(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
  const cudnnStatus_t status = dnn_engine_takes(d.engines.at(0), d.problem);
  return status == CUDNN_STATUS_SUCCESS ? status : refuse(status, "the engine does no such thing");
}

cudnnStatus_t finalize_pack(DnnDescriptor& d) {
  const auto ids = d.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  if (std::set<int64_t>(ids.begin(), ids.end()).size() != ids.size())
    return refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "an id is there twice");
  if (ids.size() != d.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size())
    return refuse(CUDNN_STATUS_BAD_PARAM, "not as many addresses as ids");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_as_its_type(DnnDescriptor& d) {
  for (const Rule& rule : rules())
    if (rule.of == d.type && !d.has(rule.name) && rule.name != CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
      return refuse(CUDNN_STATUS_BAD_PARAM, "an attribute is missing");
  check_needed(d);
  if (is_operation(d.type)) return finalize_operation(d);
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return finalize_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return finalize_convolution(d);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      d.follow(d.given(CUDNN_ATTR_OPERATIONGRAPH_OPS));
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return finalize_heuristic(d);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return finalize_plan(d);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return finalize_pack(d);
    default:
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "engines are had from heuristics");
  }
}

// ---- what is asked of descriptors

// Numbers of one's own.
template <class T>
cudnnStatus_t answer(const std::vector<T>& values, int64_t most, int64_t* count, void* to) {
  *count = std::ssize(values);
  const auto given = static_cast<size_t>(std::min(most, *count));
  if (given > 0) std::memcpy(to, values.data(), given * sizeof(T));
  return CUDNN_STATUS_SUCCESS;
}

// Descriptors that whoever asks has made: engine i of `from`, or all of them. Asked how many there
// are, a heuristic counts one that turns out to be none, as the real one does.
cudnnStatus_t fill(const DnnDescriptor& from, cudnnBackendDescriptorType_t type, int64_t most,
                   int64_t* count, void* to) {
  *count = std::ssize(from.engines);
  if (most == 0 && type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) ++*count;
  for (int64_t i = 0; i < std::min(most, *count); ++i) {
    DnnDescriptor* each = live_descriptor(static_cast<void**>(to)[i]);
    if (each == nullptr || each->type != type || each->final)
      return refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "no fresh descriptor of that type");
    each->follow(from);
    each->engines = {from.engines[static_cast<size_t>(i)]};
    each->needed = from.needed;
    each->final = true;
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

std::mutex& dnn_mutex() {
  static std::mutex mutex;
  return mutex;
}

cudnnStatus_t refuse(cudnnStatus_t status, const char* words) {
  last_words = words;
  return status;
}

const char* last_refusal() { return last_words; }

DnnDescriptor* make_descriptor(cudnnBackendDescriptorType_t type) {
  auto* made = new DnnDescriptor{type};
  living.insert(made);
  return made;
}

DnnDescriptor* live_descriptor(cudnnBackendDescriptor_t descriptor) {
  auto* found = static_cast<DnnDescriptor*>(descriptor);
  return living.contains(found) ? found : nullptr;
}

void destroy_descriptor(cudnnBackendDescriptor_t descriptor) {
  DnnDescriptor* found = live_descriptor(descriptor);
  if (found == nullptr) die("cuDNN: a descriptor is destroyed that is none");
  living.erase(found);
  delete found;
}

void check_needed(const DnnDescriptor& descriptor) {
  for (const DnnDescriptor* each : descriptor.needed)
    if (!living.contains(each)) die("cuDNN: a descriptor is gone that another was given");
}

cudnnStatus_t finalize(DnnDescriptor& d) {
  if (d.final) return refuse(CUDNN_STATUS_BAD_PARAM, "finalised twice");
  const cudnnStatus_t status = finalize_as_its_type(d);
  d.final = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t set_attribute(DnnDescriptor& d, Name name, Type type, int64_t count,
                            const void* values) {
  if (d.final) return refuse(CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is finalised");
  const auto rule = std::find_if(rules().begin(), rules().end(), [&](const Rule& each) {
    return each.of == d.type && each.name == name;
  });
  if (rule == rules().end()) return refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of it");
  if (rule->type != type) return refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "of another type");
  if (count < rule->least || count > rule->most)
    return refuse(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "too few values, or too many");
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const DnnDescriptor* given = live_descriptor(*static_cast<void* const*>(values));
    if (given == nullptr || !given->final)
      return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor that is not finalised");
    const bool fits = name == CUDNN_ATTR_OPERATIONGRAPH_OPS ? is_operation(given->type)
                                                            : given->type == rule->given;
    if (!fits)
      return refuse(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a descriptor of another type");
    d.needed.insert(given);
    d.needed.insert(given->needed.begin(), given->needed.end());
  }
  const auto* bytes = static_cast<const std::byte*>(values);
  d.values[name] = {bytes, bytes + static_cast<size_t>(count) * size_of(type)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get_attribute(const DnnDescriptor& d, Name name, Type type, int64_t most,
                            int64_t* count, void* values) {
  if (!d.final) return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "asked before it is finalised");
  check_needed(d);
  const auto is = [&](cudnnBackendDescriptorType_t of, Name wanted, Type as) {
    return d.type == of && name == wanted && type == as;
  };
  if (is(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_RESULTS,
         CUDNN_TYPE_BACKEND_DESCRIPTOR))
    return fill(d, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, most, count, values);
  if (is(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE,
         CUDNN_TYPE_BACKEND_DESCRIPTOR))
    return fill(d, CUDNN_BACKEND_ENGINE_DESCRIPTOR, most, count, values);
  if (is(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64))
    return answer(std::vector<int64_t>{d.engines[0]}, most, count, values);
  if (is(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
         CUDNN_TYPE_NUMERICAL_NOTE))
    return answer(dnn_engine(d.engines[0]).numbers, most, count, values);
  if (is(CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
         CUDNN_TYPE_BEHAVIOR_NOTE))
    return answer(dnn_engine(d.engines[0]).behavior, most, count, values);
  if (is(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
         CUDNN_TYPE_INT64))
    return answer(std::vector{dnn_workspace_bytes(d.engines[0], d.problem)}, most, count, values);
  return refuse(CUDNN_STATUS_BAD_PARAM, "no such thing can be asked of it");
}

}  // namespace kerf::tests
