// The layout of a heat map: where panels, labels, scale and caption stand.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "heed/analysis/colour_ramp.hpp"
#include "heed/analysis/heatmap_cells.hpp"
#include "heed/analysis/heatmap_legend.hpp"
#include "heed/analysis/svg_text.hpp"
#include "heed/base/index.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

/// The labels of one axis, thinned so that they do not touch, with the room that the longest one takes.
struct axis_labels {
  index_t step = 1;                // in cells
  std::vector<std::string> texts;  // escaped; one for each `step` cells
  double room = 0;                 // pixels along the text

  axis_labels(std::vector<std::string> const& labels, index_t count, index_t cell_step, index_t cells, double cell,
              double font) {
    step = greater(static_cast<index_t>((font + 2.5) / cell + 0.999), 1);
    constexpr std::size_t longest = 16;
    const bool numbered = !labels.empty() && (step > 1 || cell_step > 1);
    for (index_t i = 0; i < cells; i += step) {
      const index_t token = lesser(i * cell_step, count - 1);
      const std::string number = std::to_string(token);
      const std::string word = labels.empty() ? number : shortened(labels[static_cast<std::size_t>(token)], longest);
      std::string text = xml_text(word);
      if (numbered) {
        text = std::string("<tspan fill=\"") + heat_faint_ink + "\" font-size=\"" + coordinate(font * 0.85) + "\">" +
               number + "</tspan> " + text;
      }
      const double width = text_width(numbered ? number + " " + word : word, font);
      room = width > room ? width : room;
      texts.push_back(std::move(text));
    }
  }
};

/// Collects the heads to be drawn, then lays them out and writes the SVG.
class heat_picture {
 public:
  index_t query_count = 0, key_count = 0;
  std::vector<std::string> query_labels, key_labels;
  std::string title, quantity;
  bool is_grid = false;
  bool linear = false;

  /// Decides how many panels stand side by side, and how large they may be.
  void arrange(index_t panels) {
    columns_ = panels <= 1 ? 1 : panels <= 4 ? 2 : panels <= 9 ? 3 : panels <= 16 ? 4 : panels <= 36 ? 6 : 8;
    if (panels == 3) columns_ = 3;
    extent_ = !is_grid        ? 720
              : columns_ <= 2 ? 360
              : columns_ == 3 ? 290
              : columns_ == 4 ? 224
              : columns_ == 6 ? 150
                              : 120;
    least_cell_ = is_grid ? 2 : 4;
  }
  [[nodiscard]] index_t most_cells() const noexcept { return extent_ / least_cell_; }

  void add_head(index_t head, heat_cells cells) {
    range_.linear = linear;
    range_.add(cells);
    panels_.push_back({head, std::move(cells)});
  }

