// attend: scaled dot-product attention on .npy files. Computes, checks, explains and draws; see `attend --help`.
//
//   attend --query q.npy --key k.npy --value v.npy --causal --out o.npy --picture map.svg --head 3 --tokens words.txt
//
// Without arguments it reads the tensors of two language models in examples/data.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <heed/analysis/heatmap.hpp>
#include <heed/heed.hpp>
#include <heed/interop/npy.hpp>
#include <new>
#include <string>
#include <type_traits>

#include "attend/command_line.hpp"
#include "attend/demo.hpp"
#include "attend/outputs.hpp"
#include "attend/peak.hpp"
#include "attend/recorded.hpp"
#include "attend/report.hpp"

namespace attend {

/// The story of one call. T is what query is computed in: double for f8 files, float for all others.
template <class T>
int attend_in(arguments const& given, heed::npy_array const& query) {
  outputs files(given);
  const problem<T> job = load_problem<T>(given, query);
  results<T> found = room_for(job);
  std::string plan;
  job.with(job.whole(), [&](auto q, auto k, auto v, auto const& rule, auto const& options) {
    plan = heed::explain(q, k, v, heed::into(found.out.view).lse(found.lse), rule, options);
  });
  const axis_names names = names_of(given, job);
  print_inputs(given, query, job);
  if (given.explain) std::printf("-- explain\n%s--\n", plan.c_str());

  const double peak = peak_gflops<T>(std::max(std::atoi(line_of(plan, "threads").c_str()), 1));
  run(job, found, peak);
  print_run(plan, found, peak);

  heed::tensor<T, 4> weights;
  if (!given.weights.empty()) {
    weights = heed::tensor<T, 4>({job.batch_size(), job.num_heads(), job.rows(), job.keys()});
  }
  print_facts(facts_of<T>(job, weights.view()), given, names);

  bool good = true;
  if (given.check) {
    const double allowed = std::is_same_v<T, double> ? 1e-12 : 2e-5;
    const errors worst = check(job, found);
    good &= print_error("check", "out against the double reference", worst.out.value, allowed);
    good &= print_error("check", "lse against the double reference", worst.lse.value, allowed);
  }
  if (!given.recorded.empty()) {
    const double error = against_recorded(given.recorded, job, found).value;
    good &= print_error("recorded", "results as in " + given.recorded, error, given.allowed);
  }

  // The weights of the chosen head, or of all heads, as far as the batch item goes.
  std::string picture;
  if (!given.tokens.empty() || !given.picture.empty()) {
    const index_t head = given.head.value_or(0);
    const bool one = given.head || given.picture.empty();
    const piece at{{given.batch, given.batch + 1}, {one ? head : 0, one ? head + 1 : job.num_heads()}, {0, job.rows()}};
    heed::tensor<T, 4> chosen({index_t{1}, at.head.size(), job.rows(), job.keys()});
    heed::tensor<T, 3> lse({index_t{1}, at.head.size(), job.rows()});
    weights_of<T>(job, at, chosen, lse);
    const heed::tensor_view<T const, 4> shown(chosen.data(),
                                              {index_t{1}, at.head.size(), names.query.size(), names.key.size()},
                                              {chosen.stride(0), chosen.stride(1), chosen.stride(2), chosen.stride(3)});
    if (!given.tokens.empty()) print_links<T>(shown, names, given.batch, head);
    heed::heatmap_options look{.query_labels = names.query, .key_labels = names.key, .title = given.title};
    if (given.head) look.head = 0;
    if (given.title.empty()) {
      look.title = given.query + ", batch item " + std::to_string(given.batch) +
                   (given.head ? ", head " + std::to_string(head) : ", all heads");
    }
    if (!given.picture.empty()) picture = heed::heatmap(shown, look);
  }
  if (!good) return 1;

  if (!given.out.empty()) files.array_like(given.out, found.out, query.type);
  if (!given.weights.empty()) files.array(given.weights, weights);
  if (!given.lse.empty()) files.array(given.lse, found.lse);
  if (!given.picture.empty()) files.text(given.picture, picture);
  files.commit();
  return 0;
}

int attend(arguments const& given) {
  const heed::npy_array query = heed::load_npy(given.query);
  return query.type == heed::npy_type::f8 ? attend_in<double>(given, query) : attend_in<float>(given, query);
}

}  // namespace attend

int main(int count, char** words) {
  CLI::App app;
  attend::arguments given;
  attend::declare(app, given);
  try {
    app.parse(count, words);
    if (count == 1) return attend::demo(attend::attend);
    if (given.query.empty() || given.key.empty() || given.value.empty()) {
      attend::refuse("--query, --key and --value are needed");
    }
    return attend::attend(given);
  } catch (CLI::CallForHelp const& help) {
    return app.exit(help);
  } catch (std::bad_alloc const&) {
    return attend::complain("there is not enough memory for this call");
  } catch (std::exception const& error) {
    return attend::complain(error.what());
  }
}
