// The subcommands of kerf, one file each.
#pragma once

#include "apps/main/command.h"

namespace kerf::apps {

void add_plan_command(CLI::App& app, Chosen& chosen);
void add_compare_command(CLI::App& app, Chosen& chosen);
void add_profile_command(CLI::App& app, Chosen& chosen);
void add_train_command(CLI::App& app, Chosen& chosen);
void add_eval_command(CLI::App& app, Chosen& chosen);
void add_checkpoint_command(CLI::App& app, Chosen& chosen);
void add_export_command(CLI::App& app, Chosen& chosen);
void add_infer_command(CLI::App& app, Chosen& chosen);
void add_lasso_command(CLI::App& app, Chosen& chosen);
void add_lda_command(CLI::App& app, Chosen& chosen);
void add_logistic_command(CLI::App& app, Chosen& chosen);
void add_mf_command(CLI::App& app, Chosen& chosen);
void add_svm_command(CLI::App& app, Chosen& chosen);
void add_predict_command(CLI::App& app, Chosen& chosen);
void add_run_command(CLI::App& app, Chosen& chosen);
void add_report_command(CLI::App& app, Chosen& chosen);
void add_schedule_command(CLI::App& app, Chosen& chosen);
void add_bench_command(CLI::App& app, Chosen& chosen);
void add_devices_command(CLI::App& app, Chosen& chosen);
void add_data_command(CLI::App& app, Chosen& chosen);
void add_keys_command(CLI::App& app, Chosen& chosen);
void add_models_command(CLI::App& app, Chosen& chosen);

}  // namespace kerf::apps