  [[nodiscard]] std::string svg() const {
    heat_cells const empty;
    heat_cells const& shape = panels_.empty() ? empty : panels_[0].cells;
    const index_t longest = greater(greater(shape.rows, shape.keys), 1);
    const index_t largest_cell = is_grid ? 20 : 34;
    const index_t cell = lesser(greater(extent_ / longest, least_cell_), largest_cell);
    const double font = is_grid ? 9 : cell >= 15 ? 12 : cell >= 12 ? static_cast<double>(cell) - 2.5 : 10;
    const double cell_size = static_cast<double>(cell);
    const axis_labels rows(query_labels, query_count, shape.row_step, shape.rows, cell_size, font);
    const axis_labels keys(key_labels, key_count, shape.key_step, shape.keys, cell_size, font);
    const double plot_width = cell_size * static_cast<double>(shape.keys);
    const double plot_height = cell_size * static_cast<double>(shape.rows);

    constexpr double margin = 24;
    const bool slanted = !is_grid && cell >= 18;
    const double left = margin + (rows.room + 8 > 62 || is_grid ? rows.room + 8 : 62);
    const double keys_room = slanted ? keys.room * 0.71 + font : keys.room;
    const double top = 48 + (is_grid ? 26 : (keys_room + 8 > 40 ? keys_room + 8 : 40));
    const double step_x = plot_width + 16;
    const double step_y = plot_height + 32;
    const index_t panels = static_cast<index_t>(panels_.size());
    const index_t lines = greater(ceil_div(panels, columns_), 1);
    const double all_width = static_cast<double>(lesser(columns_, greater(panels, 1))) * step_x - 16;
    const double all_height = static_cast<double>(lines) * step_y - 32;

    std::string body;
    for (index_t i = 0; i < panels; ++i) {
      const double x = left + static_cast<double>(i % columns_) * step_x;
      const double y = top + static_cast<double>(i / columns_) * step_y;
      if (is_grid) {
        body += svg_text(x, y - 7, "head " + std::to_string(panels_[static_cast<std::size_t>(i)].head),
                         {.size = 11.5, .bold = true});
      }
      draw_cells(body, panels_[static_cast<std::size_t>(i)].cells, x, y, cell_size);
      if (i % columns_ == 0) draw_row_labels(body, rows, x - 6, y, cell_size, font);
      if (!is_grid) draw_key_labels(body, keys, x, y - 6, cell_size, font, slanted ? -45 : -90, "start");
      if (is_grid && i + columns_ >= panels) {
        draw_key_labels(body, keys, x, y + plot_height + 5, cell_size, font, -90, "end");
      }
    }
    if (!is_grid) {
      body += svg_text(left - 12, top - 21, "key &#8594;", {10.5, heat_faint_ink, "end"});
      body += svg_text(left - 12, top - 7, "query &#8595;", {10.5, heat_faint_ink, "end"});
    }

    const heat_legend legend(range_, quantity);
    const double bar = all_height < 110 ? 92 : (all_height > 258 ? 240 : all_height - 18);
    double right = left + all_width;
    double bottom = top + all_height + (is_grid ? keys.room + 8 : 0);
    if (range_.any_finite || range_.any_hidden || range_.any_nan) {
      body += legend.draw(right + 26, top, bar);
      if (top + legend.height(bar) > bottom) bottom = top + legend.height(bar);
      right += 26 + legend.width();
    }
    if (slanted && left + all_width + keys.room * 0.71 > right) right = left + all_width + keys.room * 0.71;
    double widest = text_width(title, 16);
    for (std::string const& line : caption(shape, rows, keys)) {
      bottom += 18;
      body += svg_text(margin, bottom + 6, xml_text(line), {11, heat_faint_ink});
      widest = text_width(line, 11) > widest ? text_width(line, 11) : widest;
    }
    if (margin + widest > right) right = margin + widest;
    return document(right + margin, bottom + margin, body);
  }

 private:
  struct panel {
    index_t head;
    heat_cells cells;
  };
  static constexpr int levels_ = 127;

  [[nodiscard]] std::string document(double width, double height, std::string const& body) const {
    const std::string size = coordinate(std::ceil(width)) + "\" height=\"" + coordinate(std::ceil(height));
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"" + size + "\" viewBox=\"0 0 " +
           coordinate(std::ceil(width)) + " " + coordinate(std::ceil(height)) +
           "\" font-family=\"'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', Arial, sans-serif\">\n<title>" +
           xml_text(title) + "</title>\n<defs>" + heat_legend::definitions() + "</defs>\n" +
           svg_rectangle(0, 0, std::ceil(width), std::ceil(height), "fill=\"#ffffff\"") +
           svg_text(24, 34, xml_text(title), {.size = 16, .bold = true}) + body + "</svg>\n";
  }

  [[nodiscard]] std::vector<std::string> caption(heat_cells const& shape, axis_labels const& rows,
                                                 axis_labels const& keys) const {
    std::vector<std::string> lines;
    const auto by = [](index_t one, index_t other) { return std::to_string(one) + " x " + std::to_string(other); };
    if (panels_.empty()) lines.push_back("There are no heads to draw.");
    if (query_count == 0 || key_count == 0) {
      lines.push_back("There is nothing to draw: " + std::to_string(query_count) + " queries, " +
                      std::to_string(key_count) + " keys.");
      return lines;
    }
    if (is_grid) lines.push_back("Rows are queries, columns are keys. All heads share one scale.");
    if (!range_.is_linear() && range_.any_finite)
      lines.push_back("Colours follow the square root of the " + quantity + ".");
    if (shape.row_step > 1 || shape.key_step > 1) {
      lines.push_back(by(query_count, key_count) + " numbers pooled into " + by(shape.rows, shape.keys) +
                      " cells: each shows the largest of up to " + by(shape.row_step, shape.key_step) + ".");
    }
    const index_t every_row = rows.step * shape.row_step;
    const index_t every_key = keys.step * shape.key_step;
    if (every_row > 1 || every_key > 1) {
      lines.push_back(every_row == every_key ? "One token in " + std::to_string(every_row) + " is labelled."
                                             : "One query in " + std::to_string(every_row) + " and one key in " +
                                                   std::to_string(every_key) + " are labelled.");
    }
    return lines;
  }

  [[nodiscard]] int level_of(double value) const noexcept {
    return static_cast<int>(range_.share(value) * levels_ + 0.5);
  }

