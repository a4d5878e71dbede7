// What networks of colour images are built of: the Builder with the options of the zoo, and the
// layers that the literature's networks share. Used by one thread.
#pragma once

#include <string>
#include <vector>

#include "partitioner/builder.h"
#include "partitioner/zoo/families.h"

namespace kerf::partitioner {

// A window that slides over images.
struct Pool {
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t pad = 0;
  bool ceil = false;            // a last window that hangs over
  bool counts_padding = false;  // of an average
};

class ImageNet : public Builder {
 public:
  // Of images of `image` rows and columns unless the options say otherwise.
  ImageNet(const std::string& name, const ZooOptions& options, int64_t image = 224);

  // Input "image": three colours.
  ValueId image();
  // So many channels or features, as the options' width makes them: a multiple of `unit`.
  int64_t scaled(int64_t channels, int64_t unit = 1) const;
  int64_t channels(ValueId x) const { return shape(x)[1]; }

  // With the output channels as published. `kernel` x `kernel`, padded so that at stride 1 the
  // image keeps its extents, without a bias: a normalisation follows.
  ValueId plain_conv(ValueId x, int64_t channels, int64_t kernel, int64_t stride,
                     const std::string& name, const Start& start = {}, int64_t groups = 1);
  ValueId max_pool(ValueId x, const Pool& pool, const std::string& name);
  ValueId average_pool(ValueId x, const Pool& pool, const std::string& name);
  // Across channels (Krizhevsky et al. 2012, section 3.3), Caffe's numbers.
  ValueId local_response_norm(ValueId x, const std::string& name);
  ValueId concat(const std::vector<ValueId>& parts, const std::string& name);
  // To `extent` rows and columns, each the mean of what lies under it, as PyTorch's
  // AdaptiveAvgPool2d does it.
  ValueId adaptive_average_pool(ValueId x, int64_t extent, const std::string& name);
  // The mean of each channel: [N, C].
  ValueId global_average(ValueId x, const std::string& name);
  // The scores of classes, and the loss.
  Model classify(ValueId features, const std::string& name, const Start& start = {});
  int64_t classes() const { return classes_; }

 private:
  ValueId averages(ValueId x, int64_t from, int64_t to, bool rows, const std::string& name);

  double width_;
  int64_t image_;
  int64_t classes_;
};

// Of He et al. 2015 ("Delving deep into rectifiers"), for a convolution of so many channels: those
// that it reads (fan in), or gives (fan out).
Start he_normal(int64_t channels, int64_t kernel);
// Normal weights of this deviation, and no bias.
Start normal_start(double deviation);

}  // namespace kerf::partitioner
