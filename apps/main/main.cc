#include "apps/main/main.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>

#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/main/launched.h"
#include "apps/report/terminal.h"
#include "runtime/error.h"
#include "runtime/process.h"
#include "runtime/warden.h"

namespace kerf {

namespace apps {

int complain(const std::string& message, int code) {
  std::fflush(stdout);
  const std::string head = painted(format("{}: error:", runtime::program_name()), Ink::kRed,
                                   wants_colour(STDERR_FILENO));
  std::fprintf(stderr, "%s %s\n", head.c_str(), printable(readable(message)).c_str());
  return code;
}

namespace {

int usage_code() { return exit_code(ErrorCode::kUsage); }

extern "C" void on_end_of_first_process(int signal) { ::_exit(128 + signal); }

// The kernel has no default action for the first process of a container: Ctrl-C would do nothing
// but within a run.
void end_when_asked_as_first_process() {
  if (::getpid() != 1) return;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(signal, on_end_of_first_process) == SIG_IGN) std::signal(signal, SIG_IGN);
}

// What was printed may still be on its way: a full disk is noticed here or never. Without what it
// printed, no command has succeeded, nor said why it refutes something.
int finish(int code) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (written) return code;
  const int failed =
      complain(format("the standard output cannot be written{}{}", errno == 0 ? "" : ": ",
                      errno == 0 ? "" : std::strerror(errno)),
               exit_code(ErrorCode::kUnavailable));
  return std::max(code, failed);
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

void add_commands(CLI::App& app, const Executable& executable, Chosen& chosen) {
  app.require_subcommand(1);
  // A script's defaults can be overridden by what follows them.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  if (!executable.version.empty())
    app.set_version_flag("--version", app.get_name() + " " + executable.version);
  app.footer(executable.examples);
  for (const AddCommand& add : executable.commands) add(app, chosen);
  add_worker_command(app, chosen);
  refuse_empty_values(app);
}

// CLI11 tells some of them from behind.
std::string not_expected(const CLI::App& app, const CLI::ExtrasError& error) {
  std::string told = first_line(error.what());
  const size_t colon = told.find(": ");
  const std::vector<std::string> left = app.remaining(true);
  if (colon == std::string::npos || left.empty()) return told;
  return format("{}: {}", told.substr(0, colon), fmt::join(left, " "));
}

// Of `kerf keys`, which needs one of its own behind it; empty: there is one, or a flag.
std::string lacks_command(const CLI::App& app, int argc, char** argv) {
  const auto is_meant = [&](const CLI::App* each) { return each->get_name() == argv[1]; };
  const auto meant = app.get_subcommands(is_meant);
  if (meant.empty() || meant.front()->get_require_subcommand_min() == 0) return {};
  const std::vector<std::string> names = command_names(*meant.front());
  if (argc > 2 && (argv[2][0] == '-' || std::ranges::count(names, argv[2]) > 0)) return {};
  return format("{}: {} {}; {} {} --help explains them", argv[1],
                argc > 2 ? format("there is no \"{}\"; there are", argv[2]) : "name a command:",
                fmt::join(names, ", "), app.get_name(), argv[1]);
}

int parse_and_run(int argc, char** argv, const Executable& executable) {
  const std::string name = runtime::program_name();
  CLI::App app(executable.about, name);
  Chosen chosen{argc, argv, executable.programs};
  add_commands(app, executable, chosen);
  if (argc <= 1)
    return complain(format("name a command: {}; {} --help explains them",
                           fmt::join(command_names(app), ", "), name),
                    usage_code());
  if (argv[1][0] != '-' && std::ranges::count(command_names(app), argv[1]) == 0)
    return complain(
        format("there is no command \"{}\"; {} --help lists those there are", argv[1], name),
        usage_code());
  if (const std::string lacked = lacks_command(app, argc, argv); !lacked.empty())
    return complain(lacked, usage_code());
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return finish(app.exit(help));
  } catch (const CLI::ExtrasError& error) {
    return complain(not_expected(app, error), usage_code());
  } catch (const CLI::ParseError& error) {
    // CLI11 may add lines of advice; an error is one line.
    return complain(first_line(error.what()), usage_code());
  }
  if (const auto code = serve_if_launched(app)) return finish(*code);
  return finish(chosen.run());
}

}  // namespace

}  // namespace apps

int main(int argc, char** argv, const apps::Executable& executable) {
  using apps::complain;
  // A write beyond the limit on the size of files fails then, and is told; workers inherit this.
  std::signal(SIGXFSZ, SIG_IGN);
  apps::end_when_asked_as_first_process();
  try {
    if (const auto code = runtime::watch_if_warden(argc, argv)) return *code;
    return apps::parse_and_run(argc, argv, executable);
  } catch (const Error& error) {
    return complain(error.what(), exit_code(error.code()));
  } catch (const std::filesystem::filesystem_error& error) {
    return complain(format("{}: {}", error.path1().string(), error.code().message()),
                    exit_code(ErrorCode::kUnavailable));
  } catch (const std::bad_alloc&) {
    return complain("this process gets no more memory", exit_code(ErrorCode::kUnavailable));
  } catch (const std::exception& error) {
    return complain(format("bug: {}", error.what()), exit_code(ErrorCode::kInternal));
  }
}

}  // namespace kerf
