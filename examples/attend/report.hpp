// What a person wants to know, as text.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "load.hpp"
#include "run.hpp"

namespace attend {

/// One of the lines "name: value" of heed::explain.
inline std::string line_of(std::string const& plan, std::string const& name) {
  const std::size_t at = ("\n" + plan).find("\n" + name + ": ");
  if (at == std::string::npos) return "?";
  const std::size_t begin = at + name.size() + 2;
  return plan.substr(begin, plan.find('\n', begin) - begin);
}

template <class T>
void print_inputs(arguments const& given, heed::npy_array const& query, problem<T> const& job) {
  const auto shape = [](char const* name, heed::tensor_view<T, 4> const& view, std::string const& path) {
    const auto n = [&](std::size_t axis) { return static_cast<long long>(view.extent(axis)); };
    std::printf("%-9s [batch=%lld, heads=%lld, rows=%lld, dim=%lld]  %s\n", name, n(0), n(1), n(2), n(3), path.c_str());
  };
  shape("query", job.query.view,
        given.query + " (" + query.code() + " " + query.shape_text() + ", " + job.layout + ")");
  shape("key", job.key.view, given.key);
  shape("value", job.value.view, given.value);
  std::string rules = job.causal ? ", causal, anchor " + given.anchor : "";
  if (!job.key_lengths.empty()) rules += ", key lengths";
  for (std::size_t b = 0; b < job.key_lengths.size() && b < 8; ++b) rules += " " + std::to_string(job.key_lengths[b]);
  if (job.key_lengths.size() > 8) rules += " ...";
  if (job.mask) rules += (given.keep.empty() ? ", drop " + given.drop : ", keep " + given.keep);
  std::printf("rules     %s\n", rules.empty() ? "none" : rules.c_str() + 2);
}

/// `peak` is of as many threads as ran, in GFLOP/s.
template <class T>
void print_run(std::string const& plan, results<T> const& found, double peak) {
  const double rate = std::atof(line_of(plan, "flops").c_str()) / found.seconds * 1e-9;
  const std::string threads = line_of(plan, "threads");
  std::printf("ran       %s, tiles of %s, blocks of scores: %s\n", line_of(plan, "isa").c_str(),
              line_of(plan, "tile").c_str(), line_of(plan, "blocks").c_str());
  const std::string runs = found.runs > 1 ? " (best of " + std::to_string(found.runs) + ")" : "";
  const std::string all = threads + (threads == "1" ? " thread" : " threads");
  std::printf("time      %.4g ms%s on %s: %.1f GFLOP/s, %.0f %% of the %.0f that %s of this machine can do\n",
              found.seconds * 1e3, runs.c_str(), all.c_str(), rate, 100 * rate / peak, peak, all.c_str());
}

inline void print_facts(row_facts const& facts, arguments const& given, axis_names const& names) {
  const index_t full = facts.rows - facts.empty_rows - facts.nan_rows;
  const auto where = [&](extreme const& row) {
    std::string text = "batch " + std::to_string(row.batch) + ", head " + std::to_string(row.head) + ", row " +
                       std::to_string(row.row);
    const bool named = row.batch == given.batch && row.row < static_cast<index_t>(names.query.size());
    if (!given.tokens.empty() && named) text += " '" + names.query[static_cast<std::size_t>(row.row)] + "'";
    return text;
  };
  std::printf("rows      %lld", static_cast<long long>(facts.rows));
  if (facts.empty_rows > 0) std::printf(", %lld see no key", static_cast<long long>(facts.empty_rows));
  if (facts.nan_rows > 0) std::printf(", %lld hold NaN", static_cast<long long>(facts.nan_rows));
  if (full > 0) {
    std::printf("; weights sum to %.7f .. %.7f\n", facts.smallest_sum, facts.largest_sum);
    std::printf("entropy   smallest %.3f bits (%s), largest %.3f bits (%s)", facts.smallest_entropy.value,
                where(facts.smallest_entropy).c_str(), facts.largest_entropy.value,
                where(facts.largest_entropy).c_str());
  }
  std::printf("\n");
}

/// "it -> animal 0.22", in columns. `weights` [1, 1, rows, keys].
template <class T>
void print_links(heed::tensor_view<T const, 4> weights, axis_names const& names, index_t batch, index_t head) {
  std::printf("links     strongest of each token, batch item %lld, head %lld:\n", static_cast<long long>(batch),
              static_cast<long long>(head));
  std::size_t column = 0;
  for (index_t i = 0; i < static_cast<index_t>(names.query.size()); ++i) {
    const index_t j = strongest(weights, 0, i);
    std::string link = names.query[static_cast<std::size_t>(i)] + " -> ";
    char number[32] = "";
    if (j >= 0) std::snprintf(number, sizeof(number), " %.2f", static_cast<double>(weights(0, 0, i, j)));
    link += j >= 0 ? names.key[static_cast<std::size_t>(j)] + number : "nothing";
    const std::size_t place = (column + 27) / 28 * 28;  // the next of four columns
    if (place + link.size() > 112) {
      std::printf("\n");
      column = 0;
    }
    const std::size_t gap = column == 0 ? 2 : place + 2 - column;
    std::printf("%*s%s", static_cast<int>(gap), "", link.c_str());
    column = (column == 0 ? 2 : place + 2) + link.size();
  }
  std::printf("\n");
}

/// The one line on stderr; returns the exit status that goes with it.
inline int complain(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  std::fflush(stdout);
  std::fprintf(stderr, "attend: %s\n", text.c_str());
  return 2;
}

inline bool print_error(char const* name, std::string const& what, double error, double allowed) {
  std::printf("%-9s %s: %.1e over 1 + |value|, %.0e allowed: %s\n", name, what.c_str(), error, allowed,
              error <= allowed ? "ok" : "FAILED");
  return error <= allowed;
}

}  // namespace attend
