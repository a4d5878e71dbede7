// kerf: one command, one subcommand per thing that a person does.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>

#include "apps/kerf/commands.h"
#include "apps/kerf/flag_values.h"
#include "apps/report/terminal.h"
#include "runtime/error.h"

namespace kerf::apps {

int complain(const std::string& message, int code) {
  std::fflush(stdout);
  const std::string head = painted("kerf: error:", Ink::kRed, wants_colour(2));
  std::fprintf(stderr, "%s %s\n", head.c_str(), printable(readable(message)).c_str());
  return code;
}

namespace {

// What was printed may still be on its way: a full disk is noticed here or never.
int finish(int code) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (written || code != 0) return code;
  return complain(format("the standard output cannot be written{}{}", errno == 0 ? "" : ": ",
                         errno == 0 ? "" : std::strerror(errno)),
                  1);
}

// CLI11 may add lines of advice; an error is one line.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app(
      "Kerf cuts a model into parts, runs the parts on many workers as if it were still one "
      "model, and tells beforehand what each cut will cost.",
      "kerf");
  app.set_version_flag("--version", "kerf " KERF_VERSION);
  app.require_subcommand(1);
  // A script's defaults can be overridden by what follows them.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.footer(
      "Examples:\n"
      "  kerf train                                 LeNet-5 on Fashion-MNIST, three workers\n"
      "  kerf plan mlp --cut feature --workers 4    what a cut would cost\n"
      "  kerf schedule 1f1b --workers 4 --micro-batches 8");
  Chosen chosen{argc, argv, {}};
  add_plan_command(app, chosen);
  add_compare_command(app, chosen);
  add_profile_command(app, chosen);
  add_train_command(app, chosen);
  add_infer_command(app, chosen);
  add_export_command(app, chosen);
  add_eval_command(app, chosen);
  add_lasso_command(app, chosen);
  add_mf_command(app, chosen);
  add_run_command(app, chosen);
  add_report_command(app, chosen);
  add_worker_command(app, chosen);
  add_schedule_command(app, chosen);
  add_bench_command(app, chosen);
  add_devices_command(app, chosen);
  add_data_command(app, chosen);
  add_models_command(app, chosen);
  refuse_empty_values(app);
  if (argc == 1)
    return complain(format("name a command: {}; kerf --help explains them",
                           fmt::join(command_names(app), ", ")),
                    exit_code(ErrorCode::kUsage));
  if (argv[1][0] != '-' && std::ranges::count(command_names(app), argv[1]) == 0)
    return complain(
        format("there is no command \"{}\"; kerf --help lists those there are", argv[1]),
        exit_code(ErrorCode::kUsage));
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return finish(app.exit(help));
  } catch (const CLI::ParseError& error) {
    return complain(first_line(error.what()), exit_code(ErrorCode::kUsage));
  }
  return finish(chosen.run());
}

int main_with_errors(int argc, char** argv) {
  // A write beyond the limit on the size of files fails then, and is told; workers inherit this.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return parse_and_run(argc, argv);
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

}  // namespace

}  // namespace kerf::apps

int main(int argc, char** argv) { return kerf::apps::main_with_errors(argc, argv); }
