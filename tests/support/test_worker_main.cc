#include "tests/support/test_worker.h"

int main(int argc, char** argv) { return kerf::tests::run_test_worker(argc, argv); }
