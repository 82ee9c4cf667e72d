// The flags of the program, and what --help says.
#pragma once

#include <CLI/CLI.hpp>

#include "arguments.hpp"

namespace attend {

inline void declare(CLI::App& app, arguments& given) {
  app.description(
      "Scaled dot-product attention on tensors in NumPy's .npy files: computes, checks, explains and draws.\n"
      "Without arguments: a tour of the real data that come with heed.\n"
      "Exit status: 0 done, 1 a check failed, 2 wrong files, shapes or arguments (then no output file is touched).");
  auto* const in = app.add_option_group("Inputs");
  in->add_option("--query", given.query, "float or integer array, laid out as --layout says")->type_name("FILE");
  in->add_option("--key", given.key, "likewise")->type_name("FILE");
  in->add_option("--value", given.value, "likewise")->type_name("FILE");
  in->add_option("--layout", given.layout,
                 "axes of the files: bhsd, bshd, bsd ([B, S, H*D]) or sd ([S, H*D]); default by the number of axes")
      ->check(CLI::IsMember({"bhsd", "bshd", "bsd", "sd"}));
  in->add_option("--heads", given.heads, "query heads in bsd and sd (default 1)");
  in->add_option("--kv-heads", given.kv_heads, "key-value heads in bsd and sd (default: as many as fit)");
  in->add_option("--tokens", given.tokens, "text file, one line per batch item, tokens parted by spaces")
      ->type_name("FILE");

  auto* const rules = app.add_option_group("Rules");
  rules->add_flag("--causal", given.causal,
                  "row i sees key j iff j <= i + offset (with --key-lengths in self-attention: --anchor top-left)");
  rules->add_option("--anchor", given.anchor, "the offset: bottom-right (default), top-left, or a number");
  rules->add_option("--key-lengths", given.key_lengths, "integers [B]: the keys that each batch item has")
      ->type_name("FILE");
  auto* const keep = rules->add_option("--keep", given.keep, "bools, right-aligned with [B, H, Sq, Skv]: true = attend")
                         ->type_name("FILE");
  rules->add_option("--drop", given.drop, "the same with true = hidden")->type_name("FILE")->excludes(keep);
  rules->add_option("--scale", given.scale, "factor on the scores (default 1/sqrt(head_dim))");

  auto* const results = app.add_option_group("Results");
  results->add_option("--out", given.out, "write out here, laid out like the query")->type_name("FILE");
  results->add_option("--weights", given.weights, "write the weights here: [B, H, Sq, Skv]")->type_name("FILE");
  results->add_option("--lse", given.lse, "write the log-sum-exp here: [B, H, Sq]")->type_name("FILE");
  results->add_option("--picture", given.picture, "write a heat map here (SVG): of --head, or of all heads")
      ->type_name("FILE");
  results->add_option("--head", given.head, "the head for the picture and the strongest links");
  results->add_option("--batch", given.batch, "the batch item for them (default 0)");
  results->add_flag("--check", given.check, "compare with the double reference");

  app.add_option("--threads", given.threads, "at most this many (default: as many as pay)");
  app.add_flag("--explain", given.explain, "print what the library says about this call");
}

}  // namespace attend
