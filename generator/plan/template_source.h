// Templates: filling a translation unit's holes and gathering what it includes.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "generator/plan/plan.h"

namespace stratum::gen {

// Hole -> value.
using Holes = std::map<std::string, std::string>;

// What a kernel's template may ask for: name, arch, dtype, dimensions, flags, tile fields, block, shared_bytes.
Holes holes_of(const KernelSpec& spec);

// The template with every @hole@ replaced. Throws InputError naming `file` and the line for a hole without a value, and
// naming the field for an entry of `required` that the text has no hole for.
std::string fill_holes(const std::string& text, const Holes& holes, const std::vector<std::string>& required,
                       const std::string& file);

// The names that `text` includes with #include "...", in order; comments are passed over. Throws InputError naming
// `file` and the line for any other form, which could bring in a file that is no input of the kernel.
std::vector<std::string> scan_includes(const std::string& text, const std::string& file);

// Files of the templates folder, each read once however many kernels include it. Safe to use from several threads.
class SourceTree {
 public:
  explicit SourceTree(std::filesystem::path root) : root_(std::move(root)) {}

  // A file's text; `name` is relative to the folder and may not leave it. Throws InputError.
  const std::string& text(const std::string& name);

  // Everything that `text` includes, directly or through others: name -> text.
  std::map<std::string, std::string> headers_of(const std::string& text, const std::string& file);

 private:
  std::filesystem::path root_;
  std::mutex mutex_;
  std::map<std::string, std::string> texts_;
};

// A kernel's complete source: nothing else is read when it is compiled.
struct KernelSource {
  std::string template_text;                   // as in the folder, with its holes
  std::string text;                            // the translation unit, holes filled
  std::map<std::string, std::string> headers;  // include name -> text
  Holes holes;
};

KernelSource read_source(SourceTree& tree, const KernelSpec& spec);

}  // namespace stratum::gen
