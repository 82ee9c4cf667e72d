// The tour: two language models' real attention, checked against what was recorded, and drawn.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "arguments.hpp"
#include "recorded.hpp"
#include "report.hpp"

namespace attend {

/// examples/data, from the source folder, from where it was built, or above the program.
inline std::string example_data() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<std::filesystem::path> folders = {"examples/data", "../examples/data", "data"};
#if defined(HEED_EXAMPLE_DATA_DIR)
  folders.push_back(HEED_EXAMPLE_DATA_DIR);
#endif
  for (char const* up : {"..", "../..", "../../.."}) folders.push_back(program / up / "examples/data");
  for (auto const& folder : folders) {
    if (std::filesystem::exists(folder / "minilm/lengths.npy", ignored)) return folder.string();
  }
  refuse("examples/data was not found; start this program in the source folder, or give --query, --key and --value");
}

inline arguments recorded_layer(std::string const& model, std::string const& layer, double allowed) {
  const std::string folder = example_data() + "/" + model + "/" + layer;
  arguments given;
  given.query = folder + "/query.npy";
  given.key = folder + "/key.npy";
  given.value = folder + "/value.npy";
  given.tokens = example_data() + "/" + model + "/tokens.txt";
  given.check = true;
  given.recorded = folder;
  given.allowed = allowed;
  return given;
}

inline int demo(int (*attend)(arguments const&)) {
  int failed = 0;
  const auto tour = [&](char const* text, arguments const& given) {
    std::printf("\n== %s\n", text);
    failed += attend(given) != 0 ? 1 : 0;
  };
  std::printf("heed on real attention: everything below is computed, checked and drawn now.\n");

  arguments minilm = recorded_layer("minilm", "layer0", 2e-6);
  minilm.heads = 12;
  minilm.key_lengths = example_data() + "/minilm/lengths.npy";
  minilm.head = 6;
  minilm.picture = "attend-minilm.svg";
  minilm.title = "MiniLM, layer 0, head 6: what does \"it\" mean?";
  tour("MiniLM, layer 0: three padded sentences, 12 heads", minilm);

  arguments smollm2 = recorded_layer("smollm2", "layer12", 2e-5);
  smollm2.causal = true;
  smollm2.head = 4;
  smollm2.picture = "attend-smollm2.svg";
  smollm2.title = "SmolLM2, layer 12, head 4: what is it about?";
  tour("SmolLM2, layer 12: 50 tokens, causal, 9 query heads over 3 key-value heads", smollm2);

  std::printf("\n== The other layers\n");
  const auto brief = [&](char const* model, char const* layer, arguments given, double allowed) {
    arguments const files = recorded_layer(model, layer, allowed);
    given.query = files.query;
    given.key = files.key;
    given.value = files.value;
    given.recorded = files.recorded;
    if (!print_error("recorded", "as in " + given.recorded, recorded_error(given), allowed)) ++failed;
  };
  brief("minilm", "layer4", minilm, 2e-6);
  brief("smollm2", "layer0", smollm2, 2e-5);
  brief("smollm2", "layer29", smollm2, 2e-5);
  std::printf("\n%s\n", failed == 0 ? "All as it should be. Open attend-minilm.svg and attend-smollm2.svg in a browser."
                                    : "Something differs from what was recorded.");
  return failed == 0 ? 0 : 1;
}

}  // namespace attend
