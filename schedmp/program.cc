#include "schedmp/program.h"

#include "runtime/error.h"
#include "schedmp/encoded_program.h"

namespace kerf::schedmp {

LaneTable no_lanes(int workers) {
  const auto count = static_cast<size_t>(workers);
  return LaneTable(count, std::vector<std::vector<runtime::Lane>>(count));
}

runtime::HandlerFactory handlers_of(const ProgramFactories& programs) {
  return [programs](const std::string& name) -> std::unique_ptr<runtime::Handler> {
    const auto found = programs.find(name);
    if (found == programs.end()) {
      std::vector<std::string> known;
      for (const auto& [program, factory] : programs) known.push_back(program);
      throw Error(ErrorCode::kUsage, kerf::format("this worker has no program '{}'; it has {}",
                                                  name, fmt::join(known, ", ")));
    }
    return found->second();
  };
}

uint32_t signature_of(std::initializer_list<const std::type_info*> types) {
  std::string names;
  for (const std::type_info* type : types) names += kerf::format("{} ", type->name());
  return runtime::crc32c(names);
}

WorkerRequest kind_of(std::string_view request) {
  const auto kind = request.empty() ? WorkerRequest{} : static_cast<WorkerRequest>(request[0]);
  switch (kind) {
    case WorkerRequest::kUpdate:
    case WorkerRequest::kTraced:
    case WorkerRequest::kSnapshot:
    case WorkerRequest::kCommit:
    case WorkerRequest::kRestore:
    case WorkerRequest::kLoad:
      return kind;
  }
  throw Error(ErrorCode::kProtocol, "the scheduler asked for what no worker does");
}

runtime::Span update_span(int64_t round) {
  return {.name = kerf::format("update {}", round),
          .kind = runtime::Span::Kind::kCompute,
          .lane = runtime::TraceRow::kActions,
          .begin_ns = runtime::now_ns(),
          .step = round};
}

void check_signature(std::string_view job, uint32_t signature) {
  if (job.size() >= sizeof(signature) &&
      runtime::decode<uint32_t>(job.substr(0, sizeof(signature))) == signature)
    return;
  throw Error(ErrorCode::kUsage,
              "the scheduler's half of this program has other messages than the workers' half that "
              "is registered under its name");
}

}  // namespace kerf::schedmp
