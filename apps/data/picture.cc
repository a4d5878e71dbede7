#include "apps/data/picture.h"

#include <cstdio>  // of which jpeglib.h wants FILE

// Behind it:
#include <jpeglib.h>
// Behind that:
#include <jerror.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstring>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

// Deflate makes 1032 bytes of one, of eight pixels each; a JPEG's blank blocks take more.
constexpr int64_t kMostPixelsOfAByte = 1032 * 8;

[[noreturn]] void refuse_picture(const std::string& origin, const std::string& what) {
  throw Error(ErrorCode::kUsage, what, origin);
}

[[noreturn]] void refuse_damaged(const std::string& origin, const char* why) {
  refuse_picture(origin, format("it is damaged: {}; save it anew, or take it away", why));
}

bool can_hold(std::span<const std::byte> file, int64_t width, int64_t height) {
  const int64_t most = std::min(kMostPixels, std::ssize(file) * kMostPixelsOfAByte);
  return width >= 1 && height >= 1 && width <= most / height;
}

void check_pixels(std::span<const std::byte> file, int64_t width, int64_t height,
                  const std::string& origin) {
  if (!can_hold(file, width, height))
    refuse_picture(origin, format("its header claims {}x{} pixels, in a file of {} bytes", width,
                                  height, file.size()));
}

// As JPEG weighs red, green and blue (ITU-R BT.601), rounded.
uint8_t grey_of(const uint8_t* rgb) {
  return static_cast<uint8_t>((19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 0x8000) >> 16);
}

// Of pixels of so many bytes, the colours alone, or the grey of them, in place.
void keep_channels(Picture& picture, int64_t each, int64_t channels) {
  const int64_t pixels = picture.height * picture.width;
  const int64_t colours = each >= 3 ? 3 : 1;
  for (int64_t i = 0; i < pixels; ++i) {
    const uint8_t* from = picture.bytes.data() + i * each;
    uint8_t* to = picture.bytes.data() + i * channels;
    if (colours == 3 && channels == 1)
      *to = grey_of(from);
    else
      std::copy_n(from, channels, to);
  }
  picture.bytes.resize(static_cast<size_t>(pixels * channels));
  picture.channels = channels;
}

constexpr size_t kPngSignature = 8;
constexpr size_t kPngChunk = 12;  // length, type and checksum

// The file without what it says of the meaning of its colours, by which libpng would change them.
std::vector<std::byte> without_colour_chunks(std::span<const std::byte> file) {
  std::vector<std::byte> kept(file.begin(), file.begin() + kPngSignature);
  size_t at = kPngSignature;
  while (file.size() - at >= kPngChunk) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<size_t>(file[at + i]);
    const std::string_view type(reinterpret_cast<const char*>(file.data()) + at + 4, 4);
    const size_t bytes = std::min(length + kPngChunk, file.size() - at);
    if (type != "gAMA" && type != "cHRM" && type != "sRGB" && type != "iCCP") {
      const auto chunk = file.subspan(at, bytes);
      kept.insert(kept.end(), chunk.begin(), chunk.end());
    }
    at += bytes;
  }
  const auto rest = file.subspan(at);
  kept.insert(kept.end(), rest.begin(), rest.end());
  return kept;
}

// libpng's simplified interface ends by itself what it began, and never jumps. Transparency is read
// where there is any: without, libpng would mix it with a background.
Picture decode_png(std::span<const std::byte> file, int64_t channels, const std::string& origin) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  struct Free {
    png_image& image;
    ~Free() { png_image_free(&image); }
  } const free{image};
  const auto fail = [&] { refuse_damaged(origin, image.message); };
  const std::vector<std::byte> plain = without_colour_chunks(file);
  if (png_image_begin_read_from_memory(&image, plain.data(), plain.size()) == 0) fail();
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // and not linear light
  check_pixels(file, image.width, image.height, origin);
  const bool colours = channels == 3 || (image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  image.format =
      (colours ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY) | (image.format & PNG_FORMAT_FLAG_ALPHA);
  const auto each = static_cast<int64_t>(PNG_IMAGE_PIXEL_CHANNELS(image.format));
  Picture picture{image.height, image.width, each, {}};
  picture.bytes.resize(static_cast<size_t>(picture.height * picture.width * each));
  if (png_image_finish_read(&image, nullptr, picture.bytes.data(), 0, nullptr) == 0) fail();
  if (each != channels) keep_channels(picture, each, channels);
  return picture;
}

// libjpeg jumps out of its errors: nothing with a destructor is made between.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf out;
  char message[JMSG_LENGTH_MAX];
};

void jump_out(j_common_ptr of) {
  auto* errors = reinterpret_cast<JpegErrors*>(of->err);
  errors->manager.format_message(of, errors->message);
  std::longjmp(errors->out, 1);
}

