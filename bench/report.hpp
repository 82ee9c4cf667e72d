// What the benches print: a table in Markdown, one line for each cell, under the names of what it was measured on.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/machine.hpp"
#include "bench/sample.hpp"
#include "heed/heed.hpp"

namespace bench {

/// A column: which counter, under which title, times `factor`, in which printf format for a double.
struct column {
  char const* counter;
  char const* title;
  double factor;
  char const* format;
};

/// The columns of every bench that compares with the FMA peak; see `count`.
inline std::vector<column> peak_columns() {
  return {{"share", "share", 1, "%.3f"},      {"low", "10 %", 1, "%.3f"},
          {"high", "90 %", 1, "%.3f"},        {"counted", "counted", 1, "%.0f"},
          {"tried", "of", 1, "%.0f"},         {"ms", "ms", 1, "%.3f"},
          {"flops", "GFLOP/s", 1e-9, "%.1f"}, {"peak", "peak", 1e-9, "%.1f"},
          {"error", "max error", 1, "%.1e"},  {"scratch", "scratch KiB", 1.0 / 1024, "%.0f"}};
}

/// Hands a measurement to Google Benchmark.
inline void count(benchmark::State& state, measurement const& found, double flops) {
  state.SetIterationTime(found.seconds);
  state.counters["share"] = found.share;
  state.counters["low"] = found.low;
  state.counters["high"] = found.high;
  state.counters["counted"] = found.counted;
  state.counters["tried"] = found.tried;
  state.counters["ms"] = found.seconds * 1e3;
  state.counters["flops"] = flops / found.seconds;
  state.counters["peak"] = found.peak;
}

class markdown_reporter : public benchmark::BenchmarkReporter {
 public:
  markdown_reporter(std::vector<column> columns, std::vector<std::pair<std::string, std::string>> facts)
      : columns_(std::move(columns)), facts_(std::move(facts)) {}

  bool ReportContext(Context const&) override {
    for (auto const& [name, text] : facts_) GetOutputStream() << name << ": " << text << "\n";
    std::string titles = "| cell |", rule = "|---|";
    for (column const& one : columns_) {
      titles += std::string(" ") + one.title + " |";
      rule += "--:|";
    }
    GetOutputStream() << "\n" << titles << "\n" << rule << std::endl;
    return true;
  }

  void ReportRuns(std::vector<Run> const& runs) override {
    for (Run const& run : runs) {
      std::string line = "| " + run.run_name.function_name;
      if (!run.aggregate_name.empty()) line += " (" + run.aggregate_name + ")";
      line += " |";
      for (column const& one : columns_) {
        char text[64] = "";
        const auto found = run.counters.find(one.counter);
        if (found != run.counters.end()) std::snprintf(text, sizeof text, one.format, found->second.value * one.factor);
        line += std::string(" ") + text + " |";
      }
      GetOutputStream() << line << std::endl;
    }
  }

  void Finalize() override { GetOutputStream() << "\nload average after: " << load_average() << std::endl; }

 private:
  std::vector<column> columns_;
  std::vector<std::pair<std::string, std::string>> facts_;
};

/// The main() of every bench: `register_all` names the cells, Google Benchmark's options choose among them.
/// --benchmark_format=json or csv prints these instead of the table.
template <class Register>
int run_benches(int argc, char** argv, std::vector<column> columns, Register const& register_all) {
  bool wants_table = true;
  for (int i = 1; i < argc; ++i) {
    wants_table = wants_table && std::string_view(argv[i]).rfind("--benchmark_format", 0) != 0;
  }
  try {
    std::vector<std::pair<std::string, std::string>> facts = {{"processor", processor_name()},
                                                              {"level", std::string(heed::active_isa())},
                                                              {"compiler", compiler_name()},
                                                              {"load average before", load_average()}};
    for (auto const& [name, text] : facts) benchmark::AddCustomContext(name, text);
    register_all();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    markdown_reporter table(std::move(columns), std::move(facts));
    benchmark::RunSpecifiedBenchmarks(wants_table ? &table : nullptr);
    benchmark::Shutdown();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
  return 0;
}

}  // namespace bench
