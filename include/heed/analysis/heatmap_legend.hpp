// The colour scale of a heat map: the bar, its numbers, and what the special cells mean.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "heed/analysis/colour_ramp.hpp"
#include "heed/analysis/heatmap_cells.hpp"
#include "heed/analysis/svg_text.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

inline constexpr char heat_ink[] = "#222831";
inline constexpr char heat_faint_ink[] = "#7a828c";
inline constexpr char heat_nan_colour[] = "#d7263d";

/// Coordinates, with at most two decimals.
[[nodiscard]] inline std::string coordinate(double value) { return number_text(value, 2); }

struct svg_text_style {
  double size;
  char const* colour = heat_ink;
  char const* anchor = "start";
  double turn = 0;  // degrees, around the point where the text is anchored
  bool bold = false;
};

/// `escaped` may hold tspans.
[[nodiscard]] inline std::string svg_text(double x, double y, std::string const& escaped, svg_text_style style) {
  std::string text = "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" font-size=\"" +
                     coordinate(style.size) + "\" fill=\"" + style.colour + "\"";
  if (std::string(style.anchor) != "start") text += std::string(" text-anchor=\"") + style.anchor + "\"";
  if (style.bold) text += " font-weight=\"600\"";
  if (style.turn != 0) {
    text += " transform=\"rotate(" + coordinate(style.turn) + " " + coordinate(x) + " " + coordinate(y) + ")\"";
  }
  return text + ">" + escaped + "</text>\n";
}

[[nodiscard]] inline std::string svg_rectangle(double x, double y, double width, double height,
                                               std::string const& rest) {
  return "<rect x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" width=\"" + coordinate(width) + "\" height=\"" +
         coordinate(height) + "\" " + rest + "/>\n";
}

/// The vertical bar with numbers; `definitions` goes into <defs>.
class heat_legend {
 public:
  heat_legend(heat_range const& range, std::string quantity) : range_(range), quantity_(std::move(quantity)) {}

  [[nodiscard]] double width() const noexcept { return range_.any_hidden || range_.any_nan ? 118 : 74; }
  [[nodiscard]] double height(double bar) const noexcept {
    return 18 + bar + (range_.any_hidden ? 24 : 0) + (range_.any_nan ? 24 : 0) + 8;
  }

  [[nodiscard]] static std::string definitions() {
    std::string text = "<linearGradient id=\"heed-scale\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">";
    constexpr int stops = 24;
    for (int i = 0; i <= stops; ++i) {
      const double share = static_cast<double>(i) / stops;
      text += "<stop offset=\"" + number_text(share, 4) + "\" stop-color=\"" + hex_colour(ramp_at(share)) + "\"/>";
    }
    text += "</linearGradient>\n<pattern id=\"heed-hidden\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" ";
    text += "patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#eeeff1\"/>";
    text += "<rect width=\"1.4\" height=\"5\" fill=\"#b9bec5\"/></pattern>\n";
    return text;
  }

  [[nodiscard]] std::string draw(double x, double y, double bar) const {
    constexpr double thickness = 14;
    const double top = y + 18;
    std::string text = svg_text(x, y + 8, xml_text(quantity_), {11, heat_faint_ink});
    text += svg_rectangle(x, top, thickness, bar, "fill=\"url(#heed-scale)\" stroke=\"#c9cdd2\" stroke-width=\"0.75\"");
    const auto tick = [&](double share, std::string const& label) {
      const double at = top + bar * (1 - share);
      text += "<path d=\"M" + coordinate(x + thickness) + " " + coordinate(at) + "h4\" stroke=\"#9aa1a9\"/>\n";
      text += svg_text(x + thickness + 7, at + 3.8, label, {11});
    };
    // The ends first; a round number that would touch one that is already there gives way.
    std::vector<double> taken;
    const auto add = [&](double value, int decimals) {
      const double share = range_.share(value);
      for (double other : taken) {
        if (std::abs(other - share) * bar < 15) return;
      }
      taken.push_back(share);
      tick(share, value == 0 ? "0" : fixed_text(value, decimals));
    };
    const double largest = (std::max)(range_.high, -range_.low);
    const int power = largest > 0 ? static_cast<int>(std::floor(std::log10(largest) + 1e-12)) : 0;
    add(range_.high, (std::clamp)(1 - power, 0, 12));
    add(range_.low, (std::clamp)(1 - power, 0, 12));
    if (range_.is_linear()) {
      const double step = std::pow(10.0, power) * (largest >= 5 * std::pow(10.0, power)   ? 2
                                                   : largest >= 2 * std::pow(10.0, power) ? 1
                                                                                          : 0.5);
      for (double i = std::ceil(range_.low / step); range_.high > range_.low && i * step <= range_.high; i += 1) {
        add(i * step, (std::clamp)(1 - power, 0, 12));
      }
    } else {
      for (int lower = power; lower > power - 3; --lower) {
        for (double digit : {5.0, 2.0, 1.0}) {
          const double value = digit * std::pow(10.0, lower);
          if (value < range_.high) add(value, (std::clamp)(-lower, 0, 12));
        }
      }
    }
    double below = top + bar + 14;
    const auto sample = [&](std::string const& fill, std::string const& label) {
      text += svg_rectangle(x, below, thickness, thickness, "fill=\"" + fill + "\" stroke=\"#c9cdd2\"");
      text += svg_text(x + thickness + 7, below + 11, label, {11});
      below += 24;
    };
    if (range_.any_hidden) sample("url(#heed-hidden)", "hidden (-inf)");
    if (range_.any_nan) sample(heat_nan_colour, "NaN or +inf");
    return text;
  }

 private:
  heat_range range_;
  std::string quantity_;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
