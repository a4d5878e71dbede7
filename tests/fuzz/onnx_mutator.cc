#include "tests/fuzz/onnx_mutator.h"

#include <google/protobuf/descriptor.h>
#include <onnx/onnx_pb.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace kerf::tests {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMostLearnt = 4000;

using Nodes = std::vector<onnx::NodeProto>;

class ModelChanger {
 public:
  ModelChanger(onnx::ModelProto& model, const Nodes& others, uint64_t seed)
      : model_(model), others_(others), random_(seed) {
    for (const auto& input : model.graph().input()) names_.push_back(input.name());
    for (const auto& weight : model.graph().initializer()) names_.push_back(weight.name());
    for (const auto& node : model.graph().node())
      names_.insert(names_.end(), node.output().begin(), node.output().end());
  }

  void change() {
    for (size_t changes = 1 + below(4); changes > 0; --changes) {
      const size_t kind = below(8);
      if (kind == 0)
        add_node();
      else if (kind == 1)
        change_version();
      else if (kind <= 4)
        change_node();
      else
        change_message();
    }
  }

 private:
  size_t below(size_t bound) { return random_() % bound; }
  std::string any_name() { return names_.empty() ? "x" : names_[below(names_.size())]; }

  // One of another model, between two values of this one.
  void add_node() {
    if (others_.empty()) return;
    onnx::NodeProto node = others_[below(others_.size())];
    for (std::string& input : *node.mutable_input())
      if (!input.empty()) input = any_name();
    const std::string made = "made" + std::to_string(model_.graph().node_size());
    for (int i = 0; i < node.output_size(); ++i)
      if (!node.output(i).empty()) node.set_output(i, made + (i == 0 ? "" : std::to_string(i)));
    node.clear_name();
    if (model_.graph().node_size() > 0 && node.output_size() > 0) {
      auto& reader = *model_.mutable_graph()->mutable_node(
          static_cast<int>(below(static_cast<size_t>(model_.graph().node_size()))));
      if (reader.input_size() > 0)
        reader.set_input(static_cast<int>(below(static_cast<size_t>(reader.input_size()))),
                         node.output(0));
    }
    *model_.mutable_graph()->add_node() = node;
  }

  void change_version() {
    if (model_.opset_import_size() > 0)
      model_.mutable_opset_import(0)->set_version(static_cast<int64_t>(1 + below(28)));
  }

  // Its operator, or what it reads.
  void change_node() {
    if (model_.graph().node_size() == 0) return;
    auto& node = *model_.mutable_graph()->mutable_node(
        static_cast<int>(below(static_cast<size_t>(model_.graph().node_size()))));
    const size_t kind = below(4);
    if (kind == 0 && !others_.empty())
      node.set_op_type(others_[below(others_.size())].op_type());
    else if (kind == 1)
      node.add_input(any_name());
    else if (kind == 2 && !others_.empty()) {
      const auto& other = others_[below(others_.size())];
      if (other.attribute_size() > 0)
        *node.add_attribute() =
            other.attribute(static_cast<int>(below(static_cast<size_t>(other.attribute_size()))));
    } else if (node.input_size() > 0) {
      node.set_input(static_cast<int>(below(static_cast<size_t>(node.input_size()))), any_name());
    }
  }

  // Any field of any message within the model.
  void change_message() {
    std::vector<Message*> messages;
    collect(model_, messages);
    Message& message = *messages[below(messages.size())];
    std::vector<const FieldDescriptor*> fields;
    const Reflection& reflection = *message.GetReflection();
    reflection.ListFields(message, &fields);
    if (fields.empty()) return;
    const FieldDescriptor& field = *fields[below(fields.size())];
    if (field.is_repeated())
      change_list(message, reflection, field);
    else if (below(8) == 0)
      reflection.ClearField(&message, &field);
    else
      change_value(message, reflection, field, -1);
  }

