// The worker's side of a process: flags, identity, and one run.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "ops/arithmetic.h"
#include "runtime/crc32c.h"
#include "runtime/error.h"
#include "runtime/keeper.h"
#include "runtime/process.h"
#include "runtime/regular_file.h"
#include "runtime/unanswered.h"
#include "runtime/wire.h"
#include "schedmp/scheduler.h"

namespace kerf::schedmp {

namespace {

// Piece by piece: freed whole, so large a block would have the heap keep as much of whatever is
// freed later.
uint32_t checksum_of_this_program() {
  constexpr size_t kPiece = size_t{64} << 10;
  const runtime::RegularFile file(runtime::kThisProgram);
  std::vector<char> piece(kPiece);
  uint32_t sum = 0;
  for (uint64_t done = 0; done < file.bytes(); done += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(kPiece, file.bytes() - done)));
    file.read(done, std::as_writable_bytes(std::span(piece)), ErrorCode::kUnavailable);
    sum = runtime::extend_crc32c(sum, {piece.data(), piece.size()});
  }
  return sum;
}

int parse_index(const std::string& text) {
  size_t used = 0;
  int index = -1;
  try {
    index = std::stoi(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != text.size() || index < 0)
    throw Error(ErrorCode::kUsage, kerf::format("--index takes a worker number, not '{}'", text));
  return index;
}

runtime::WorkerOptions parse_flags(int argc, char** argv) {
  runtime::WorkerOptions options;
  for (int i = 2; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag != "--connect" && flag != "--keys" && flag != "--index" && flag != "--device")
      throw Error(ErrorCode::kUsage,
                  kerf::format("a worker takes --connect ADDRESS, --keys DIR, --index N and "
                               "--device NAME, not '{}'",
                               flag));
    if (i + 1 >= argc) throw Error(ErrorCode::kUsage, kerf::format("{} needs a value", flag));
    const std::string value = argv[i + 1];
    if (flag == "--connect")
      options.scheduler = value;
    else if (flag == "--keys")
      options.keys = value;
    else if (flag == "--index")
      options.index = parse_index(value);
    else
      options.device = value;
  }
  if (options.scheduler.empty()) throw Error(ErrorCode::kUsage, "a worker needs --connect ADDRESS");
  return options;
}

void tell(const std::string& what) {
  std::fprintf(stderr, "%s worker: %s\n", runtime::program_name().c_str(), what.c_str());
}

int report(const Error& error) {
  tell(kerf::format("error: {}", error.what()));
  return exit_code(error.code());
}

int end_of(const Error& error, int keeper) {
  report(error);
  return runtime::end_of_worker(error, keeper);
}

}  // namespace

runtime::Identity identity() {
  return {kerf::format("protocol {}, executable {:08x}", runtime::kProtocol,
                       checksum_of_this_program()),
          ops::arithmetic_identity()};
}

int serve(const runtime::WorkerOptions& options, const ProgramFactories& programs) {
  try {
    if (options.keeper != 0) runtime::end_with(options.keeper);
    runtime::WorkerOptions full = options;
    full.identity = identity();
    // A computation that does not come back must not keep the process when the run is over.
    full.give_up = [keeper = options.keeper](const Error& error, bool known) {
      std::_Exit(known ? exit_code(error.code()) : end_of(error, keeper));
    };
    const auto control = runtime::make_control_client(
        options.scheduler, options.keys, {.patience = options.join_timeout, .tell = tell});
    const auto told = runtime::run_worker(full, *control, handlers_of(programs));
    return told ? exit_code(told->code()) : 0;
  } catch (const Error& error) {
    return end_of(error, options.keeper);
  } catch (const std::exception& error) {
    return report(Error(ErrorCode::kInternal, error.what()));
  }
}

std::optional<int> serve_if_worker(int argc, char** argv, const ProgramFactories& programs) {
  if (argc < 2 || std::string_view(argv[1]) != "worker") return std::nullopt;
  try {
    runtime::set_process_title(argc, argv, runtime::program_name() + " worker");
    runtime::WorkerOptions options = parse_flags(argc, argv);
    options.again = [=] { runtime::begin_process_again(argc, argv); };
    return serve(options, programs);
  } catch (const Error& error) {
    return report(error);
  }
}

}  // namespace kerf::schedmp
