// heatmap: well-formed, deterministic SVG that shows the right cells, labels, scale and caption.
#include "heed/analysis/heatmap.hpp"

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <limits>
#include <locale>
#include <string>
#include <vector>

#include "heed/analysis/colour_ramp.hpp"

namespace {

using heed::heatmap;
using heed::index_t;
using heed::detail::hex_colour;
using heed::detail::ramp_at;

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

heed::tensor<float, 4> zeros(index_t heads, index_t rows, index_t keys) {
  return heed::tensor<float, 4>({index_t{1}, heads, rows, keys});
}

std::vector<std::string> words(index_t count) {
  std::vector<std::string> list;
  for (index_t i = 0; i < count; ++i) list.push_back("word" + std::to_string(i));
  return list;
}

std::size_t count(std::string const& text, std::string const& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

// The path that draws the cells of one colour; empty when no cell has it.
std::string path_of(std::string const& svg, std::string const& colour) {
  const std::string opening = "<path fill=\"" + colour + "\"";
  const std::size_t begin = svg.find(opening);
  if (begin == std::string::npos) return "";
  return svg.substr(begin, svg.find("/>", begin) - begin);
}
std::size_t cells_of(std::string const& svg, std::string const& colour) { return count(path_of(svg, colour), "M"); }
std::size_t all_cells(std::string const& svg) {
  std::size_t cells = 0;
  for (std::size_t at = svg.find("<path fill=\""); at != std::string::npos; at = svg.find("<path fill=\"", at + 1)) {
    cells += count(svg.substr(at, svg.find("/>", at) - at), "M");
  }
  return cells;
}

// Tags nest, attributes are quoted, and no character stands bare that XML gives a meaning to.
std::string fault_of_xml(std::string const& text) {
  std::vector<std::string> open;
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '&') {
      const std::string entity = text.substr(at, text.find(';', at) - at + 1);
      const bool known = entity == "&amp;" || entity == "&lt;" || entity == "&gt;" || entity == "&quot;" ||
                         entity.substr(0, 2) == "&#";
      if (!known || entity.size() > 8) return "bare & at " + std::to_string(at);
    } else if (c == '<') {
      const std::size_t end = text.find('>', at);
      if (end == std::string::npos) return "tag not closed";
      const std::string tag = text.substr(at + 1, end - at - 1);
      if (has(tag, "<") || count(tag, "\"") % 2 != 0) return "bad tag <" + tag + ">";
      const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
      if (tag[0] == '/') {
        if (open.empty() || "/" + open.back() != tag) return "<" + tag + "> closes nothing";
        open.pop_back();
      } else if (tag.back() != '/') {
        open.push_back(name);
      }
      at = end;
    } else if (static_cast<unsigned char>(c) < 0x20 && c != '\n') {
      return "control character";
    }
    ++at;
  }
  return open.empty() ? "" : "<" + open.back() + "> stays open";
}

TEST(Heatmap, DrawsEachCellInItsColour) {
  auto weights = zeros(1, 3, 4);
  weights(0, 0, 1, 2) = 1.0f;
  weights(0, 0, 2, 0) = 0.25f;
  const std::string svg = heatmap(weights, {.head = 0});
  EXPECT_EQ(fault_of_xml(svg), "");
  EXPECT_EQ(all_cells(svg), 12u);
  EXPECT_EQ(cells_of(svg, hex_colour(ramp_at(1))), 1u);
  EXPECT_EQ(cells_of(svg, hex_colour(ramp_at(0))), 10u);
  // The square root of 0.25, on 127 steps.
  EXPECT_EQ(cells_of(svg, hex_colour(ramp_at(64.0 / 127))), 1u);
  EXPECT_TRUE(has(svg, "Colours follow the square root of the weight."));
  EXPECT_TRUE(has(svg, ">.25</text>"));
  const std::string linear = heatmap(weights, {.head = 0, .linear = true});
  EXPECT_EQ(cells_of(linear, hex_colour(ramp_at(32.0 / 127))), 1u);
  EXPECT_FALSE(has(linear, "square root"));
}

TEST(Heatmap, PutsRowsDownAndKeysAcross) {
  auto weights = zeros(1, 2, 5);
  weights(0, 0, 1, 4) = 1.0f;
  const std::string svg = heatmap(weights, {.head = 0});
  double dark_x = 0, dark_y = 0, light_x = 0, light_y = 0;
  const auto place = [&](std::string const& path, double& x, double& y) {
    const std::size_t move = path.find("d=\"M");
    ASSERT_NE(move, std::string::npos);
    x = std::stod(path.substr(move + 4));
    y = std::stod(path.substr(path.find(' ', move + 4)));
  };
  place(path_of(svg, hex_colour(ramp_at(1))), dark_x, dark_y);
  place(path_of(svg, hex_colour(ramp_at(0))), light_x, light_y);  // begins with cell (0, 0)
  EXPECT_EQ(dark_x - light_x, 4 * 34);
  EXPECT_EQ(dark_y - light_y, 34);
}

