// Runs that are small enough for emulated kernels, and the hashes that they print.
#pragma once

#include <string>

namespace zp {

// Every hash, and who ended on it.
inline std::string hashes(const std::string& text) {
  std::string lines;
  for (size_t at = text.find("\nhash "); at != std::string::npos; at = text.find("\nhash ", at + 1))
    lines += text.substr(at, text.find('\n', at + 1) - at);
  return lines.empty() ? "no hash in\n" + text : lines;
}

// The first hash's digits.
inline std::string first_hash(const std::string& text) {
  const size_t at = text.find("\nhash ");
  return at == std::string::npos ? "no hash in\n" + text : text.substr(at, 38);
}

// Emulated kernels are slow.
inline const std::string kTiniest =
    " --model layers=1,width=8,heads=2,positions=8,vocabulary=16 --steps 1 --micro-batches 4";
inline const std::string kFew =
    " --model layers=1,width=32,heads=2,positions=16,vocabulary=64 --steps 1 --micro-batches 4 ";

}  // namespace zp
