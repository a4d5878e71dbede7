#include "apps/lda/document_topics.h"

namespace kerf::apps {

DocumentTopics::DocumentTopics(const std::vector<int64_t>& lengths, int topics)
    : sizes_(lengths.size()) {
  int64_t places = 0;
  for (const int64_t length : lengths) {
    begins_.push_back(places);
    places += whole_lanes(std::min<int64_t>(length, topics));
  }
  topics_.resize(static_cast<size_t>(places));
  counts_.resize(static_cast<size_t>(places));
}

}  // namespace kerf::apps