TEST(Heatmap, LabelsBothAxes) {
  const auto svg = heatmap(zeros(1, 3, 4), {.head = 0, .query_labels = {"qa", "qb", "qc"}, .key_labels = words(4)});
  for (char const* label : {"qa", "qb", "qc", "word0", "word1", "word2", "word3"}) {
    EXPECT_EQ(count(svg, std::string(">") + label + "</text>"), 1u) << label;
  }
  const auto numbered = heatmap(zeros(1, 3, 7), {.head = 0});
  EXPECT_EQ(count(numbered, ">2</text>"), 2u) << "on both axes";
  EXPECT_EQ(count(numbered, ">6</text>"), 1u);
}

TEST(Heatmap, LabelsEveryTokenOf50AndThinsOutLater) {
  const auto fifty = heatmap(zeros(1, 50, 50), {.head = 0, .query_labels = words(50), .key_labels = words(50)});
  for (index_t i = 0; i < 50; ++i) EXPECT_EQ(count(fifty, ">word" + std::to_string(i) + "</text>"), 2u) << i;
  EXPECT_FALSE(has(fifty, "is labelled"));
  const auto hundred = heatmap(zeros(1, 100, 100), {.head = 0, .query_labels = words(100), .key_labels = words(100)});
  EXPECT_EQ(all_cells(hundred), 100u) << "one run for each row: nothing is pooled";
  EXPECT_TRUE(has(hundred, "One token in 2 is labelled."));
  EXPECT_EQ(count(hundred, "</tspan> word2</text>"), 2u);
  EXPECT_EQ(count(hundred, "</tspan> word3</text>"), 0u);
  EXPECT_FALSE(has(hundred, "pooled"));
}

TEST(Heatmap, PoolsByMaximumAndSaysSo) {
  auto weights = zeros(1, 400, 390);
  weights(0, 0, 0, 389) = 1.0f;
  weights(0, 0, 399, 0) = 1.0f;
  weights(0, 0, 200, 200) = 0.5f;
  weights(0, 0, 201, 201) = 1.0f;
  const std::string svg = heatmap(weights, {.head = 0, .query_labels = words(400), .key_labels = words(390)});
  EXPECT_EQ(fault_of_xml(svg), "");
  EXPECT_TRUE(has(svg, "400 x 390 numbers pooled into 134 x 130 cells: each shows the largest of up to 3 x 3."));
  EXPECT_EQ(cells_of(svg, hex_colour(ramp_at(1))), 3u);
  EXPECT_EQ(cells_of(svg, hex_colour(ramp_at(90.0 / 127))), 1u) << "201 and 200 fall into different cells";
  EXPECT_LT(svg.size(), 200000u);
  const auto odd = heatmap(zeros(1, 181, 3), {.head = 0});
  EXPECT_TRUE(has(odd, "181 x 3 numbers pooled into 91 x 3 cells: each shows the largest of up to 2 x 1."));
}

TEST(Heatmap, HatchesHiddenCellsAndMarksFaults) {
  auto scores = zeros(1, 2, 3);
  const std::string plain = heatmap(scores, {.head = 0});
  EXPECT_FALSE(has(plain, "hidden (-inf)"));
  EXPECT_FALSE(has(plain, "NaN"));
  scores(0, 0, 0, 1) = minus_infinity;
  scores(0, 0, 0, 2) = minus_infinity;
  scores(0, 0, 1, 0) = -3.0f;
  scores(0, 0, 1, 1) = std::nanf("");
  scores(0, 0, 1, 2) = -minus_infinity;
  const std::string svg = heatmap(scores, {.head = 0, .quantity = "score"});
  EXPECT_EQ(fault_of_xml(svg), "");
  EXPECT_EQ(cells_of(svg, "url(#heed-hidden)"), 2u);
  EXPECT_EQ(cells_of(svg, heed::detail::heat_nan_colour), 2u);
  EXPECT_EQ(all_cells(svg), 6u);
  EXPECT_TRUE(has(svg, "hidden (-inf)"));
  EXPECT_TRUE(has(svg, "NaN or +inf"));
  EXPECT_TRUE(has(svg, ">score</text>"));
  EXPECT_TRUE(has(svg, ">-3.0</text>")) << "the lower end of the scale";
  EXPECT_FALSE(has(svg, "square root")) << "there are negative numbers";
}

