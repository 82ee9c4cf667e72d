// What was measured on: the processor, the compiler, the instruction set. A figure without them says nothing.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace bench {

/// The value of the first line of /proc/cpuinfo whose name is `field`; empty where there is none.
inline std::string cpuinfo(std::string const& field) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, field.size(), field) != 0) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

/// The brand string with family and model: virtual machines often shorten the brand to a word.
inline std::string processor_name() {
  std::string name;
#if defined(__x86_64__)
  unsigned words[12] = {};
  unsigned highest[4] = {};
  if (__get_cpuid(0x80000000u, &highest[0], &highest[1], &highest[2], &highest[3]) != 0 && highest[0] >= 0x80000004u) {
    for (unsigned part = 0; part < 3; ++part) {
      unsigned* const out = words + 4 * part;
      __get_cpuid(0x80000002u + part, out, out + 1, out + 2, out + 3);
    }
    char text[sizeof words + 1] = {};
    std::memcpy(text, words, sizeof words);
    name = text;
  }
#endif
  const auto blank = [](char c) { return c == ' ' || c == '\0'; };
  while (!name.empty() && blank(name.back())) name.pop_back();
  name.erase(name.begin(), std::find_if_not(name.begin(), name.end(), blank));
  if (name.empty()) name = cpuinfo("model name");
  if (name.empty()) name = "unknown processor";
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0) {
    const unsigned base_family = (eax >> 8) & 0xfu;
    const unsigned family = base_family == 0xfu ? base_family + ((eax >> 20) & 0xffu) : base_family;
    const bool has_long_model = base_family == 0x6u || base_family == 0xfu;
    const unsigned model = ((eax >> 4) & 0xfu) + (has_long_model ? ((eax >> 16) & 0xfu) << 4 : 0u);
    name += ", family " + std::to_string(family) + " model " + std::to_string(model);
  }
#else
  if (const std::string part = cpuinfo("CPU part"); !part.empty()) name += ", part " + part;
#endif
  return name;
}

inline std::string compiler_name() {
#if defined(__clang__)
  std::string name = std::string("clang++ ") + __clang_version__;
#else
  std::string name = std::string("g++ ") + __VERSION__;
#endif
  while (!name.empty() && name.back() == ' ') name.pop_back();
#if !defined(__OPTIMIZE__)
  name += ", NOT OPTIMISED";
#endif
  return name;
}

/// The load averages of the last 1, 5 and 15 minutes: figures of a machine at work are figures of the others' work.
inline std::string load_average() {
  std::ifstream file("/proc/loadavg");
  std::string one, five, fifteen;
  file >> one >> five >> fifteen;
  return one.empty() ? "unknown" : one + " " + five + " " + fifteen;
}

}  // namespace bench
