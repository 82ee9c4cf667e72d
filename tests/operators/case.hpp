// One case of the suite, as export.py has written it: what the model says, and its tensors.
#pragma once

#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#include "heed/interop/npy.hpp"

namespace operators {

struct onnx_case {
  std::string name;
  std::string op;  // "Attention"
  double relative = 0, absolute = 0;
  std::map<std::string, heed::npy_array> inputs, outputs;
  std::map<std::string, std::string> types;   // of inputs and outputs: "float32"
  std::map<std::string, double> attributes;   // numbers
  std::map<std::string, std::string> graphs;  // "score_mod": "Div Tanh Mul"
  std::map<std::string, double> constants;    // that stand in the graphs

  [[nodiscard]] bool has_input(std::string const& input) const { return inputs.contains(input); }
  [[nodiscard]] double attribute(std::string const& key, double absent) const {
    const auto found = attributes.find(key);
    return found == attributes.end() ? absent : found->second;
  }
};

[[nodiscard]] inline onnx_case load_case(std::string const& root, std::string const& name) {
  const std::string folder = root + "/" + name;
  std::ifstream text(folder + "/case.txt");
  if (!text) throw std::runtime_error(folder + "/case.txt cannot be read");
  onnx_case loaded;
  loaded.name = name;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string kind, key, rest;
    words >> kind >> key >> std::ws;
    std::getline(words, rest);
    if (kind == "operator") {
      loaded.op = key;
    } else if (kind == "tolerance") {
      loaded.relative = std::stod(key);
      loaded.absolute = std::stod(rest);
    } else if (kind == "input" || kind == "output") {
      auto& tensors = kind == "input" ? loaded.inputs : loaded.outputs;
      tensors.emplace(key, heed::load_npy(folder + "/" + key + ".npy"));
      loaded.types[key] = rest;
    } else if (kind == "attribute") {
      // Words name update rules of operators that heed does not have.
      char* end = nullptr;
      const double number = std::strtod(rest.c_str(), &end);
      loaded.attributes[key] = *end == '\0' ? number : std::numeric_limits<double>::quiet_NaN();
    } else if (kind == "graph") {
      loaded.graphs[key] = rest;
    } else if (kind == "constant") {
      loaded.constants[key] = std::stod(rest);
    } else {
      throw std::runtime_error(folder + "/case.txt: a line that is not understood: " + line);
    }
  }
  return loaded;
}

}  // namespace operators
