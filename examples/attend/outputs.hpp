// The files of one call: their places are tried first, and all of them appear together, after everything went well.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <heed/interop/npy.hpp>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "inputs.hpp"

namespace attend {

class outputs {
 public:
  /// Refuses places that cannot be written, or where one file would replace another of this call.
  explicit outputs(arguments const& given) {
    const std::pair<char const*, std::string> results[] = {
        {"--out", given.out}, {"--weights", given.weights}, {"--lse", given.lse}, {"--picture", given.picture}};
    std::vector<std::pair<std::string, std::filesystem::path>> taken;
    for (auto const& [flag, path] : {std::pair{"--query", given.query},
                                     {"--key", given.key},
                                     {"--value", given.value},
                                     {"--keep", given.keep},
                                     {"--drop", given.drop},
                                     {"--key-lengths", given.key_lengths},
                                     {"--tokens", given.tokens}}) {
      if (!path.empty()) taken.emplace_back(std::string(flag) + " " + path, place_of(path));
    }
    for (auto const& [flag, path] : results) {
      if (path.empty()) continue;
      const std::string name = std::string(flag) + " " + path;
      const std::filesystem::path place = place_of(path);
      for (auto const& [other, its_place] : taken) {
        if (its_place == place) refuse(name + ": this is the same file as " + other);
      }
      taken.emplace_back(name, place);
      std::error_code ignored;
      const std::filesystem::path folder = place.parent_path();
      if (!std::filesystem::is_directory(folder, ignored)) refuse(name + ": there is no such folder");
      if (::access(folder.c_str(), W_OK) != 0) refuse(name + ": its folder cannot be written");
      if (std::filesystem::exists(place, ignored) && !std::filesystem::is_regular_file(place, ignored)) {
        refuse(name + ": there is something that is not a file");
      }
    }
  }

  /// Writes beside the place; nothing appears before commit().
  template <class View>
  void array(std::string const& path, View const& view) {
    heed::staged_file file(path);
    heed::save_npy(file, view);
    files_.push_back(std::move(file));
    shapes_.push_back("");
    for (std::size_t axis = 0; axis < View::rank; ++axis) {
      shapes_.back() += (axis == 0 ? "  [" : ", ") + std::to_string(view.extent(axis));
    }
    shapes_.back() += "]";
  }
  /// out, laid out and rounded as the query's file is.
  template <class T>
  void array_like(std::string const& path, operand<T> const& out, heed::npy_type type) {
    if (type == heed::npy_type::f2) {
      heed::tensor<heed::half, 1> halves({out.data.size()});
      for (index_t i = 0; i < halves.size(); ++i) halves(i) = static_cast<heed::half>(out.data(i));
      return shaped(path, halves, out.shape);
    }
    shaped(path, out.data, out.shape);
  }
  void text(std::string const& path, std::string const& content) {
    heed::staged_file file(path);
    file.write(content);
    files_.push_back(std::move(file));
    shapes_.push_back("");
  }
  void commit() {
    for (heed::staged_file& file : files_) file.commit();
    for (std::size_t i = 0; i < files_.size(); ++i) {
      std::printf("wrote     %s%s\n", files_[i].path().c_str(), shapes_[i].c_str());
    }
  }

 private:
  template <class T>
  void shaped(std::string const& path, heed::tensor<T, 1> const& flat, std::vector<index_t> const& n) {
    if (n.size() == 2) array(path, heed::tensor_view<T const, 2>(flat.data(), {n[0], n[1]}));
    if (n.size() == 3) array(path, heed::tensor_view<T const, 3>(flat.data(), {n[0], n[1], n[2]}));
    if (n.size() == 4) array(path, heed::tensor_view<T const, 4>(flat.data(), {n[0], n[1], n[2], n[3]}));
  }
  static std::filesystem::path place_of(std::string const& path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
  }

  std::vector<heed::staged_file> files_;
  std::vector<std::string> shapes_;
};

}  // namespace attend
