// Changes of ONNX models as messages, where changes of bytes seldom leave a message at all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace kerf::tests {

class ModelMutator {
 public:
  ModelMutator();
  ~ModelMutator();

  // Nodes of this model may come into others. What is no model teaches nothing.
  void learn(const std::string& bytes);
  // The model with one to four changes: of the fields of its messages, of its nodes, of names to
  // others that it has; with nodes that were learnt. Empty if it is no model. The same seed changes
  // in the same way.
  std::optional<std::string> changed(const std::string& bytes, uint64_t seed) const;

 private:
  struct Learnt;
  std::unique_ptr<Learnt> learnt_;
};

}  // namespace kerf::tests
