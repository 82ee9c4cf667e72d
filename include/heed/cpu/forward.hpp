// The forward pass on the CPU: what runs, in how many pieces, on how many threads.
#pragma once

#include "heed/cpu/decode.hpp"
#include "heed/cpu/piece.hpp"

namespace heed::detail {
inline namespace HEED_ABI {

template <class Real>
[[nodiscard]] kernel<Real> kernel_of(problem const& call, rule_view const& rule, rule_verbs<Real> const& rule_verb,
                                     verbs<Real> const& verb) noexcept {
  const double scale = call.options.scale.has_value() ? *call.options.scale
                                                      : 1.0 / __builtin_sqrt(static_cast<double>(call.head_dim_qk));
  const Real unit = verb.elements_per_word > 1 ? static_cast<Real>(__builtin_fabs(scale)) : Real(1);
  const Real cap = call.options.softcap.has_value() ? cap_in<Real>(*call.options.softcap) : Real(0);
  // A soft cap and stages want scores as they are, so the unit cannot wait for the softmax. Neither can it where what a
  // row begins with has no place among scores without it.
  bool early = cap != Real(0) || rule.adjusts();
  for (index_t head = 0; unit != Real(1) && head < call.num_heads; ++head) {
    const row_start start = rule.start_of(head);
    early = early || (start.sum != 0 && __builtin_fabs(start.max / static_cast<double>(unit)) > 1e38);
  }
  return {call,
          verb,
          rule,
          rule_verb,
          static_cast<Real>(scale),
          log2_e<Real> * (early ? Real(1) : unit),
          early ? Real(1) : unit,
          early ? unit : Real(1),
          cap,
          greater(keys_per_block(call.head_dim_qk, call.head_dim_v, static_cast<index_t>(sizeof(Real))),
                  verb.keys_per_line())};
}

/// The keys that any row of the query heads of one kv head may see, or show. A rule may treat each of them its own way.
[[nodiscard]] inline key_range keys_seen(problem const& call, rule_view const& rule, sequence const& seq, index_t batch,
                                         index_t kv_head) {
  if (call.scores.show_hidden()) return {seq.key_begin, seq.key_end};
  key_range seen{seq.key_end, seq.key_begin};
  for (index_t head = kv_head * call.group_size; head < (kv_head + 1) * call.group_size; ++head) {
    const key_range one = rule.visible_keys({batch, head, 0, seq.query_len, seq.key_begin, seq.key_end, seq.offset});
    if (one.begin < one.end) seen = {lesser(seen.begin, one.begin), greater(seen.end, one.end)};
  }
  return {greater(seen.begin, seq.key_begin), lesser(seen.end, seq.key_end)};
}

/// Packs what any row may see of K and V, of the kv heads of the wave that begins with `first`.
template <class Real>
void pack_heads(kernel<Real> const& run, partition const& cut, index_t first) {
  problem const& call = run.call;
  const index_t pieces = ceil_div(call.seq_len_kv, keys_per_packing);
  const index_t heads = lesser(cut.heads_per_wave, call.batch_size * call.num_kv_heads - first);
  parallel_for(heads * pieces, workers_of(call, cut.threads), [&](index_t item) {
    const index_t place = item / pieces;
    const index_t batch = (first + place) / call.num_kv_heads;
    const index_t head = (first + place) % call.num_kv_heads;
    const sequence seq = sequence_of(call, run.rule, batch);
    if (seq.query_len == 0 || seq.key_begin >= seq.key_end) return;
    const key_range seen = keys_seen(call, run.rule, seq, batch, head);
    const index_t begin = greater(item % pieces * keys_per_packing, seen.begin);
    const index_t last = lesser((item % pieces + 1) * keys_per_packing, seen.end);
    if (begin >= last) return;
    if (run.key.first != nullptr) {
      pack_key_rows(run, call.key, batch, head, begin, last,
                    run.key.first + place * run.key.head_words + begin * run.key.row_words);
    }
    if (run.value.first != nullptr) {
      pack_value_rows(run, call.value, batch, head, begin, last,
                      run.value.first + place * run.value.head_words +
                          div_pow2(begin, run.verb.keys_per_line()) * run.value.row_words);
    }
  });
}

/// Runs a checked call. Real is the accumulate type. `few`: the verbs for few query rows, null where it runs on tiles.
template <class Real>
void forward(problem const& call, rule_view const& rule, rule_verbs<Real> const& rule_verb, verbs<Real> const& verb,
             row_verbs<Real> const* few) {
  if (few != nullptr) return decode_call<Real>(kernel_of(call, rule, rule_verb, verb), *few).run();
  kernel<Real> run = kernel_of(call, rule, rule_verb, verb);
  double flops = 0;
  const partition cut = partition_of(run, &flops);
  const index_t words = packed_words(run, cut.key, cut.value);
  const scratch memory(static_cast<std::size_t>(cut.heads_per_wave * words) * sizeof(Real), scratch_use::shared);
  Real* const packed = reinterpret_cast<Real*>(memory.data());
  if (cut.key == placement::packed_once) {
    run.key = {packed, call.seq_len_kv * run.query_words(), run.query_words()};
  }
  if (cut.value == placement::packed_once) {
    run.value = {packed + cut.heads_per_wave * run.key.head_words,
                 ceil_div_pow2(call.seq_len_kv, verb.keys_per_line()) * run.value_words(), run.value_words()};
  }
  const std::size_t bytes = piece<Real>::scratch_bytes(run, cut);
  for_each_wave(call, cut, verb.lanes, [&](index_t first_head, piece_list const& pieces) {
    run.first_packed_head = first_head;
    if (cut.packs_waves) pack_heads(run, cut, first_head);
    parallel_for(pieces.count(), workers_of(call, cut.threads),
                 [&](index_t number) { piece<Real>(run, cut, pieces, number, number + cut.threads).attend(bytes); });
  });
}

}  // namespace HEED_ABI
}  // namespace heed::detail
