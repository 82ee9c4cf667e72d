// operators <folder>: runs the cases that export.py has written there through heed, at the level of HEED_ISA.
// Prints what is wrong and what heed does not offer; the exit status is 1 where something is wrong, 77 where this
// machine does not have the level.
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "attention.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: operators <folder of export.py>\n");
    return 2;
  }
  try {
    (void)heed::active_isa();
  } catch (heed::error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return e.code() == heed::errc::unavailable_isa ? 77 : 2;
  }
  std::ifstream names(std::string(argv[1]) + "/cases.txt");
  int passed = 0, failed = 0, skipped = 0;
  std::map<std::string, int> reasons;
  for (std::string name; std::getline(names, name);) {
    std::vector<std::string> complaints;
    try {
      const operators::onnx_case loaded = operators::load_case(argv[1], name);
      const std::string reason = operators::not_offered(loaded);
      if (!reason.empty()) {
        ++skipped;
        ++reasons[reason];
        continue;
      }
      complaints = operators::run_case(loaded);
    } catch (std::exception const& e) {
      complaints.push_back(e.what());
    }
    complaints.empty() ? ++passed : ++failed;
    for (std::string const& complaint : complaints) std::printf("FAILED %s: %s\n", name.c_str(), complaint.c_str());
  }
  for (auto const& [reason, count] : reasons) std::printf("not offered, %d: %s\n", count, reason.c_str());
  const std::string level(heed::active_isa());
  std::printf("%s: %d passed, %d failed, %d skipped\n", level.c_str(), passed, failed, skipped);
  return failed == 0 && passed > 0 ? 0 : 1;
}
