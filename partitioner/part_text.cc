#include "partitioner/part.h"

namespace kerf::partitioner {
namespace {

using Kind = Instruction::Kind;

class PartWriter {
 public:
  PartWriter(const Model& model, const Plan& plan, const Part& part)
      : model_(model), plan_(plan), part_(part) {}

  std::string text() const {
    std::string text = format("worker {}\n", part_.worker);
    for (const StagePart& stage : part_.stages) {
      text += format("stage {}\n", stage.stage);
      text += lines("F", stage.forward) + lines("I", stage.input_gradient) +
              lines("W", stage.weight_gradient) + lines("U", stage.update);
    }
    return text;
  }

 private:
  // "d(fc1.output)[all, 0-4]": gradients in d(), boxes where they are not the whole.
  std::string name(int local) const {
    if (local < 0) return "1";
    const Local& l = part_.locals[static_cast<size_t>(local)];
    const bool gradient = l.kind == LocalKind::kGradient || l.kind == LocalKind::kParameterGradient;
    const std::string& value = model_.value(l.value).name;
    return format("{}{}", gradient ? format("d({})", value) : value,
                  l.box.is_whole() ? "" : ops::to_string(l.box));
  }
  // The same with where it lives, if it is borrowed.
  std::string placed(int local) const {
    switch (part_.locals[static_cast<size_t>(local)].storage) {
      case Storage::kReceived:
        return name(local) + " in place";
      case Storage::kSent:
        return name(local) + " in its slot";
      case Storage::kAlias:
      case Storage::kOwn:
        return name(local);
    }
    return name(local);
  }
  template <class Range, class Name>
  static std::string join(const Range& range, Name name_of) {
    std::string text;
    for (const auto& element : range) text += (text.empty() ? "" : ", ") + name_of(element);
    return text;
  }
  int peer(int route, bool sender) const {
    const Route& r = plan_.routes[static_cast<size_t>(route)];
    return plan_.binding[static_cast<size_t>(sender ? r.to : r.from)];
  }

  std::string call_text(const Instruction& i) const {
    const LocalCall& call = part_.calls[static_cast<size_t>(i.call)];
    const Node& node = model_.node(call.node);
    const auto local = [&](int l) { return name(l); };
    if (i.kind == Kind::kForward)
      return format("{} = {}({})", join(call.outputs, local), node.op, join(call.inputs, local));
    return format("{} = gradient of {}({})",
                  join(i.targets, [&](const auto& t) { return name(t.local); }), node.name,
                  join(call.output_gradients, local));
  }
  std::string moves_text(const Instruction& i) const {
    if (i.moves.empty()) return placed(i.local);
    return join(i.moves, [&](const Move& m) {
      return format("{}{}{}", m.add ? "+= " : "", name(m.local),
                    m.region.everything() ? "" : " (a piece)");
    });
  }

  std::string line(const Instruction& i) const {
    switch (i.kind) {
      case Kind::kForward:
      case Kind::kGradient:
        return call_text(i);
      case Kind::kSend:
        return format("send {} -> {}", moves_text(i), peer(i.route, true));
      case Kind::kReceive:
        return format("receive {} <- {}", moves_text(i), peer(i.route, false));
      case Kind::kCopy:
        return format("{} {} {}", name(i.moves[1].local), i.moves[1].add ? "+=" : "=",
                      name(i.moves[0].local));
      case Kind::kZero:
        return format("{} = 0", name(i.local));
      case Kind::kFree:
        return format("free {}", name(i.local));
      case Kind::kFreeSaved:
        return format("free what {} saved",
                      model_.node(part_.calls[static_cast<size_t>(i.call)].node).name);
      case Kind::kUpdate:
        return format("update {}", name(i.local));
    }
    return {};
  }
  std::string lines(const char* phase, const std::vector<Instruction>& list) const {
    std::string text;
    for (const Instruction& i : list) text += format("{}  {}\n", phase, line(i));
    return text;
  }

  const Model& model_;
  const Plan& plan_;
  const Part& part_;
};

}  // namespace

std::string describe(const Model& model, const Plan& plan, const Part& part) {
  return PartWriter(model, plan, part).text();
}

}  // namespace kerf::partitioner
