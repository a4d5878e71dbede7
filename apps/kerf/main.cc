// kerf: one command, one subcommand per thing that a person does.
#include "apps/main/main.h"

#include "apps/kerf/commands.h"
#include "apps/programs.h"

int main(int argc, char** argv) {
  using namespace kerf::apps;
  return kerf::main(
      argc, argv,
      {.about =
           "Kerf cuts a model into parts, runs the parts on many workers as if it were still one "
           "model, and tells beforehand what each cut will cost.",
       .version = KERF_VERSION,
       .examples =
           "Examples:\n"
           "  kerf train                                 LeNet-5 on Fashion-MNIST, three workers\n"
           "  kerf plan mlp --cut feature --workers 4    what a cut would cost\n"
           "  kerf schedule 1f1b --workers 4 --micro-batches 8",
       .commands = {add_plan_command,      add_compare_command, add_profile_command,
                    add_train_command,     add_infer_command,   add_export_command,
                    add_eval_command,      add_lasso_command,   add_lda_command,
                    add_logistic_command,  add_svm_command,     add_predict_command,
                    add_mf_command,        add_run_command,     add_report_command,
                    add_schedule_command,  add_bench_command,   add_devices_command,
                    add_data_command,      add_models_command,  add_keys_command,
                    add_checkpoint_command},
       .programs = program_factories()});
}
