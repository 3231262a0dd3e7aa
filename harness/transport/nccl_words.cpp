// NCCL's log, in a file that has no name: it lasts as long as the process, and nobody else's is read.
#include "harness/transport/nccl_words.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace zp {
namespace {

// Of a log, or -1.
int& log_file() {
  static int file = -1;
  return file;
}

constexpr std::array<std::string_view, 6> kTelling{" Bytes -> Algo ", "coll channels", "NVLS",
                                                   "Channel 00",      "Using network", "MNNVL"};
constexpr size_t kMostLines = 100;
constexpr const char* kSubsystems = "NCCL_DEBUG_SUBSYS";
constexpr std::string_view kBefore = "NCCL INFO ";

}  // namespace

void ask_nccl_for_words(CarrierLog log) {
  if (std::getenv("NCCL_DEBUG") != nullptr || std::getenv("NCCL_DEBUG_FILE") != nullptr) return;
  log_file() = memfd_create("nccl", MFD_CLOEXEC);
  if (log_file() < 0) return;
  setenv("NCCL_DEBUG", "INFO", 0);
  // Of these only TUNING has a line for every call.
  setenv(kSubsystems, log == CarrierLog::calls ? "INIT,P2P,NET,NVLS,TUNING" : "INIT,P2P,NET,NVLS", 0);
  setenv("NCCL_DEBUG_FILE", ("/proc/self/fd/" + std::to_string(log_file())).c_str(), 0);
}

std::string nccl_log() {
  const char* subsystems = std::getenv(kSubsystems);
  return log_file() < 0 || subsystems == nullptr ? "" : subsystems;
}

std::vector<std::string> nccl_words() {
  std::string log;
  std::array<char, 4096> part{};
  while (log_file() >= 0) {
    const ssize_t got = pread(log_file(), part.data(), part.size(), static_cast<off_t>(log.size()));
    if (got <= 0) break;
    log.append(part.data(), static_cast<size_t>(got));
  }
  return words_in(log);
}

std::vector<std::string> words_in(std::string_view log) {
  std::vector<std::string> lines;
  while (!log.empty() && lines.size() < kMostLines) {
    std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    const size_t at = line.find(kBefore);
    if (at == std::string_view::npos) continue;
    line.remove_prefix(at + kBefore.size());
    const auto tells = [&](std::string_view word) { return line.find(word) != std::string_view::npos; };
    if (std::ranges::none_of(kTelling, tells)) continue;
    if (std::ranges::find(lines, line) == lines.end()) lines.emplace_back(line);
  }
  return lines;
}

}  // namespace zp
