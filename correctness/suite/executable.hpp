// The executable as a user runs it: a folder of its own, a shell, a launcher, and what came of it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace zp {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;
  std::string out, err;
};

inline std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Executable : public testing::Test {
 protected:
  Executable() {
    std::string name = (fs::temp_directory_path() / "zp_executable_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Executable() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  // Runs a shell command in which ZP stands for the executable.
  Outcome shell(std::string command) const {
    for (size_t at = 0; (at = command.find("ZP ", at)) != std::string::npos;) {
      command.replace(at, 2, ZP_EXECUTABLE);
    }
    const int status = std::system(("( " + command + " ) >" + file("out") + " 2>" + file("err")).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(file("out")), text_of(file("err"))};
  }

  // A job of `ranks` processes; mpirun's own remarks go nowhere, what a rank says and returns is kept per
  // rank.
  // `before` is what a rank's shell does first.
  std::vector<int> launch(int ranks, const std::string& options, const std::string& before = "") const {
    const std::string script = before + "r=$OMPI_COMM_WORLD_RANK; " ZP_EXECUTABLE " " + options + " 2>" +
                               file("err.$r") + "; echo $? >" + file("code.$r");
    // Open MPI itself leaks, which a leak sanitizer would turn into an exit code.
    shell(
        "ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
        "OMPI_MCA_rmaps_base_oversubscribe=1 "
        "OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 " ZP_MPIEXEC " -n " +
        std::to_string(ranks) + " sh -c '" + script + "'");
    std::vector<int> codes;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string code = text_of(file("code." + std::to_string(rank)));
      codes.push_back(code.empty() ? -1 : std::stoi(code));
    }
    return codes;
  }

 private:
  fs::path folder_;
};

inline int lines_in(const std::string& text) { return static_cast<int>(std::ranges::count(text, '\n')); }

}  // namespace zp
