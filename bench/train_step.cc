// The kernels' own training step, hand-chained: `train_step lenet5|mlp [steps] [--profile]` prints,
// per step, its milliseconds and its loss; then the time per operator and phase.
// bench/peer_torch.py prints PyTorch's.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "bench/chain.h"
#include "runtime/time.h"

int main(int argc, char** argv) {
  using namespace kerf;
  const std::string_view model = argc > 1 ? argv[1] : "lenet5";
  const int steps = argc > 2 ? std::atoi(argv[2]) : 11;
  const bool profile = argc > 3 && std::string_view(argv[3]) == "--profile";
  const auto device = runtime::make_cpu_device();
  const bool lenet = model == "lenet5";
  bench::Chain chain(*device,
                     lenet ? bench::lenet5_links() : bench::mlp_links({784, 4096, 4096, 10}),
                     lenet ? ops::Shape{256, 28, 28, 1} : ops::Shape{256, 784}, 10);
  for (int i = 0; i < steps; ++i) {
    const int64_t begin = runtime::now_ns();
    const float loss = chain.step();
    std::printf("%.3f %.5f\n", static_cast<double>(runtime::now_ns() - begin) * 1e-6,
                static_cast<double>(loss));
    std::fflush(stdout);
  }
  if (profile) std::fputs(chain.profile().c_str(), stdout);
}