// Of odd headers, and of bytes between the parts of a picture: the pixels are whole.
bool is_harmless(int warning) {
  return warning == JWRN_ADOBE_XFORM || warning == JWRN_JFIF_MAJOR ||
         warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_TOO_MUCH_DATA;
}

// Other warnings are damage as well: the rest of the picture would be grey.
void take_warning(j_common_ptr of, int level) {
  if (level < 0 && !is_harmless(of->err->msg_code)) jump_out(of);
}

// Cyan, magenta, yellow and black take their share of white each; Adobe writes what they leave of
// it.
void mix_inks(Picture& picture, bool inverted, int64_t channels) {
  for (size_t at = 0; at < picture.bytes.size(); at += 4) {
    uint8_t* inks = picture.bytes.data() + at;
    const auto left = [&](int ink) { return inverted ? inks[ink] : 255 - inks[ink]; };
    const int black = left(3);
    for (int ink = 0; ink < 3; ++ink)
      inks[ink] = static_cast<uint8_t>((left(ink) * black + 127) / 255);
  }
  keep_channels(picture, 4, channels);
}

// Whether it worked; else errors say why. `picture` is made outside, so that no jump skips it.
bool run_jpeg(std::span<const std::byte> file, Picture& picture, JpegErrors& errors,
              jpeg_decompress_struct& jpeg) {
  jpeg.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = jump_out;
  errors.manager.emit_message = take_warning;
  if (setjmp(errors.out) != 0) return false;
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&jpeg, TRUE);
  picture.height = jpeg.image_height;
  picture.width = jpeg.image_width;
  if (!can_hold(file, picture.width, picture.height)) return true;  // which is told outside
  const bool inks = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  if (inks) picture.channels = 4;
  jpeg.out_color_space = inks ? JCS_CMYK : picture.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&jpeg);
  const auto row_bytes = static_cast<size_t>(picture.width * picture.channels);
  picture.bytes.resize(static_cast<size_t>(picture.height) * row_bytes);
  while (jpeg.output_scanline < jpeg.output_height) {
    unsigned char* row = picture.bytes.data() + jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

Picture decode_jpeg(std::span<const std::byte> file, int64_t channels, const std::string& origin) {
  Picture picture{0, 0, channels, {}};
  JpegErrors errors{};
  jpeg_decompress_struct jpeg{};
  const bool fine = run_jpeg(file, picture, errors, jpeg);
  const bool inverted = jpeg.saw_Adobe_marker != 0;
  jpeg_destroy_decompress(&jpeg);
  if (!fine) refuse_damaged(origin, errors.message);
  check_pixels(file, picture.width, picture.height, origin);
  if (picture.channels == 4) mix_inks(picture, inverted, channels);
  return picture;
}

// Where along an axis of `length` pixels a pixel of `wanted` lies.
struct Between {
  int64_t low = 0;
  int64_t high = 0;
  float share = 0;  // of high
};

Between between(int64_t index, int64_t length, int64_t wanted) {
  const double scale = static_cast<double>(length) / static_cast<double>(wanted);
  const double at = std::max(0.0, (static_cast<double>(index) + 0.5) * scale - 0.5);
  const auto low = std::min(static_cast<int64_t>(at), length - 1);
  return {low, std::min(low + 1, length - 1), static_cast<float>(at - static_cast<double>(low))};
}

}  // namespace

Picture decode_picture(std::span<const std::byte> file, int64_t channels,
                       const std::string& origin) {
  KERF_CHECK(channels == 1 || channels == 3, "{} channels", channels);
  const std::string_view head(reinterpret_cast<const char*>(file.data()),
                              std::min<size_t>(file.size(), 8));
  if (head == "\x89PNG\r\n\x1a\n") return decode_png(file, channels, origin);
  if (head.starts_with("\xff\xd8\xff")) return decode_jpeg(file, channels, origin);
  refuse_picture(origin, "it is neither a PNG nor a JPEG file");
}

void resize_picture(const Picture& picture, int64_t height, int64_t width, float* to) {
  std::vector<Between> columns;
  for (int64_t x = 0; x < width; ++x) columns.push_back(between(x, picture.width, width));
  const auto pixel = [&](int64_t y, int64_t x, int64_t channel) {
    return static_cast<float>(
        picture.bytes[static_cast<size_t>((y * picture.width + x) * picture.channels + channel)]);
  };
  for (int64_t channel = 0; channel < picture.channels; ++channel)
    for (int64_t y = 0; y < height; ++y) {
      const Between rows = between(y, picture.height, height);
      for (const Between& column : columns) {
        const auto along = [&](int64_t row) {
          return pixel(row, column.low, channel) * (1 - column.share) +
                 pixel(row, column.high, channel) * column.share;
        };
        *to++ = along(rows.low) * (1 - rows.share) + along(rows.high) * rows.share;
      }
    }
}

}  // namespace kerf::apps
