#include "generator/compile/toolchain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "common/file.h"
#include "common/input_error.h"
#include "common/json_fields.h"
#include "generator/compile/ptxas.h"
#include "generator/compile/toolchain_error.h"

namespace stratum::gen {
namespace {

namespace fs = std::filesystem;

struct Place {
  std::string origin;
  fs::path folder;  // holds bin/ptxas, and libnvrtc in one of kLibraryFolders
};

constexpr const char* kLibraryFolders[] = {"lib64", "lib", "targets/x86_64-linux/lib"};

// Where a CUDA toolkit is kept by custom.
std::vector<fs::path> toolkit_folders() {
  std::vector<fs::path> folders;
  if (const char* home = std::getenv("CUDA_HOME"); home != nullptr && *home != '\0') folders.emplace_back(home);
  folders.emplace_back("/usr/local/cuda");
  return folders;
}

std::vector<fs::path> path_folders() {
  std::vector<fs::path> folders;
  const char* path = std::getenv("PATH");
  std::istringstream parts(path != nullptr ? path : "");
  for (std::string part; std::getline(parts, part, ':');) folders.emplace_back(part);
  return folders;
}

std::vector<Place> system_places() {
  std::vector<Place> places;
  for (const fs::path& folder : toolkit_folders()) places.push_back({"system", folder});
  for (const fs::path& folder : path_folders()) {
    std::error_code error;
    const fs::path program = fs::canonical(folder / "ptxas", error);
    if (!error) places.push_back({"system", program.parent_path().parent_path()});
  }
  return places;
}

// The folder of the CUDA 13 wheels below a site-packages folder or a virtual environment, whichever `folder` is.
void add_packages(std::vector<Place>& places, const std::string& origin, const fs::path& folder) {
  places.push_back({origin, folder / "nvidia/cu13"});
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "lib", error)) {
    if (entry.path().filename().string().starts_with("python3")) {
      places.push_back({origin, entry.path() / "site-packages/nvidia/cu13"});
    }
  }
}

std::vector<Place> wheel_places(const fs::path& root) {
  std::vector<Place> places;
  add_packages(places, "wheels", root / ".venv");
  if (const char* environment = std::getenv("VIRTUAL_ENV"); environment != nullptr && *environment != '\0') {
    add_packages(places, "wheels", environment);
  }
  return places;
}

std::vector<Place> places_for(const std::string& choice, const fs::path& root) {
  if (choice == "system") return system_places();
  if (choice == "wheels") return wheel_places(root);
  if (choice != "auto") {
    std::vector<Place> places = {{choice, choice}};
    add_packages(places, choice, choice);
    return places;
  }
  std::vector<Place> places = system_places();
  std::ranges::move(wheel_places(root), std::back_inserter(places));
  return places;
}

std::optional<fs::path> find_nvrtc(const fs::path& folder, const std::string& version) {
  const std::string name = "libnvrtc.so." + version.substr(0, version.find('.'));
  for (const char* library_folder : kLibraryFolders) {
    if (fs::path path = folder / library_folder / name; fs::exists(path)) return path;
  }
  return std::nullopt;
}

// The toolchain at a place, or why it will not do.
std::optional<Toolchain> open_place(const Place& place, const ToolchainPin& pin, std::string& finding) {
  const fs::path ptxas = place.folder / "bin/ptxas";
  const std::optional<fs::path> library = find_nvrtc(place.folder, pin.versions.nvrtc);
  if (!fs::exists(ptxas) && !library) {
    finding = fs::exists(place.folder) ? "neither bin/ptxas nor libnvrtc" : "no such folder";
    return std::nullopt;
  }
  try {
    // The cheap question first.
    const std::string ptxas_found = fs::exists(ptxas) ? ptxas_version(ptxas) : "none";
    finding = fmt::format("ptxas {}", ptxas_found);
    if (!library) finding += ", libnvrtc none";
    if (ptxas_found != pin.versions.ptxas || !library) return std::nullopt;
    Nvrtc nvrtc(*library);
    const std::string nvrtc_found = nvrtc.version();
    finding += fmt::format(", libnvrtc {}", nvrtc_found);
    if (nvrtc_found != pin.versions.nvrtc) return std::nullopt;
    return Toolchain{.nvrtc = std::move(nvrtc), .library = *library, .ptxas = ptxas, .origin = place.origin};
  } catch (const ToolchainError& error) {
    finding = error.what();
    return std::nullopt;
  }
}

}  // namespace

std::vector<fs::path> program_folders(const fs::path& root) {
  std::vector<fs::path> folders = path_folders();
  for (const fs::path& folder : toolkit_folders()) folders.push_back(folder / "bin");
  for (const Place& place : wheel_places(root)) folders.push_back(place.folder / "bin");
  return folders;
}

ToolchainPin read_toolchain_pin(const fs::path& root) {
  const fs::path path = root / "toolchain.json";
  const nlohmann::json document = parse_json(read_file(path), path.string());
  JsonFields fields(document, path.string());
  ToolchainPin pin;
  pin.versions = {.nvrtc = fields.text("nvrtc"), .ptxas = fields.text("ptxas")};
  pin.wheels = fields.texts("wheels");
  pin.file = path;
  fields.finish();
  return pin;
}

Toolchain find_toolchain(const ToolchainPin& pin, const std::string& choice, const fs::path& root) {
  std::string looked_at;
  std::vector<fs::path> seen;
  for (const Place& place : places_for(choice, root)) {
    std::error_code error;
    const fs::path real = fs::weakly_canonical(place.folder, error);
    if (std::ranges::find(seen, real) != seen.end()) continue;
    seen.push_back(real);
    std::string finding;
    if (std::optional<Toolchain> toolchain = open_place(place, pin, finding)) return std::move(*toolchain);
    looked_at += fmt::format("  {}: {}\n", place.folder.string(), finding);
  }
  throw ToolchainError(
      fmt::format("no toolchain with exactly {} (pinned by {}). Looked at:\n{}"
                  "Install it with\n  {} -m pip install --no-deps {}\n",
                  describe_toolchain(pin.versions), pin.file.string(), looked_at,
                  (root / ".venv/bin/python").lexically_normal().string(), fmt::join(pin.wheels, " ")));
}

}  // namespace stratum::gen
