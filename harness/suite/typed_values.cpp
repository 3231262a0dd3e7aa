// What was typed for each option, before it means anything.
#include <fmt/format.h>

#include <algorithm>

#include "harness/suite/typed.hpp"

namespace zp {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return parts;
}

std::optional<std::string> Typed::value(const std::string& name) const {
  const std::vector<std::string> values = all(name);
  if (values.size() > 1) fail(Exit::usage, fmt::format("{}: is given {} times", name, values.size()));
  if (values.empty()) return std::nullopt;
  return values.front();
}

std::vector<std::string> Typed::all(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

}  // namespace zp
