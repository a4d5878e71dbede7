#include "schedmp/program.h"

#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

// A worker's instance of a program, behind the interface that the floor below calls.
class ProgramHandler : public runtime::Handler {
 public:
  explicit ProgramHandler(std::unique_ptr<Program> program) : program_(std::move(program)) {}
  void start(runtime::Workplace& workplace, std::string_view job) override {
    program_->start(workplace, job);
  }
  std::string update(std::string_view task) override { return program_->update(task); }

 private:
  std::unique_ptr<Program> program_;
};

}  // namespace

LaneTable Program::lanes(int workers) const {
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
    return std::make_unique<ProgramHandler>(found->second());
  };
}

}  // namespace kerf::schedmp
