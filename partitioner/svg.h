// SVG: elements of a picture as text. Numbers have one decimal, so that pictures are reproducible
// and small. Belongs to one thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kerf::partitioner {

// Text that is safe between tags and in attributes; what XML cannot carry becomes '?'.
std::string escape_xml(std::string_view text);

struct Point {
  double x = 0;
  double y = 0;
};

class Svg {
 public:
  void rectangle(Point corner, double width, double height, double radius, std::string_view fill,
                 std::string_view stroke = "none");
  // `style`: class of the style sheet ("title", "name", "small" ...); `anchor`: start, middle, end.
  void text(Point at, std::string_view style, std::string_view anchor, std::string_view words);
  // Words over lines, with a white rim.
  void label(Point at, std::string_view anchor, std::string_view words);
  // A curve that leaves and arrives vertically.
  void curve(Point from, Point to, std::string_view style, std::string_view colour, bool arrow);
  // A curve that leaves to the left, bulges by `bulge` and arrives from the left.
  void bow(Point from, Point to, double bulge, std::string_view style, std::string_view colour);
  // A curve that leaves upwards, or downwards where `rise` is negative, and arrives from there.
  void arch(Point from, Point to, double rise, std::string_view style, std::string_view colour);
  void line(std::span<const Point> points, std::string_view style, std::string_view colour);
  void open_group(std::string_view tooltip);
  void close_group();

  // The whole document.
  std::string finish(double width, double height, std::string_view title) const;
  // For within a page, whose style sheet it goes by: with no ground of its own.
  std::string inset(double width, double height, std::string_view title) const;

 private:
  std::string body_;
};

}  // namespace kerf::partitioner
