// The colours of the heat maps: one perceptually uniform ramp from paper white to deep indigo.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>

#include "heed/base/config.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// A colour in OKLab, where distance is how different two colours look.
struct oklab {
  double lightness, green_red, blue_yellow;
};

// Through yellow, green and blue with lightness falling all the way, so that it also works in grey and for readers who
// do not see every hue. All of it lies within sRGB.
inline constexpr oklab ramp_stops[] = {
    {0.985, -0.004, 0.012},  {0.925, -0.044, 0.076},  {0.790, -0.098, 0.046},
    {0.640, -0.088, -0.042}, {0.480, -0.030, -0.115}, {0.300, 0.028, -0.120},
};

[[nodiscard]] inline double oklab_distance(oklab const& one, oklab const& other) noexcept {
  const double lightness = one.lightness - other.lightness;
  const double green_red = one.green_red - other.green_red;
  const double blue_yellow = one.blue_yellow - other.blue_yellow;
  return std::sqrt(lightness * lightness + green_red * green_red + blue_yellow * blue_yellow);
}

/// The ramp at `share` from 0 to 1. Equal steps of share are equal steps of distance: the speed is constant because the
/// way is measured along the stops.
[[nodiscard]] inline oklab ramp_at(double share) noexcept {
  constexpr std::size_t last = sizeof(ramp_stops) / sizeof(ramp_stops[0]) - 1;
  double whole = 0;
  for (std::size_t i = 0; i < last; ++i) whole += oklab_distance(ramp_stops[i], ramp_stops[i + 1]);
  double left = (share < 0 ? 0 : (share > 1 ? 1 : share)) * whole;
  for (std::size_t i = 0; i < last; ++i) {
    oklab const& from = ramp_stops[i];
    oklab const& to = ramp_stops[i + 1];
    const double step = oklab_distance(from, to);
    if (left <= step || i + 1 == last) {
      const double part = left < step ? left / step : 1;
      return {from.lightness + part * (to.lightness - from.lightness),
              from.green_red + part * (to.green_red - from.green_red),
              from.blue_yellow + part * (to.blue_yellow - from.blue_yellow)};
    }
    left -= step;
  }
  return ramp_stops[last];
}

/// Linear light -> the 8-bit value that a screen takes.
[[nodiscard]] inline int screen_value(double light) noexcept {
  const double inside = light < 0 ? 0 : (light > 1 ? 1 : light);
  const double curved = inside <= 0.0031308 ? 12.92 * inside : 1.055 * std::pow(inside, 1 / 2.4) - 0.055;
  return static_cast<int>(std::lround(curved * 255));
}

struct rgb {
  double red, green, blue;  // linear light; outside [0, 1] where sRGB does not reach
};

/// OKLab -> linear sRGB (Bjorn Ottosson's definition of the space).
[[nodiscard]] inline rgb linear_rgb(oklab const& colour) noexcept {
  const double long_root = colour.lightness + 0.3963377774 * colour.green_red + 0.2158037573 * colour.blue_yellow;
  const double middle_root = colour.lightness - 0.1055613458 * colour.green_red - 0.0638541728 * colour.blue_yellow;
  const double short_root = colour.lightness - 0.0894841775 * colour.green_red - 1.2914855480 * colour.blue_yellow;
  const double longer = long_root * long_root * long_root;
  const double middle = middle_root * middle_root * middle_root;
  const double shorter = short_root * short_root * short_root;
  return {4.0767416621 * longer - 3.3077115913 * middle + 0.2309699292 * shorter,
          -1.2684380046 * longer + 2.6097574011 * middle - 0.3413193965 * shorter,
          -0.0041960863 * longer - 0.7034186147 * middle + 1.7076147010 * shorter};
}

/// "#0b2f6e"
[[nodiscard]] inline std::string hex_colour(oklab const& colour) {
  const rgb light = linear_rgb(colour);
  std::string text = "#";
  for (double channel : {light.red, light.green, light.blue}) {
    const int value = screen_value(channel);
    constexpr char digits[] = "0123456789abcdef";
    text += digits[value / 16];
    text += digits[value % 16];
  }
  return text;
}

}  // namespace HEED_ABI
}  // namespace heed::detail
