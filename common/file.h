// Whole files in and out of memory.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace stratum {

// The bytes of a regular file. Throws InputError with the path and the system's reason.
std::string read_file(const std::filesystem::path& path);

// Replaces `path` so that a reader, or a crash at any moment, sees the old file or the whole new one: writes a
// temporary file beside it, flushes it to the disk, renames it. The folder must exist. Throws InputError; then the old
// file is untouched and no temporary file is left.
void replace_file(const std::filesystem::path& path, std::string_view bytes);

// The prefix of the temporary files of replace_file. One can outlive only a process that was killed.
inline constexpr std::string_view kTemporaryPrefix = ".stratum-tmp-";

}  // namespace stratum
