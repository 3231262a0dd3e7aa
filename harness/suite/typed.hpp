// Options as typed, and their checks. Knows nothing of the library that split the command line.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/suite/command_line.hpp"
#include "harness/suite/number_text.hpp"

namespace zp {

// The parts of a text between commas.
std::vector<std::string> split(const std::string& text);

// What was typed for each option ("--ranks"); options not given are absent.
class Typed {
 public:
  explicit Typed(std::map<std::string, std::vector<std::string>> values) : values_(std::move(values)) {}

  bool given(const std::string& name) const { return values_.contains(name); }
  // None where it was not given. Throws (usage) where it was given more than once.
  std::optional<std::string> value(const std::string& name) const;
  std::vector<std::string> all(const std::string& name) const;

  // Leave `into` alone where the option was not given. Throw (usage) for what is no number in range.
  template <class T>
  void whole(const std::string& name, T& into, int64_t least, int64_t most) const {
    if (const auto text = value(name)) into = static_cast<T>(whole_number(name, *text, least, most));
  }
  template <class T>
  void real(const std::string& name, T& into, double least, double most,
            Least bound = Least::included) const {
    if (const auto text = value(name)) into = static_cast<T>(real_number(name, *text, least, most, bound));
  }

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

// Every value checked; throw Error as command_line.hpp says.
VerifyOptions verify_options(const Typed& typed, const Launch& launch);
BenchOptions bench_options(const Typed& typed, const Launch& launch);
PlanOptions plan_options(const Typed& typed);
DevicesOptions devices_options(const Typed& typed);

}  // namespace zp
