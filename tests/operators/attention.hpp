// The operators Attention and FlexAttention in calls of heed.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "compare.hpp"
#include "rules.hpp"

namespace operators {

/// How a case is put to heed.
enum class way {
  as_it_stands,  // its few rows go the way of decoding, where the level has one
  among_rows,    // the first rows of a longer query buffer, by tiles of queries
  in_parts,      // the past and what is new apart, then merged
};

template <class Query, class T>
class translated {
 public:
  translated(onnx_case const& c, way how)
      : case_(c),
        how_(how),
        is_flat_(c.inputs.at("Q").rank() == 3),
        q_(extents_of(c.inputs.at("Q"), heads("q_num_heads", "Q"))),
        k_(extents_of(c.inputs.at("K"), heads("kv_num_heads", "K"))),
        v_(extents_of(c.inputs.at("V"), k_.heads)),
        past_(c.has_input("past_key") ? c.inputs.at("past_key").shape.at(2) : 0),
        keys_(past_ + k_.rows),
        rows_(how == way::among_rows ? q_.rows + 60 : q_.rows),
        query_(is_flat_, {q_.batch, q_.heads, rows_, q_.dim}),
        key_(is_flat_ && past_ == 0, {k_.batch, k_.heads, keys_, k_.dim}),
        value_(is_flat_ && past_ == 0, {v_.batch, v_.heads, keys_, v_.dim}),
        out_(is_flat_, {q_.batch, q_.heads, rows_, v_.dim}),
        product_({q_.batch, q_.heads, rows_, keys_}) {
    query_.put(c.inputs.at("Q"), 0);
    if (past_ > 0) key_.put(c.inputs.at("past_key"), 0), value_.put(c.inputs.at("past_value"), 0);
    key_.put(c.inputs.at("K"), past_);
    value_.put(c.inputs.at("V"), past_);
    options_.anchor = heed::at_offset(past_);
    if (c.attributes.contains("scale")) options_.scale = c.attributes.at("scale");
    if (c.attribute("softcap", 0) != 0) options_.softcap = c.attributes.at("softcap");
    if (c.has_input("nonpad_kv_seqlen")) {
      const auto lengths = c.inputs.at("nonpad_kv_seqlen").as<index_t, 1>();
      key_lengths_.assign(lengths.data(), lengths.data() + lengths.size());
      options_.anchor = heed::bottom_right;
    }
    if (how == way::among_rows) query_lengths_.assign(static_cast<std::size_t>(q_.batch), q_.rows);
    if (c.has_input("attn_mask")) {
      heed::npy_array const& mask = c.inputs.at("attn_mask");
      if (c.types.at("attn_mask") == "bool") {
        keep_.emplace(mask, false, rows_, keys_);
      } else {
        terms_.emplace(mask, static_cast<T>(-std::numeric_limits<float>::infinity()), rows_, keys_);
      }
    }
  }

  void run() {
    if (how_ == way::in_parts) {
      run_in_parts();
    } else {
      const auto to = outputs();
      with_rules(0, keys_,
                 [&](auto const& rule) { heed::attention(query(), key_.view, value_.view, to, rule, options_); });
    }
  }

  void judge(std::string const& name, std::vector<std::string>& complaints) const {
    const auto compare_with = [&](char const* output, tensor_view<T const, 4> found, index_t rows) {
      if (case_.outputs.contains(output)) compare(case_, output, found, rows, name, complaints);
    };
    compare_with("Y", out_.view, q_.rows);
    if (how_ != way::in_parts) compare_with("qk_matmul_output", product_.view(), q_.rows);
    compare_with("present_key", key_.view, keys_);
    compare_with("present_value", value_.view, keys_);
  }

 private:
  [[nodiscard]] index_t heads(char const* attribute, char const* input) const {
    return is_flat_ ? static_cast<index_t>(case_.attributes.at(attribute)) : case_.inputs.at(input).shape.at(1);
  }
  [[nodiscard]] tensor_view<Query const, 4> query() const { return query_.view; }

  [[nodiscard]] auto outputs() {
    auto to = heed::into(out_.view);
    if (!case_.outputs.contains("qk_matmul_output")) return to;
    const int mode = static_cast<int>(case_.attribute("qk_matmul_output_mode", 0));
    if (mode < 2 && !key_lengths_.empty()) {
      throw std::runtime_error("scores of padding keys, which heed does not compute by lengths, are not translated");
    }
    if (mode == 3) return to.weights(product_);
    if (mode == 0) return to.scores(product_, heed::score_stage::raw);
    return to.scores(product_, mode == 1 ? heed::score_stage::capped : heed::score_stage::biased);
  }

