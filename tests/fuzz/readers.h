// Every reader of what comes from outside, over bytes in memory: what the fuzz targets call. Each
// takes them or throws Error{kUsage}, or of the wire Error{kProtocol}; anything else is a fault.
#pragma once

#include <string>

#include "tests/apps/file_readers.h"

namespace kerf::tests {

void read_idx_file(const std::string& bytes);  // as images, and as labels
void read_onnx(const std::string& bytes);
void read_tensors(const std::string& bytes);  // safetensors
void read_text_rows(const std::string& bytes);
void read_plan_text(const std::string& bytes);  // of fuzzed_model()
void read_schedule_text(const std::string& bytes);
void read_wire(const std::string& bytes);

// The sound files that fuzzing begins with, as FOLDER/TARGET/NAME; `tests` is the folder tests/.
void write_seeds(const std::string& folder, const std::string& tests);

}  // namespace kerf::tests
