// What came out against what the suite wants: within its tolerance, as its own runner compares.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "case.hpp"
#include "layout.hpp"

namespace operators {

/// Compares the first rows of what was found with all that is wanted; says what is wrong in `complaints`.
template <class T>
void compare(onnx_case const& c, std::string const& output, tensor_view<T const, 4> found, index_t rows,
             std::string const& way, std::vector<std::string>& complaints) {
  const index_t heads = found.extent(1);
  const extents wanted_size = extents_of(c.outputs.at(output), heads);
  char text[200];
  const std::string where = output + " " + way + ": ";
  if (wanted_size.batch != found.extent(0) || wanted_size.heads != heads || wanted_size.rows != rows ||
      wanted_size.dim != found.extent(3)) {
    complaints.push_back(where + "another shape");
    return;
  }
  // Two units in the last place, as the suite has it for this type.
  const double relative = c.types.at(output) == "bfloat16" ? (std::fmax)(c.relative, 0x1p-6) : c.relative;
  index_t wrong = 0;
  double furthest = -1;
  with_heads<double>(c.outputs.at(output), heads, [&](tensor_view<double const, 4> wanted) {
    for (index_t b = 0; b < wanted.extent(0); ++b) {
      for (index_t h = 0; h < heads; ++h) {
        for (index_t i = 0; i < rows; ++i) {
          for (index_t d = 0; d < wanted.extent(3); ++d) {
            const double got = static_cast<double>(found(b, h, i, d)), want = wanted(b, h, i, d);
            if (got == want || (std::isnan(got) && std::isnan(want))) continue;
            const double off = std::fabs(got - want), allowed = c.absolute + relative * std::fabs(want);
            if (off <= allowed && std::isfinite(want)) continue;
            ++wrong;
            if (off <= furthest) continue;
            furthest = off;
            (void)std::snprintf(text, sizeof text, "%.9g instead of %.9g at [%d, %d, %d, %d]", got, want,
                                static_cast<int>(b), static_cast<int>(h), static_cast<int>(i), static_cast<int>(d));
          }
        }
      }
    }
    if (wrong == 0) return;
    complaints.push_back(where + std::to_string(wrong) + " of " + std::to_string(wanted.size()) +
                         " beyond the tolerance, " + text);
  });
}

}  // namespace operators