  /// Calls `call` with all rules of the operator, for the keys [begin, end).
  template <class Call>
  void with_rules(index_t begin, index_t end, Call const& call) const {
    if (case_.op == "FlexAttention") {
      with_score_mod(case_, [&](auto const& rule) { with_lengths(rule, call); });
    } else if (keep_) {
      keep_->with_keys(begin, end, [&](auto const& view) { with_positions(heed::keep_mask(view), call); });
    } else if (terms_) {
      terms_->with_keys(begin, end, [&](auto const& view) { with_positions(heed::bias(view), call); });
    } else {
      with_positions(heed::no_mask{}, call);
    }
  }
  template <class Rule, class Call>
  void with_positions(Rule const& rule, Call const& call) const {
    const auto bound = [&](char const* name) {
      const double size = case_.attribute(name, -1);
      return size < 0 ? std::nullopt : std::optional<index_t>(static_cast<index_t>(size));
    };
    const heed::window window{.left = bound("left_window_size"), .right = bound("right_window_size")};
    const auto with_window = [&](auto const& joined) {
      if (!window.left && !window.right) return with_lengths(joined, call);
      with_lengths(join(joined, window), call);
    };
    if (case_.attribute("is_causal", 0) == 0) return with_window(rule);
    with_window(join(rule, heed::causal{}));
  }
  template <class Rule, class Call>
  void with_lengths(Rule const& rule, Call const& call) const {
    if (key_lengths_.empty() && query_lengths_.empty()) return call(rule);
    heed::lengths lengths;
    if (!key_lengths_.empty()) lengths.key = key_lengths_;
    if (!query_lengths_.empty()) lengths.query = query_lengths_;
    call(join(rule, lengths));
  }

  void run_in_parts() {
    using accumulate = std::conditional_t<std::is_same_v<Query, double>, double, float>;
    const heed::axes<4> out_size(q_.batch, q_.heads, rows_, v_.dim);
    const heed::axes<3> lse_size(q_.batch, q_.heads, rows_);
    tensor<accumulate, 4> old_out(out_size), new_out(out_size);
    tensor<accumulate, 3> old_lse(lse_size), new_lse(lse_size);
    const auto part = [&](index_t begin, index_t end, auto& out, auto& lse) {
      options_.anchor = heed::at_offset(past_ - begin);
      with_rules(begin, end, [&](auto const& rule) {
        heed::attention(query(), key_.rows(begin, end), value_.rows(begin, end), heed::into(out).lse(lse), rule,
                        options_);
      });
    };
    part(0, past_, old_out, old_lse);
    part(past_, keys_, new_out, new_lse);
    heed::merge(heed::into(out_.view), heed::partial(old_out, old_lse), heed::partial(new_out, new_lse));
  }

  onnx_case const& case_;
  way how_;
  bool is_flat_;
  extents q_, k_, v_;
  index_t past_, keys_, rows_;
  stored<Query> query_;
  stored<T> key_, value_, out_;
  tensor<T, 4> product_;  // qk_matmul_output
  std::optional<padded_mask<bool>> keep_;
  std::optional<padded_mask<T>> terms_;
  std::vector<index_t> key_lengths_, query_lengths_;
  heed::attention_options options_;
};

/// Why heed has no call for the case; empty where it has one.
[[nodiscard]] inline std::string not_offered(onnx_case const& c) {
  if (c.op == "LinearAttention") return "another operator: a recurrence over states, without a softmax";
  if (c.graphs.contains("prob_mod")) return "prob_mod: no stage stands between the softmax and the values";
  return {};
}

/// Whatever the translation does not look at is an error, so that a newer suite cannot pass by being ignored.
inline void check_known(onnx_case const& c) {
  static const std::set<std::string> known = {"Q",
                                              "K",
                                              "V",
                                              "attn_mask",
                                              "past_key",
                                              "past_value",
                                              "nonpad_kv_seqlen",
                                              "Y",
                                              "present_key",
                                              "present_value",
                                              "qk_matmul_output",
                                              "is_causal",
                                              "scale",
                                              "softcap",
                                              "q_num_heads",
                                              "kv_num_heads",
                                              "qk_matmul_output_mode",
                                              "softmax_precision",
                                              "left_window_size",
                                              "right_window_size",
                                              "score_mod"};
  const auto check = [&](auto const& named) {
    for (auto const& [name, value] : named) {
      if (!known.contains(name)) throw std::runtime_error("not translated: " + name);
    }
  };
  if (c.op != "Attention" && c.op != "FlexAttention") throw std::runtime_error("not translated: " + c.op);
  check(c.inputs), check(c.outputs), check(c.attributes), check(c.graphs);
}

template <class Query, class T>
void run_ways(onnx_case const& c, std::vector<std::string>& complaints) {
  const auto run = [&](way how, char const* name) {
    translated<Query, T> call(c, how);
    call.run();
    call.judge(name, complaints);
  };
  run(way::as_it_stands, "as it stands");
  run(way::among_rows, "among more rows");
  if (c.has_input("past_key")) run(way::in_parts, "in two parts");
}

/// What is wrong with heed's answers; nothing where all is well.
[[nodiscard]] inline std::vector<std::string> run_case(onnx_case const& c) {
  check_known(c);
  std::vector<std::string> complaints;
  // softmax_precision is a number of onnx.TensorProto. heed's softmax is in float, in double where query is.
  const bool in_double = c.attribute("softmax_precision", 1) == 11;
  const std::string type = c.types.at("Q");
  if (type == "float32") {
    in_double ? run_ways<double, float>(c, complaints) : run_ways<float, float>(c, complaints);
  } else if (type == "float64") {
    run_ways<double, double>(c, complaints);
  } else if (type == "float16" && !in_double) {
    run_ways<heed::half, heed::half>(c, complaints);
  } else if (type == "bfloat16" && !in_double) {
    run_ways<heed::bfloat16, heed::bfloat16>(c, complaints);
  } else {
    throw std::runtime_error("not translated: " + type + " with this softmax_precision");
  }
  return complaints;
}

}  // namespace operators
