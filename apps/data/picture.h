// Pictures as PNG and JPEG files have them, decoded by libpng and libjpeg.
//
// Everything in a file is checked: a picture has at most kMostPixels pixels, whatever its header
// claims. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kerf::apps {

inline constexpr int64_t kMostPixels = int64_t{1} << 26;

struct Picture {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;        // 1 (grey) or 3 (red, green, blue)
  std::vector<uint8_t> bytes;  // [height, width, channels]
};

// Transparency is left out: pixels have the colours that the file says, however little one would
// see of them. 16 bits become 8, and pixels are taken as they are, whatever gamma a
// file claims; colours are weighed as grey alike in PNG and JPEG; four inks are
// mixed. Throws Error{kUsage} that names `origin`.
Picture decode_picture(std::span<const std::byte> file, int64_t channels,
                       const std::string& origin);

// Bilinear, by the centres of pixels (PyTorch's interpolate with align_corners=False): [channels,
// height, width] of float32 within 0 and 255.
void resize_picture(const Picture& picture, int64_t height, int64_t width, float* to);

}  // namespace kerf::apps
