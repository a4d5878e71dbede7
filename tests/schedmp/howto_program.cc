// The program of docs/howto/write-a-program.md, compiled from its text: two worker processes count.
#include <cstdio>

#include "runtime/crew.h"
#include "runtime/error.h"
#include "schedmp/scheduler.h"

namespace {

#include "howto_class.inc"

int howto_main(int argc, char** argv) {
#include "howto_main.inc"
  std::printf("counted to %lld\n", static_cast<long long>(count.total()));
  return count.total() == 2 * 2 * 45 ? 0 : 1;  // of both workers, twice the sum of 0 to 9
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return howto_main(argc, argv);
  } catch (const kerf::Error& error) {
    std::fprintf(stderr, "howto_program: error: %s\n", error.what());
    return 1;
  }
}