  // One path for each colour: far shorter than a rectangle for each cell, and cells without a gap do not show seams.
  void draw_cells(std::string& body, heat_cells const& cells, double x, double y, double cell) const {
    const double gap = cell >= 9 ? 1 : 0;
    constexpr int hidden = levels_ + 1, not_a_number = levels_ + 2;
    std::vector<std::string> paths(levels_ + 3);
    const auto kind = [&](index_t row, index_t key) {
      const double value = cells.at(row, key);
      if (value != value) return not_a_number;
      return value == -std::numeric_limits<double>::infinity() ? hidden : level_of(value);
    };
    body += svg_rectangle(x - 1, y - 1, cell * static_cast<double>(cells.keys) + 2 - gap,
                          cell * static_cast<double>(cells.rows) + 2 - gap, "fill=\"#e4e6e9\"");
    for (index_t row = 0; row < cells.rows; ++row) {
      for (index_t key = 0; key < cells.keys;) {
        const int which = kind(row, key);
        index_t end = key + 1;
        while (gap == 0 && end < cells.keys && kind(row, end) == which) ++end;
        const std::string width = coordinate(static_cast<double>(end - key) * cell - gap);
        std::string& path = paths[static_cast<std::size_t>(which)];
        path += 'M';
        path += coordinate(x + static_cast<double>(key) * cell);
        path += ' ';
        path += coordinate(y + static_cast<double>(row) * cell);
        path += 'h';
        path += width;
        path += 'v';
        path += coordinate(cell - gap);
        path += "h-";
        path += width;
        path += 'z';
        key = end;
      }
    }
    for (int which = 0; which < static_cast<int>(paths.size()); ++which) {
      if (paths[static_cast<std::size_t>(which)].empty()) continue;
      const std::string colour = which == hidden         ? "url(#heed-hidden)"
                                 : which == not_a_number ? heat_nan_colour
                                                         : hex_colour(ramp_at(static_cast<double>(which) / levels_));
      body += "<path fill=\"" + colour + "\" shape-rendering=\"crispEdges\" d=\"" +
              paths[static_cast<std::size_t>(which)] + "\"/>\n";
    }
    if (cell >= 28) draw_numbers(body, cells, x, y, cell);
  }

  // ".41" in the larger cells, where it is more than next to nothing.
  void draw_numbers(std::string& body, heat_cells const& cells, double x, double y, double cell) const {
    for (index_t row = 0; row < cells.rows; ++row) {
      for (index_t key = 0; key < cells.keys; ++key) {
        const double value = cells.at(row, key);
        const double size = value < 0 ? -value : value;
        if (!(size >= 0.02 * (std::max)(range_.high, -range_.low)) || size > 1e6) continue;
        std::string number = fixed_text(value, size >= 99 ? 0 : size >= 9.9 ? 1 : 2);
        if (number.substr(0, 2) == "0.") number.erase(0, 1);
        if (text_width(number, 9.5) > cell + 4) continue;
        const double lightness = ramp_at(static_cast<double>(level_of(value)) / levels_).lightness;
        body += svg_text(x + (static_cast<double>(key) + 0.5) * cell - 0.5,
                         y + (static_cast<double>(row) + 0.5) * cell + 2.9, number,
                         {9.5, lightness < 0.68 ? "#ffffff" : heat_ink, "middle"});
      }
    }
  }

  static void draw_row_labels(std::string& body, axis_labels const& labels, double x, double y, double cell,
                              double font) {
    for (std::size_t i = 0; i < labels.texts.size(); ++i) {
      const double at = y + (static_cast<double>(static_cast<index_t>(i) * labels.step) + 0.5) * cell;
      body += svg_text(x, at + font * 0.35, labels.texts[i], {font, heat_ink, "end"});
    }
  }
  static void draw_key_labels(std::string& body, axis_labels const& labels, double x, double y, double cell,
                              double font, double turn, char const* anchor) {
    const double aside = turn == -90 ? font * 0.35 : font * 0.2;  // centres the line on its column
    for (std::size_t i = 0; i < labels.texts.size(); ++i) {
      const double at = x + (static_cast<double>(static_cast<index_t>(i) * labels.step) + 0.5) * cell;
      body += svg_text(at + aside, y, labels.texts[i], {font, heat_ink, anchor, turn});
    }
  }

  index_t columns_ = 1, extent_ = 720, least_cell_ = 4;
  heat_range range_;
  std::vector<panel> panels_;
};

}  // namespace HEED_ABI
}  // namespace heed::detail