TEST(Heatmap, NeverPoolsAFaultAway) {
  auto scores = zeros(1, 400, 400);
  for (index_t i = 0; i < scores.size(); ++i) scores.data()[i] = minus_infinity;
  scores(0, 0, 7, 7) = 2.0f;  // wins over the hidden ones beside it
  scores(0, 0, 100, 100) = std::nanf("");
  scores(0, 0, 101, 101) = 5.0f;
  const std::string svg = heatmap(scores, {.head = 0});
  EXPECT_EQ(cells_of(svg, heed::detail::heat_nan_colour), 1u);
  EXPECT_EQ(cells_of(svg, hex_colour(ramp_at(1))), 1u) << "2 is the largest that is left: 5 is pooled with the NaN";
}

TEST(Heatmap, ShowsNumbersOnItsScale) {
  auto weights = zeros(1, 4, 4);
  weights(0, 0, 0, 0) = 0.87f;
  const std::string svg = heatmap(weights, {.head = 0});
  for (char const* number : {"0.87", "0.5", "0.2", "0.1", "0"}) {
    EXPECT_GE(count(svg, std::string(">") + number + "</text>"), 1u) << number;
  }
  EXPECT_TRUE(has(svg, "url(#heed-scale)"));
}

TEST(Heatmap, DrawsAGridOfAllHeads) {
  auto weights = zeros(12, 16, 16);
  weights(0, 11, 3, 3) = 1.0f;
  const std::string svg = heatmap(weights, {.query_labels = words(16), .key_labels = words(16)});
  EXPECT_EQ(fault_of_xml(svg), "");
  for (int head = 0; head < 12; ++head) {
    EXPECT_EQ(count(svg, ">head " + std::to_string(head) + "</text>"), 1u) << head;
  }
  EXPECT_EQ(all_cells(svg), 12u * 256u);
  EXPECT_EQ(cells_of(svg, hex_colour(ramp_at(1))), 1u) << "one scale for all";
  EXPECT_EQ(count(svg, ">word7</text>"), 3u + 4u) << "beside three rows of panels, below four columns";
  EXPECT_TRUE(has(svg, "all 12 heads"));
  EXPECT_EQ(count(heatmap(zeros(10, 2, 2)), ">head 9</text>"), 1u);
  EXPECT_EQ(count(heatmap(zeros(64, 2, 2)), ">head 63</text>"), 1u);
  EXPECT_FALSE(has(heatmap(weights, {.head = 11}), ">head 11</text>"));
}

TEST(Heatmap, EscapesLabels) {
  const std::vector<std::string> nasty = {"<script>",    "a&b",          "\"'",      "\x01\n",          "\xff\xfe",
                                          "caf\xc3\xa9", "\xed\xa0\x80", "\xc0\xaf", "\xf0\x9f\x98\x80"};
  const index_t many = static_cast<index_t>(nasty.size());
  const std::string svg =
      heatmap(zeros(1, many, many), {.head = 0, .query_labels = nasty, .key_labels = nasty, .title = "1 < 2 & 3"});
  EXPECT_EQ(fault_of_xml(svg), "");
  for (char const* expected : {">&lt;script&gt;<", ">a&amp;b<", ">&quot;&#39;<", ">\xef\xbf\xbd\xef\xbf\xbd<",
                               ">caf\xc3\xa9<", ">\xf0\x9f\x98\x80<", ">1 &lt; 2 &amp; 3<"}) {
    EXPECT_TRUE(has(svg, expected)) << expected;
  }
  // A surrogate is three bytes that begin nothing, and an overlong slash two.
  EXPECT_FALSE(has(svg, ">/<"));
  EXPECT_EQ(count(svg, ">\xef\xbf\xbd\xef\xbf\xbd<"), 3u * 2u) << "on both axes: control, no UTF-8, overlong";
  EXPECT_TRUE(has(svg, ">\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd<"));
}

TEST(Heatmap, ShortensLongLabelsBetweenCharacters) {
  const std::string longest(16, 'x');
  std::string accents;
  for (int i = 0; i < 20; ++i) accents += "\xc3\xa9";
  const auto svg = heatmap(zeros(1, 3, 1), {.head = 0, .query_labels = {longest, longest + "y", accents}});
  EXPECT_TRUE(has(svg, ">" + longest + "<"));
  EXPECT_TRUE(has(svg, ">" + longest.substr(1) + "\xe2\x80\xa6<"));
  EXPECT_TRUE(has(svg, ">" + accents.substr(0, 30) + "\xe2\x80\xa6<"));
}

