// one_thread_saves FOLDER: goes on from the checkpoint in the folder, if there is one, and takes
// the next in its place, as a run of two workers does; all in one thread, so that each call of the
// system has the same number in every run of it (tests/apps/failing_calls_test.py).
//
// Says "from N" once all that it goes on from is what was written. Exit codes: 0 the next is there,
// 3 it could not be written, and that was told; 1 an error of the environment, that is told; 2 it
// went on from something else.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string>

#include "runtime/crew.h"
#include "runtime/error.h"
#include "schedmp/encoded_program.h"
#include "schedmp/piece_writer.h"
#include "schedmp/snapshots.h"

namespace kerf::schedmp {
namespace {

constexpr int kSavingWorkers = 2;
constexpr int64_t kPieceBytes = 4'000;  // a third of what each holds

// What somebody holds before that round: no two alike.
std::string held_by(int who, int64_t round) {
  std::string bytes;
  for (int i = 0; bytes.size() < 3 * kPieceBytes; ++i)
    bytes += kerf::format("{} {} {}\n", who, round, i);
  return bytes.substr(0, 3 * kPieceBytes);
}

[[noreturn]] void throw_unasked(const char* what) {
  KERF_CHECK(false, "whoever saves asks for {}", what);
  std::abort();
}

struct SavingProgram final : public EncodedProgram {
  std::string name() const override { return "saves"; }
  Decision schedule(int64_t /*number*/) override { throw_unasked("tasks"); }
  void aggregate(int64_t /*number*/, std::vector<Result> /*results*/) override {
    throw_unasked("a sum of results");
  }
  bool keeps_state() const override { return true; }
  std::string snapshot() override { return held_by(kSavingWorkers, round); }
  void restore(std::string_view snapshot) override { restored = snapshot; }

  int64_t round = 0;
  std::string restored;
};

// Its workers do what they are told before send() returns.
class SavingCrew final : public runtime::Crew {
 public:
  explicit SavingCrew(const SavingProgram& program) : program_(program) {}

  void send(int worker, std::vector<std::string> tasks) override {
    for (const std::string& task : tasks)
      done_.push_back({worker, {answer(static_cast<size_t>(worker), task)}});
  }
  std::optional<runtime::CrewResults> next(runtime::Deadline /*deadline*/) override {
    runtime::CrewResults first = std::move(done_.front());
    done_.pop_front();
    return first;
  }
  std::vector<runtime::WorkerInfo> workers() const override {
    return std::vector<runtime::WorkerInfo>(kSavingWorkers);
  }
  void allow(const std::filesystem::path& /*folder*/, runtime::StoreAccess /*access*/) override {}
  const std::string& restored(size_t worker) const { return restored_.at(worker); }

  runtime::TransportKind transport_between(int, int) const override { throw_unasked("channels"); }
  void start(const std::string&, const std::vector<std::string>&, const runtime::LaneTable&,
             const runtime::LaneTable&) override {
    throw_unasked("a start");
  }
  std::optional<int> culprit() const override { throw_unasked("a culprit"); }
  bool can_restart() const override { throw_unasked("a restart"); }
  void restart(const Waiting&) override { throw_unasked("a restart"); }
  int here() const override { throw_unasked("a number of workers"); }
  std::vector<runtime::Returning> hand_over() override { throw_unasked("places"); }
  std::string kept_file(int, int) override { throw_unasked("files in memory"); }
  void stop() override {}
  void await(int /*all*/) override {}
  void interrupt() override {}
  std::string address() const override { throw_unasked("an address"); }
  runtime::ControlCounters counters() const override { throw_unasked("counters"); }

 private:
  std::string answer(size_t worker, std::string_view request) {
    const std::string_view what = request.substr(1);
    if (kind_of(request) == WorkerRequest::kRestore) {
      restored_.at(worker) = read_parts(store_, runtime::decode<std::vector<PlacedPart>>(what));
      return {};
    }
    KERF_CHECK(kind_of(request) == WorkerRequest::kSnapshot, "another request");
    const auto order = runtime::decode<SnapshotOrder>(what);
    PieceWriter writer(store_, order.file, order.most_bytes);
    write_pieces(held_by(static_cast<int>(worker), program_.round), writer);
    return runtime::encode(writer.finish());
  }

  const SavingProgram& program_;
  runtime::LocalStore store_;
  std::vector<std::string> restored_ = std::vector<std::string>(kSavingWorkers);
  std::deque<runtime::CrewResults> done_;
};

bool all_is_back(const SavingProgram& program, const SavingCrew& crew) {
  if (program.restored != held_by(kSavingWorkers, program.round)) return false;
  for (size_t worker = 0; worker < kSavingWorkers; ++worker)
    if (crew.restored(worker) != held_by(static_cast<int>(worker), program.round)) return false;
  return true;
}

int save_next(const std::filesystem::path& folder) {
  SnapshotOptions options{.folder = folder, .most_bytes = kPieceBytes};
  options.tell = [](const std::string& what) { std::fprintf(stderr, "%s\n", what.c_str()); };
  if (has_checkpoints(folder)) options.resume = folder;
  SavingProgram program;
  SavingCrew crew(program);
  Snapshots snapshots(options, program, crew, {"", ""});
  program.round = snapshots.resume();
  if (!options.resume.empty()) {
    snapshots.restore_workers();
    if (!all_is_back(program, crew)) return 2;
  }
  std::printf("from %lld\n", static_cast<long long>(program.round));
  std::fflush(stdout);
  ++program.round;
  return snapshots.take(program.round) ? 0 : 3;
}

}  // namespace
}  // namespace kerf::schedmp

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  try {
    return kerf::schedmp::save_next(argv[1]);
  } catch (const kerf::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
