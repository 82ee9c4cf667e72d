// What the benches print: a table in Markdown, one line for each cell, under the names of what it was measured on.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/call.hpp"
#include "bench/machine.hpp"
#include "bench/sample.hpp"

namespace bench {

/// A column: which counter, under which title, times `factor`, in which printf format for a double.
struct column {
  char const* counter;
  char const* title;
  double factor;
  char const* format;
};

/// The columns of every bench that compares with the FMA peak, see `count`; and what one of them shows besides, first.
inline std::vector<column> peak_columns(std::vector<column> columns = {}) {
  for (column const& one :
       {column{"share", "share", 1, "%.3f"}, column{"low", "10 %", 1, "%.3f"}, column{"high", "90 %", 1, "%.3f"},
        column{"counted", "counted", 1, "%.0f"}, column{"tried", "of", 1, "%.0f"}, column{"ms", "ms", 1, "%.4g"},
        column{"flops", "GFLOP/s", 1e-9, "%.1f"}, column{"peak", "peak", 1e-9, "%.1f"},
        column{"error", "max error", 1, "%.1e"}, column{"scratch", "scratch KiB", 1.0 / 1024, "%.0f"}}) {
    columns.push_back(one);
  }
  return columns;
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

/// A result that is wrong makes the cell, and with it the program, fail.
inline void count_error(benchmark::State& state, double error, double limit) {
  state.counters["error"] = error;
  if (!(error <= limit)) {
    char text[64];
    std::snprintf(text, sizeof text, "wrong: off by %.1e, more than %.1e", error, limit);
    state.SkipWithError(text);
  }
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
      if (run.error_occurred) {
        GetOutputStream() << line << " " << run.error_message << " |" << std::endl;
        failed_ = true;
        continue;
      }
      for (column const& one : columns_) {
        char text[64] = "";
        const auto found = run.counters.find(one.counter);
        if (found != run.counters.end()) std::snprintf(text, sizeof text, one.format, found->second.value * one.factor);
        line += std::string(" ") + text + " |";
      }
      GetOutputStream() << line << std::endl;
    }
  }

  bool failed() const { return failed_; }

  void Finalize() override { GetOutputStream() << "\nload average after: " << load_average() << std::endl; }

 private:
  bool failed_ = false;
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
                                                              {"level", std::string(level())},
                                                              {"compiler", compiler_name()},
                                                              {"load average before", load_average()}};
    for (auto const& [name, text] : facts) benchmark::AddCustomContext(name, text);
    register_all();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    markdown_reporter table(std::move(columns), std::move(facts));
    const std::size_t found = benchmark::RunSpecifiedBenchmarks(wants_table ? &table : nullptr);
    benchmark::Shutdown();
    if (found == 0 || table.failed()) return 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
  return 0;
}

}  // namespace bench
