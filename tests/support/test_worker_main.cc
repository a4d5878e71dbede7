#include "tests/support/test_worker.h"

int main(int argc, char** argv) { return kerf::test::run_test_worker(argc, argv); }
