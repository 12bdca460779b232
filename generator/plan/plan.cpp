#include "generator/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/arch_coverage.h"
#include "common/file.h"
#include "common/input_error.h"
#include "common/json_fields.h"
#include "generator/plan/arch.h"
#include "generator/plan/family.h"

namespace stratum::gen {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// One of `accepted`, with the nearest one suggested for a slip of the hand.
std::string one_of(JsonFields& fields, std::string_view name, const std::vector<std::string>& accepted) {
  std::string text = fields.text(name);
  if (std::ranges::find(accepted, text) == accepted.end()) {
    const std::string near = nearest_word(text, accepted);
    fields.fail(name, fmt::format("one of {}{}", fmt::join(accepted, ", "),
                                  near.empty() ? "" : fmt::format(" (did you mean {}?)", near)));
  }
  return text;
}

int64_t value_under_rule(JsonFields& fields, std::string_view name, const ValueRule& rule) {
  const json& value = fields.value(name);
  if (!value.is_number_integer() || !rule.accepts(value.get<int64_t>())) fields.fail(name, rule.describe());
  return value.get<int64_t>();
}

// Reads one plan file.
class PlanReader {
 public:
  PlanReader(const Family& family, JsonFields& fields, std::string plan)
      : family_(family), fields_(fields), plan_(std::move(plan)) {}

  std::vector<KernelSpec> read() {
    read_key();
    JsonFields kernels = fields_.object("kernels");
    for (const std::string& name : kernels.names()) {
      const auto operation = family_.operations.find(name);
      if (operation == family_.operations.end()) reject_operation(kernels, name);
      read_operation(kernels, operation->second);
    }
    fields_.finish();
    return std::move(specs_);
  }

 private:
  void read_key() {
    key_.family = family_.name;
    key_.arch = one_of(fields_, "arch", family_.archs);
    arch_ = find_arch(key_.arch);
    for (const std::string& dtype : fields_.texts("dtypes")) {
      if (std::ranges::find(family_.dtypes, dtype) == family_.dtypes.end()) {
        fields_.fail("dtypes", fmt::format("entries from {}", fmt::join(family_.dtypes, ", ")));
      }
      if (std::ranges::find(dtypes_, dtype) != dtypes_.end()) fields_.fail("dtypes", "each dtype once");
      dtypes_.push_back(dtype);
    }
    if (dtypes_.empty()) fields_.fail("dtypes", "at least one dtype");
    const auto dimension = [&](const char* name) {
      const int64_t value = value_under_rule(fields_, name, family_.key.at(name));
      variables_[name] = value;
      return static_cast<int32_t>(value);
    };
    key_.head_dim = dimension("head_dim");
    key_.gate_dim = dimension("gate_dim");
    key_.group = dimension("group");
    if (fields_.has("flags")) key_.flags = fields_.texts("flags");
    for (const std::string& flag : key_.flags) {
      if (flag.empty() || !std::islower(static_cast<unsigned char>(flag[0])) ||
          !std::ranges::all_of(flag, [](unsigned char c) { return std::islower(c) || std::isdigit(c); })) {
        fields_.fail("flags", "words of lower-case letters and digits");
      }
    }
    variables_["max_shared_bytes"] = arch_->max_shared_bytes;
    variables_["max_registers"] = kMaxRegisters;
  }

  [[noreturn]] void reject_operation(const JsonFields& kernels, const std::string& name) const {
    std::vector<std::string> accepted;
    for (const auto& [operation, description] : family_.operations) accepted.push_back(operation);
    const std::string near = nearest_word(name, accepted);
    kernels.reject(
        name, fmt::format("unknown operation of {}{}; accepted: {}", family_.folder,
                          near.empty() ? "" : fmt::format(" (did you mean {}?)", near), fmt::join(accepted, ", ")));
  }

  void read_operation(JsonFields& kernels, const Operation& operation) {
    const json& value = kernels.value(operation.name);
    if (!value.is_array()) {
      read_variant(kernels.object(operation.name), operation, 0, true);
      return;
    }
    if (value.empty()) kernels.fail(operation.name, "at least one variant");
    for (size_t i = 0; i < value.size(); ++i) {
      JsonFields variant(value[i], kernels.source(), fmt::format("{}[{}]", kernels.path_of(operation.name), i));
      read_variant(std::move(variant), operation, static_cast<int32_t>(i), i + 1 == value.size());
    }
  }

