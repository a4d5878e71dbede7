#include "partitioner/svg.h"

#include <algorithm>

#include "runtime/format.h"

namespace kerf::partitioner {

namespace {

constexpr std::string_view kStyle = R"(<style>
  text { font-family: "Inter", "Helvetica Neue", "Liberation Sans", "DejaVu Sans", sans-serif;
         fill: #1f2933; }
  .title { font-size: 20px; font-weight: 700; }
  .subtitle { font-size: 13px; fill: #52606d; }
  .worker { font-size: 15px; font-weight: 700; }
  .name { font-size: 13px; font-weight: 600; }
  .small { font-size: 11px; fill: #52606d; }
  .figure { font-size: 12px; font-weight: 600; }
  .bytes { font-size: 11px; font-weight: 600; fill: #323f4b; }
  .halo { font-size: 11px; font-weight: 600; fill: #ffffff; stroke: #ffffff; stroke-width: 4px;
          stroke-linejoin: round; }
  .local { fill: none; stroke-width: 1.5px; }
  .bridge { fill: none; stroke-width: 2px; }
</style>
)";

// A head in the colour of its line needs one marker per colour: no viewer knows context-stroke yet.
std::string head(Point tip, std::string_view colour) {
  return format("<path d=\"M {:.1f} {:.1f} l -4.5 -8 l 9 0 z\" fill=\"{}\"/>\n", tip.x, tip.y,
                colour);
}

}  // namespace

std::string escape_xml(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (c == '\'')
      result += "&apos;";
    else if (byte < 0x20 || byte >= 0x7f)
      result += '?';
    else
      result += c;
  }
  return result;
}

void Svg::rectangle(Point corner, double width, double height, double radius, std::string_view fill,
                    std::string_view stroke) {
  body_ += format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{:.1f}\" "
      "fill=\"{}\" "
      "stroke=\"{}\" stroke-width=\"1.5\"/>\n",
      corner.x, corner.y, width, height, radius, fill, stroke);
}

void Svg::text(Point at, std::string_view style, std::string_view anchor, std::string_view words) {
  body_ += format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n",
                  at.x, at.y, style, anchor, escape_xml(words));
}

// Not by paint-order, which not every viewer knows.
void Svg::label(Point at, std::string_view anchor, std::string_view words) {
  text(at, "halo", anchor, words);
  text(at, "bytes", anchor, words);
}

void Svg::curve(Point from, Point to, std::string_view style, std::string_view colour, bool arrow) {
  const double end = arrow ? to.y - 7 : to.y;
  const double middle = (from.y + end) / 2;
  body_ += format(
      "<path class=\"{}\" stroke=\"{}\" d=\"M {:.1f} {:.1f} C {:.1f} {:.1f} {:.1f} {:.1f} {:.1f} "
      "{:.1f}\"/>\n",
      style, colour, from.x, from.y, from.x, middle, to.x, middle, to.x, end);
  if (arrow) body_ += head(to, colour);
}

void Svg::bow(Point from, Point to, double bulge, std::string_view style, std::string_view colour) {
  const double x = std::min(from.x, to.x) - bulge;
  body_ += format(
      "<path class=\"{}\" stroke=\"{}\" d=\"M {:.1f} {:.1f} C {:.1f} {:.1f} {:.1f} {:.1f} {:.1f} "
      "{:.1f}\"/>\n",
      style, colour, from.x, from.y, x, from.y, x, to.y, to.x, to.y);
}

void Svg::arch(Point from, Point to, double rise, std::string_view style, std::string_view colour) {
  const double end = to.y + (rise < 0 ? 7 : -7);
  body_ += format(
      "<path class=\"{}\" stroke=\"{}\" d=\"M {:.1f} {:.1f} C {:.1f} {:.1f} {:.1f} {:.1f} {:.1f} "
      "{:.1f}\"/>\n",
      style, colour, from.x, from.y, from.x, from.y - rise, to.x, end - rise, to.x, end);
  body_ += format("<path d=\"M {:.1f} {:.1f} l -4.5 {} l 9 0 z\" fill=\"{}\"/>\n", to.x, to.y,
                  rise < 0 ? 8 : -8, colour);
}

void Svg::line(std::span<const Point> points, std::string_view style, std::string_view colour) {
  body_ += format("<polyline class=\"{}\" stroke=\"{}\" points=\"", style, colour);
  for (const Point& each : points) body_ += format("{:.1f},{:.1f} ", each.x, each.y);
  body_ += "\"/>\n";
}

void Svg::open_group(std::string_view tooltip) {
  body_ += format("<g><title>{}</title>\n", escape_xml(tooltip));
}

void Svg::close_group() { body_ += "</g>\n"; }

std::string Svg::inset(double width, double height, std::string_view title) const {
  return format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "viewBox=\"0 0 {:.0f} {:.0f}\">\n<title>{}</title>\n{}</svg>\n",
      width, height, width, height, escape_xml(title), body_);
}

std::string Svg::finish(double width, double height, std::string_view title) const {
  return format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
             "viewBox=\"0 0 {:.0f} {:.0f}\">\n<title>{}</title>\n",
             width, height, width, height, escape_xml(title)) +
         std::string(kStyle) +
         format("<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#ffffff\"/>\n", width, height) +
         body_ + "</svg>\n";
}

}  // namespace kerf::partitioner
