// Every operator there is. A new one adds one line.
#include <map>

#include "ops/add.h"
#include "ops/conv.h"
#include "ops/dropout.h"
#include "ops/flatten.h"
#include "ops/gemm.h"
#include "ops/matmul.h"
#include "ops/operator.h"
#include "ops/pool.h"
#include "ops/relu.h"
#include "ops/reshape.h"
#include "ops/softmax.h"
#include "ops/softmax_cross_entropy.h"

namespace kerf::ops {
namespace {

using Registry = std::map<std::string, std::unique_ptr<const Operator>, std::less<>>;

Registry make_registry() {
  Registry registry;
  const auto add = [&](std::unique_ptr<const Operator> op) {
    std::string name(op->name());
    registry.emplace(std::move(name), std::move(op));
  };
  add(make_add());
  add(make_average_pool());
  add(make_conv());
  add(make_dropout());
  add(make_flatten());
  add(make_gemm());
  add(make_matmul());
  add(make_max_pool());
  add(make_relu());
  add(make_reshape());
  add(make_softmax());
  add(make_softmax_cross_entropy());
  return registry;
}

// Constant and stateless; built on first use.
const Registry& registry() {
  static const Registry all = make_registry();
  return all;
}

}  // namespace

const Operator& find_operator(const std::string& name) {
  const auto at = registry().find(name);
  if (at == registry().end())
    throw Error(ErrorCode::kUsage, format("unknown operator '{}'; known are {}", name,
                                          fmt::join(operator_names(), ", ")));
  return *at->second;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const auto& [name, op] : registry()) names.push_back(name);
  return names;
}

}  // namespace kerf::ops
