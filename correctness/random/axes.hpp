// Random configurations of `zeroproof verify`: the axes along which runs may differ, as a table. Adding one
// is a row. A configuration is drawn from a seed and a number alone, and is always one that the command
// takes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace zp::drawn {

// A value for every axis, by the axis' name.
using Configuration = std::map<std::string, std::string>;

struct Axis {
  std::string name;                 // an option of verify, typed as it is; without dashes, a part of one
  std::vector<std::string> values;  // simplest first; "": the option is left out
  // Whether a value goes with the axes above; null: always. The simplest value always does.
  bool (*fits)(const Configuration& above, const std::string& value) = nullptr;
};

// Axes that decide for others stand above them.
const std::vector<Axis>& axes();

// Values on every axis among those that fit, each as likely as the others; a pinned axis has the value that
// it is pinned to. Each axis draws by its name, so that an axis more leaves the others' draws alone.
Configuration draw(uint64_t seed, uint64_t number, const Configuration& pinned = {});

// The same with another value on one axis; values below it that no longer fit become the simplest.
Configuration with(const Configuration& configuration, const std::string& axis, const std::string& value);

// What to type after `zeroproof`.
std::vector<std::string> words(const Configuration& configuration);
std::string command_line(const Configuration& configuration);  // `zeroproof` first

}  // namespace zp::drawn
