#include "partitioner/part.h"

namespace kerf::partitioner {
namespace {

using Kind = Instruction::Kind;

class PartWriter {
 public:
  PartWriter(const Model& model, const Plan& plan, const Part& part)
      : model_(model), plan_(plan), part_(part) {}

  std::string text() const {
    return format("part {} of stage {} on worker {}\n", part_.part, part_.stage, part_.worker) +
           lines("F", part_.forward) + lines("I", part_.input_gradient) +
           lines("W", part_.weight_gradient) + lines("B", part_.backward) +
           lines("K", part_.checkpointed_forward) + lines("A", part_.recompute) +
           lines("P", part_.apply) + lines("C", part_.contribute) + lines("S", part_.reduce) +
           lines("V", part_.conclude) + lines("U", part_.update) + lines("R", part_.fetch);
  }

 private:
  // "d(fc1.output)[all, 0-4]": gradients in d(), boxes where they are not the whole.
  std::string name(int local) const {
    if (local < 0) return "1";
    if (local == part_.step_share) return "the step's share";
    if (local == part_.step_result) return "the step's result";
    const Local& l = part_.locals[static_cast<size_t>(local)];
    const bool gradient = l.kind == LocalKind::kGradient ||
                          l.kind == LocalKind::kParameterGradient ||
                          l.kind == LocalKind::kHomeGradient;
    const std::string& value = model_.value(l.value).name;
    return format("{}{}{}", l.kind == LocalKind::kHome ? "home of " : "",
                  gradient ? format("d({})", value) : value,
                  l.box.is_whole() ? "" : ops::to_string(l.box));
  }
  // The same with where it lives, if it is borrowed.
  std::string placed(int local) const {
    switch (part_.locals[static_cast<size_t>(root_of(part_, local))].storage) {
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
      return format("{} = {}({}){}", join(call.outputs, local), node.op, join(call.inputs, local),
                    part_.locals[static_cast<size_t>(call.outputs[0])].storage == Storage::kAlias
                        ? " in place"
                        : "");
    return format("{} = gradient of {}({})",
                  join(i.targets, [&](const auto& t) { return name(t.local); }), node.name,
                  join(call.output_gradients, local));
  }
  std::string moves_text(const Instruction& i) const {
    if (i.moves.empty()) return placed(i.local);
    return join(i.moves, [&](const Move& m) {
      return format("{}{}{}", m.add ? "+= " : "", name(m.local), m.whole ? "" : " (a piece)");
    });
  }

  std::string line(const Instruction& i) const {
    switch (i.kind) {
      case Kind::kForward:
      case Kind::kGradient:
        return call_text(i);
      case Kind::kSend:
        return format("send {}{} -> {}", moves_text(i), i.retained ? ", retained" : "",
                      peer(i.route, true));
      case Kind::kReceive:
        return format("receive {} <- {}", moves_text(i), peer(i.route, false));
      case Kind::kCopy:
        return format("{} {} {}", name(i.moves[1].local), i.moves[1].add ? "+=" : "=",
                      name(i.moves[0].local));
      case Kind::kZero:
        return format("{} = 0", name(i.local));
      case Kind::kTake:
        return format("take {}", words(i.region));
      case Kind::kGive:
        return format("give {}", words(i.region));
      case Kind::kRead:
        return format("read {}", name(i.local));
      case Kind::kLoss:
        return format("report {}", name(part_.calls[static_cast<size_t>(i.call)].outputs[0]));
      case Kind::kWrite:
        return format("write {}", name(i.local));
      case Kind::kAcquire:
        return format("acquire a slot -> {}", peer(i.route, true));
      case Kind::kRetire:
        return format("retire {} -> {}", name(i.local), peer(i.route, true));
      case Kind::kRelease:
        return format("release {} <- {}",
                      name_of(model_, plan_.routes[static_cast<size_t>(i.route)]),
                      peer(i.route, false));
      case Kind::kMeasure:
        return format("measure {}", name(i.local));
      case Kind::kConclude:
        return format("{} from {}", name(i.other), name(i.local));
      case Kind::kUpdate:
        return format("update {}", name(i.local));
      case Kind::kUpdateState:
        return format("update {} by {}", name(i.local), name(i.other));
      case Kind::kClear:
        return format("{} counts as 0", name(i.local));
    }
    return {};
  }
  static const char* words(RegionKind region) {
    switch (region) {
      case RegionKind::kKept:
        return "what I reads";
      case RegionKind::kKeptForWeights:
        return "what W reads";
      case RegionKind::kHanded:
        return "what I hands to W";
      case RegionKind::kEntered:
        return "what is unpacked and read again";
      case RegionKind::kTransient:
        return "what is transient";
    }
    return "";
  }
  std::string lines(const char* phase, const InstructionList& list) const {
    std::string text;
    for (const Instruction& i : list.instructions) text += format("{}  {}\n", phase, line(i));
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
