// Files that are written once, and never over another one unasked.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "harness/report/record.hpp"

namespace zp {

void check_writable(const std::string& path, Existing existing, const std::string& option) {
  namespace fs = std::filesystem;
  const std::string where = option + " " + path + ": ";
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status)) {
    if (fs::is_directory(status)) fail(Exit::usage, where + "is a directory; name a file");
    if (existing == Existing::refuse && fs::is_regular_file(status)) {
      fail(Exit::usage, where + "exists and is left alone; name a new file, or add --overwrite");
    }
    if (access(path.c_str(), W_OK) != 0) fail(Exit::usage, where + std::strerror(errno));
    return;
  }
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) {
    fail(Exit::usage, where + "there is no folder " + folder.string() + "; make it first");
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    fail(Exit::usage,
         where + "folder " + folder.string() + " cannot be written (" + std::strerror(errno) + ")");
  }
}

void write_file(const std::string& path, Existing existing, const std::string& text,
                const std::string& option) {
  check_writable(path, existing, option);
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) fail(Exit::usage, option + " " + path + ": cannot be written (" + std::strerror(errno) + ")");
}

}  // namespace zp