  void read_variant(JsonFields fields, const Operation& operation, int32_t index, bool last) {
    KernelSpec spec;
    spec.variant = index;
    spec.plan = plan_;
    spec.place = fmt::format("{}: {}", fields.source(), fields.path());
    spec.source = operation.source;
    spec.params = operation.params;
    if (fields.has("when")) spec.when = when_from_json(fields.object("when"));
    if (spec.when.always() && !last) {
      fields.reject("when", "required of every variant but the last, or the ones after it are never launched");
    }
    if (fields.has("allow_spills")) spec.allow_spills = spill_allowance_from_json(fields.object("allow_spills"));
    if (fields.has("ordered_reduction")) spec.ordered_reduction = fields.text("ordered_reduction");
    spec.tile = read_tile(fields, operation);
    fields.finish();

    Variables variables = variables_;
    variables.insert(spec.tile.begin(), spec.tile.end());
    check_feasible(fields, operation, variables, spec);
    spec.suffix = fill_suffix(operation.suffix, variables);
    for (const std::string& dtype : dtypes_) {
      spec.key = key_;
      spec.key.operation = operation.name;
      spec.key.dtype = dtype;
      spec.name = kernel_name(spec.key, operation.mnemonic, spec.suffix);
      check_name_length(operation, spec);
      specs_.push_back(spec);
    }
  }

  // A kernel's files in pack and cache are named after it. The flags are to blame where it would fit without them, else
  // the family's words are.
  void check_name_length(const Operation& operation, const KernelSpec& spec) const {
    if (spec.name.size() <= kMaxKernelName) return;
    const std::string message = fmt::format(
        "gives a kernel's name of {} characters; accepted: up to {}, since its files are named after it: {}",
        spec.name.size(), kMaxKernelName, spec.name);
    KernelKey bare = spec.key;
    bare.flags.clear();
    if (kernel_name(bare, operation.mnemonic, spec.suffix).size() <= kMaxKernelName) fields_.reject("flags", message);
    throw InputError(fmt::format("{}: {} (\"family\", \"mnemonic\" and \"suffix\" in {}/family.json)", spec.place,
                                 message, family_.folder));
  }

  std::map<std::string, int64_t> read_tile(JsonFields& fields, const Operation& operation) const {
    JsonFields tile = fields.object("tile");
    std::map<std::string, int64_t> values;
    for (const auto& [name, rule] : operation.tile) values[name] = value_under_rule(tile, name, rule);
    tile.finish();
    return values;
  }

  // The names that `field` is spelt with in a plan: a dimension is a field of the plan itself.
  static std::string field_of(const std::string& name) {
    const auto& dimensions = dimension_names();
    return std::ranges::find(dimensions, name) == dimensions.end() ? "tile." + name : "(" + name + ")";
  }

  void check_feasible(const JsonFields& fields, const Operation& operation, const Variables& variables,
                      KernelSpec& spec) const {
    const auto evaluate = [&](std::string_view what, const Expression& expression) {
      try {
        return expression.evaluate(variables);
      } catch (const InputError& error) {
        fields.reject("tile", fmt::format("cannot work out {} of {}: {}", what, family_.folder, error.what()));
      }
    };
    for (const Requirement& requirement : operation.require) {
      if (evaluate("a requirement", requirement.that) != 0) continue;
      fields.reject(field_of(requirement.field),
                    fmt::format("{} is {}, which breaks \"{}\": {}", requirement.field, variables.at(requirement.field),
                                requirement.that.text(), requirement.why));
    }
    const int64_t block = evaluate("block", operation.block);
    if (block < 32 || block > kMaxThreads || block % 32 != 0) {
      fields.reject("tile", fmt::format("gives {} threads a block (\"{}\"); accepted: a multiple of 32 from 32 to {}",
                                        block, operation.block.text(), kMaxThreads));
    }
    const int64_t shared_bytes = evaluate("shared_bytes", operation.shared_bytes);
    if (shared_bytes < 0 || shared_bytes > arch_->max_shared_bytes) {
      fields.reject("tile",
                    fmt::format("needs {} bytes of shared memory a block (\"{}\"); accepted on {}, which serves "
                                "{}: from 0 to {}",
                                shared_bytes, operation.shared_bytes.text(), arch_->name, covered_devices(arch_->name),
                                arch_->max_shared_bytes));
    }
    const int64_t registers = evaluate("registers", operation.registers);
    if (registers > kMaxRegisters) {
      fields.reject("tile", fmt::format("needs about {} registers a thread (\"{}\"); accepted: up to {}", registers,
                                        operation.registers.text(), kMaxRegisters));
    }
    spec.block = static_cast<int32_t>(block);
    spec.shared_bytes = static_cast<int32_t>(shared_bytes);
  }