  static void collect(Message& message, std::vector<Message*>& to) {
    to.push_back(&message);
    std::vector<const FieldDescriptor*> fields;
    const Reflection& reflection = *message.GetReflection();
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      if (!field->is_repeated()) {
        collect(*reflection.MutableMessage(&message, field), to);
        continue;
      }
      for (int i = 0; i < reflection.FieldSize(message, field); ++i)
        collect(*reflection.MutableRepeatedMessage(&message, field, i), to);
    }
  }

  void change_list(Message& message, const Reflection& reflection, const FieldDescriptor& field) {
    const auto size = static_cast<size_t>(reflection.FieldSize(message, &field));
    const int at = static_cast<int>(below(size));
    const int last = static_cast<int>(size) - 1;
    switch (below(4)) {
      case 0:
        reflection.SwapElements(&message, &field, at, last);
        reflection.RemoveLast(&message, &field);
        break;
      case 1:
        reflection.SwapElements(&message, &field, at, last);
        break;
      case 2:
        if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
          reflection.AddMessage(&message, &field)
              ->CopyFrom(reflection.GetRepeatedMessage(message, &field, at));
        else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64)
          reflection.AddInt64(&message, &field, integer(0));
        else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING)
          reflection.AddString(&message, &field, any_name());
        break;
      default:
        change_value(message, reflection, field, at);
    }
  }

  int64_t integer(int64_t was) {
    constexpr std::array<int64_t, 12> kTelling{0,
                                               1,
                                               -1,
                                               2,
                                               -2,
                                               3,
                                               255,
                                               1 << 16,
                                               int64_t{1} << 31,
                                               int64_t{1} << 40,
                                               std::numeric_limits<int64_t>::max(),
                                               std::numeric_limits<int64_t>::min()};
    const size_t kind = below(4);
    if (kind == 0) return kTelling[below(kTelling.size())];
    if (kind == 1) return static_cast<int64_t>(below(24));
    return static_cast<int64_t>(static_cast<uint64_t>(was) + (kind == 2 ? 1 : UINT64_MAX));
  }

  // Element `at` of a list; -1: the field's one value.
  void change_value(Message& message, const Reflection& of, const FieldDescriptor& field, int at) {
    const auto set = [&](auto get, auto set_one, auto get_at, auto set_at, const auto& changed) {
      if (at < 0)
        (of.*set_one)(&message, &field, changed((of.*get)(message, &field)));
      else
        (of.*set_at)(&message, &field, at, changed((of.*get_at)(message, &field, at)));
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT64:
        return set(&Reflection::GetInt64, &Reflection::SetInt64, &Reflection::GetRepeatedInt64,
                   &Reflection::SetRepeatedInt64, [&](int64_t was) { return integer(was); });
      case FieldDescriptor::CPPTYPE_INT32:
        return set(&Reflection::GetInt32, &Reflection::SetInt32, &Reflection::GetRepeatedInt32,
                   &Reflection::SetRepeatedInt32,
                   [&](int32_t was) { return static_cast<int32_t>(integer(was)); });
      case FieldDescriptor::CPPTYPE_FLOAT:
        return set(&Reflection::GetFloat, &Reflection::SetFloat, &Reflection::GetRepeatedFloat,
                   &Reflection::SetRepeatedFloat, [&](float was) {
                     constexpr std::array<float, 6> kTelling{0, -1, 1e38F, -1e38F, 1e-38F, NAN};
                     return below(2) == 0 ? was * 2 : kTelling[below(kTelling.size())];
                   });
      case FieldDescriptor::CPPTYPE_ENUM:
        if (at < 0) of.SetEnumValue(&message, &field, static_cast<int>(below(24)));
        return;
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string text =
            at < 0 ? of.GetString(message, &field) : of.GetRepeatedString(message, &field, at);
        if (below(2) == 0)
          text = any_name();
        else if (!text.empty() && below(2) == 0)
          text[below(text.size())] = static_cast<char>(below(256));
        else if (below(2) == 0)
          text.resize(below(text.size() + 1));
        else
          text += text;
        if (at < 0)
          of.SetString(&message, &field, text);
        else
          of.SetRepeatedString(&message, &field, at, text);
        return;
      }
      default:
        return;
    }
  }

  onnx::ModelProto& model_;
  const Nodes& others_;
  std::mt19937_64 random_;
  std::vector<std::string> names_;
};

}  // namespace

struct ModelMutator::Learnt {
  Nodes nodes;
  size_t next = 0;  // that a new one takes the place of, once there are many
};

ModelMutator::ModelMutator() : learnt_(std::make_unique<Learnt>()) {}
ModelMutator::~ModelMutator() = default;

void ModelMutator::learn(const std::string& bytes) {
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes)) return;
  for (const auto& node : model.graph().node()) {
    if (learnt_->nodes.size() < kMostLearnt)
      learnt_->nodes.push_back(node);
    else
      learnt_->nodes[learnt_->next++ % kMostLearnt] = node;
  }
}

std::optional<std::string> ModelMutator::changed(const std::string& bytes, uint64_t seed) const {
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes) || !model.has_graph()) return std::nullopt;
  ModelChanger(model, learnt_->nodes, seed).change();
  return model.SerializeAsString();
}

}  // namespace kerf::tests