TEST(Heatmap, ReadsAnyTypeAndStrides) {
  heed::tensor<float, 4> weights({2, 3, 5, 4});
  heed::tensor<heed::half, 4> halves({2, 3, 5, 4});
  std::vector<double> backward(120);
  for (index_t i = 0; i < 120; ++i) {
    weights.data()[i] = static_cast<float>(i % 17) / 16;
    halves.data()[i] = heed::half(weights.data()[i]);
    backward[static_cast<std::size_t>(119 - i)] = static_cast<double>(weights.data()[i]);
  }
  const heed::tensor_view<double const, 4> strided(backward.data() + 119, {2, 3, 5, 4}, {-60, -20, -4, -1});
  const std::string svg = heatmap(weights, {.batch = 1, .head = 2});
  EXPECT_EQ(heatmap(halves, {.batch = 1, .head = 2}), svg);
  EXPECT_EQ(heatmap(strided, {.batch = 1, .head = 2}), svg);
  EXPECT_NE(heatmap(weights, {.batch = 0, .head = 2}), svg);
  EXPECT_TRUE(has(svg, "batch item 1, head 2"));
}

// A locale as it is in half of Europe, also where none is installed.
struct comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(Heatmap, IsTheSameInEveryLocale) {
  auto weights = zeros(1, 7, 7);
  weights(0, 0, 1, 1) = 0.3f;
  const std::string svg = heatmap(weights, {.head = 0});
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new comma));
  for (char const* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "pl_PL.UTF-8"}) {
    if (std::setlocale(LC_ALL, name) != nullptr) break;
  }
  EXPECT_EQ(heatmap(weights, {.head = 0}), svg);
  std::locale::global(before);
  std::setlocale(LC_ALL, "C");
}

TEST(Heatmap, OfNothingSaysSo) {
  EXPECT_TRUE(has(heatmap(zeros(1, 0, 7), {.head = 0}), "There is nothing to draw: 0 queries, 7 keys."));
  EXPECT_TRUE(has(heatmap(zeros(2, 3, 0)), "There is nothing to draw: 3 queries, 0 keys."));
  EXPECT_TRUE(has(heatmap(zeros(0, 3, 3)), "no heads"));
  EXPECT_EQ(fault_of_xml(heatmap(zeros(0, 0, 0))), "");
  EXPECT_EQ(fault_of_xml(heatmap(zeros(1, 1, 1))), "") << "a scale from 0 to 0";
}

TEST(Heatmap, RefusesWhatDoesNotFit) {
  const auto weights = zeros(2, 3, 4);
  const auto code = [&](heed::heatmap_options const& options) {
    try {
      (void)heatmap(weights, options);
    } catch (heed::error const& error) {
      EXPECT_EQ(std::string(error.what()).find("heed::heatmap: "), 0u) << error.what();
      return error.code();
    }
    return heed::errc::ok;
  };
  EXPECT_EQ(code({.head = 1}), heed::errc::ok);
  EXPECT_EQ(code({.head = 2}), heed::errc::index_out_of_range);
  EXPECT_EQ(code({.head = -1}), heed::errc::index_out_of_range);
  EXPECT_EQ(code({.batch = 1}), heed::errc::index_out_of_range);
  EXPECT_EQ(code({.head = 0, .query_labels = words(2)}), heed::errc::seq_len_mismatch);
  EXPECT_EQ(code({.head = 0, .key_labels = words(5)}), heed::errc::seq_len_mismatch);
  const heed::tensor_view<float, 4> null(nullptr, {1, 1, 2, 2});
  EXPECT_THROW((void)heatmap(null), heed::error);
}

TEST(ColourRamp, ChangesEvenlyAndOnlyGetsDarker) {
  constexpr int steps = 200;
  double shortest = 1, longest = 0;
  for (int i = 0; i < steps; ++i) {
    const auto here = ramp_at(static_cast<double>(i) / steps);
    const auto next = ramp_at(static_cast<double>(i + 1) / steps);
    const double way = heed::detail::oklab_distance(here, next);
    shortest = way < shortest ? way : shortest;
    longest = way > longest ? way : longest;
    EXPECT_LT(next.lightness, here.lightness);
    const auto light = heed::detail::linear_rgb(here);
    for (double channel : {light.red, light.green, light.blue}) {
      EXPECT_GE(channel, 0.0) << "share " << i << " / " << steps << " is no colour of sRGB";
      EXPECT_LE(channel, 1.0) << "share " << i << " / " << steps << " is no colour of sRGB";
    }
  }
  EXPECT_LT(longest / shortest, 1.25) << "only corners between stops may cut a step short";
}

TEST(ColourRamp, IsSrgb) {
  EXPECT_EQ(hex_colour({1, 0, 0}), "#ffffff");
  EXPECT_EQ(hex_colour({0, 0, 0}), "#000000");
  EXPECT_EQ(hex_colour({0.627955, 0.224863, 0.125846}), "#ff0000");  // red, from the definition of OKLab
}

}  // namespace