  const Family& family_;
  JsonFields& fields_;
  std::string plan_;
  KernelKey key_;
  const Arch* arch_ = nullptr;
  std::vector<std::string> dtypes_;
  Variables variables_;
  std::vector<KernelSpec> specs_;
};

std::vector<fs::path> plan_files(const std::vector<fs::path>& paths, std::vector<std::string>& problems) {
  std::set<fs::path> files;  // sorted, and a file named twice is one plan
  const auto add = [&](const fs::path& path) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error) {
      problems.push_back(fmt::format("{}: no such plan file or folder", path.string()));
    } else {
      files.insert(real);
    }
  };
  for (const fs::path& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      add(path);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == ".json") add(entry.path());
    }
  }
  return {files.begin(), files.end()};
}

bool is_utf8(const std::string& text) {
  try {
    json(text).dump();
    return true;
  } catch (const json::type_error&) {
    return false;
  }
}

// A plan's name in the manifest must be the same on every machine.
std::string portable_name(const fs::path& templates, const fs::path& plan) {
  const fs::path relative = plan.lexically_relative(fs::canonical(templates));
  const std::string name =
      relative.empty() || *relative.begin() == ".." ? plan.filename().string() : relative.generic_string();
  if (!is_utf8(name)) throw InputError(fmt::format("{}: a plan's file name must be UTF-8", plan.string()));
  return name;
}

void check_unique(const std::vector<KernelSpec>& specs, std::vector<std::string>& problems) {
  std::map<std::string, const KernelSpec*> names;
  std::map<KernelKey, const KernelSpec*> first_of_key;
  for (const KernelSpec& spec : specs) {
    const auto [same_name, new_name] = names.emplace(spec.name, &spec);
    if (!new_name) {
      problems.push_back(fmt::format("{}: gives a kernel named {}, as does {}; tell variants apart by the suffix",
                                     spec.place, spec.name, same_name->second->place));
      continue;
    }
    const auto [same_key, new_key] = first_of_key.emplace(spec.key, &spec);
    // Variants from one list are numbered by it; a second list would start at 0 again.
    if (!new_key && same_key->second->variant == spec.variant) {
      problems.push_back(
          fmt::format("{}: the key ({}) is also given by {}; put variants of one key in one list, with `when`",
                      spec.place, describe_key(spec.key), same_key->second->place));
    }
  }
}

}  // namespace

std::vector<KernelSpec> read_plans(const fs::path& templates, const std::vector<fs::path>& paths) {
  std::error_code ignored;  // what cannot be looked at is not there
  if (!fs::is_directory(templates, ignored)) {
    throw InputError(fmt::format("{}: no such templates folder", templates.string()));
  }
  std::vector<KernelSpec> specs;
  std::vector<std::string> problems;
  std::map<std::string, Family> families;
  for (const fs::path& path : plan_files(paths, problems)) {
    try {
      const std::string source = fs::proximate(path).string();
      const json document = parse_json(read_file(path), source);
      JsonFields fields(document, source);
      const std::string folder = fields.text("family");
      if (!fs::exists(templates / folder / "family.json", ignored)) {
        fields.fail("family", fmt::format("a folder under {} with a family.json", templates.string()));
      }
      if (!families.contains(folder)) families.emplace(folder, read_family(templates, folder));
      std::vector<KernelSpec> read = PlanReader(families.at(folder), fields, portable_name(templates, path)).read();
      std::ranges::move(read, std::back_inserter(specs));
    } catch (const InputError& error) {
      problems.emplace_back(error.what());
    }
  }
  std::ranges::sort(specs, {}, &KernelSpec::name);
  check_unique(specs, problems);
  // Every plan of a broken family reports the same; once is enough.
  std::set<std::string> seen;
  std::erase_if(problems, [&](const std::string& problem) { return !seen.insert(problem).second; });
  if (!problems.empty()) throw InputError(fmt::format("{}", fmt::join(problems, "\n")));
  return specs;
}

}  // namespace stratum::gen
