// The documents of one worker: its own, and some to measure its pace with. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "apps/data/corpus.h"
#include "apps/lda/lda_messages.h"

namespace kerf::apps {

// Those that the task of kRead tells, of so many words. Throws Error{kUsage} that names the file
// where it is not as the scheduler saw it.
Corpus own_documents(const std::string& file, int64_t words, const LdaTask& task,
                     const Working& working);

// Some short ones, the same at all workers, of these words.
Corpus sample_of_documents(std::span<const int32_t> words);

}  // namespace kerf::apps
