// Numbers as users type them, checked against their range.
#pragma once

#include <cstdint>
#include <string>

namespace zp {

// The most of each that an option or a file may ask for.
inline constexpr int kMostSteps = 1'000'000;
inline constexpr int kMostMicroBatches = 65'536;
inline constexpr int64_t kMostTokens = int64_t{1} << 24;

// Each throws Error(usage): "WHAT 'TEXT': must be …". `what` names the option.
int64_t whole_number(const std::string& what, const std::string& text, int64_t least, int64_t most);
uint64_t seed_number(const std::string& what, const std::string& text);

enum class Least { included, excluded };
double real_number(const std::string& what, const std::string& text, double least, double most,
                   Least bound = Least::included);

}  // namespace zp
