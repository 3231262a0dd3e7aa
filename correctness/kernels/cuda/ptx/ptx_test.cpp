// What nvcc makes of the kernels keeps the arithmetic contract: nothing approximate, nothing flushed, every
// rounding named, no float atomics, no tensor cores. Each rule is also seen to refuse a control that breaks
// it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Rule {
  std::regex forbidden;
  std::string why;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> list{
      {std::regex(R"(\.(approx|full)\b)"), "approximate"},
      {std::regex(R"(\.ftz\b)"), "flushes subnormals"},
      {std::regex(R"(\b(atom|red)\.[a-z0-9_.:]*\.(b?f16|b?f16x2|f32|f64)\b)"), "adds floats in no order"},
      {std::regex(R"(\b(add|sub|mul)\.f(32|64)\b)"), "names no rounding, so that it may be fused"},
      {std::regex(R"(\b(add|sub|mul|fma|div|rcp|sqrt)\.r[zmp]\b)"), "does not round to nearest"},
      {std::regex(R"(\b(mad\.f|mad\.r|wmma|mma|wgmma|tcgen))"), "is no single multiply-add"},
  };
  return list;
}

std::string read(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> files_of(const std::string& joined) {
  std::vector<std::string> files;
  std::istringstream in(joined);
  for (std::string file; std::getline(in, file, ':');) files.push_back(file);
  return files;
}

// Instructions that break a rule, a line each.
std::string against_contract(const std::string& ptx) {
  std::string found;
  std::istringstream in(ptx);
  for (std::string line; std::getline(in, line);) {
    if (line.find('.') == std::string::npos || line.starts_with("//")) continue;
    for (const Rule& rule : rules()) {
      if (std::regex_search(line, rule.forbidden)) found += line + ": " + rule.why + "\n";
    }
  }
  return found;
}

size_t count_of(const std::string& ptx, const std::string& pattern) {
  const std::regex wanted(pattern);
  return static_cast<size_t>(
      std::distance(std::sregex_iterator(ptx.begin(), ptx.end(), wanted), std::sregex_iterator()));
}

std::string only(const std::string& joined) {
  const auto files = files_of(joined);
  return files.size() == 1 ? read(files.front()) : "";
}

TEST(Ptx, IsLookedAtForEveryKernel) {
  std::set<std::string> sources, compiled;
  for (const auto& entry : std::filesystem::directory_iterator(ZP_KERNELS)) {
    if (entry.path().extension() == ".cu") sources.insert(entry.path().stem().string());
  }
  for (const std::string& file : files_of(ZP_PTX_KERNELS)) {
    compiled.insert(std::filesystem::path(file).stem().stem().string());
    EXPECT_GT(count_of(read(file), R"(\.entry\b)"), 0U) << file;
  }
  EXPECT_FALSE(sources.empty());
  EXPECT_EQ(compiled, sources);
}

TEST(Ptx, KeepsTheArithmeticContract) {
  for (const std::string& file : files_of(ZP_PTX_KERNELS))
    EXPECT_EQ(against_contract(read(file)), "") << file;
}

TEST(Ptx, FusesOnlyWhatIsWrittenFused) {
  const std::string ptx = only(ZP_PTX_ARITHMETIC);
  EXPECT_EQ(count_of(ptx, R"(\bfma\.)"), 0U);
  for (const char* one : {R"(\bmul\.rn\.f32\b)", R"(\badd\.rn\.f32\b)", R"(\bmul\.rn\.f64\b)",
                          R"(\badd\.rn\.f64\b)", R"(\bdiv\.rn\.f32\b)", R"(\bsqrt\.rn\.f32\b)"}) {
    EXPECT_EQ(count_of(ptx, one), 1U) << one;
  }
  EXPECT_EQ(against_contract(ptx), "");
  EXPECT_EQ(count_of(only(ZP_PTX_ARITHMETIC_FUSED), R"(\bfma\.rn\.f(32|64)\b)"), 2U)
      << "the flag is what forbids it";
}

TEST(Ptx, IsRefusedWhereItBreaksARule) {
  const std::string fast = against_contract(only(ZP_PTX_ARITHMETIC_FAST));
  EXPECT_NE(fast.find("approximate"), std::string::npos) << fast;
  EXPECT_NE(fast.find("flushes"), std::string::npos) << fast;
  const std::string approximate = against_contract(only(ZP_PTX_APPROXIMATE));
  EXPECT_NE(approximate.find("approximate"), std::string::npos) << approximate;
  const std::string atomic = against_contract(only(ZP_PTX_ATOMIC));
  EXPECT_NE(atomic.find("adds floats in no order"), std::string::npos) << atomic;
  EXPECT_NE(against_contract("\tmul.f32 \t%f3, %f1, %f2;").find("no rounding"), std::string::npos);
  EXPECT_NE(against_contract("\tadd.rz.f32 \t%f3, %f1, %f2;").find("nearest"), std::string::npos);
  EXPECT_NE(against_contract("\tmma.sync.aligned.m16n8k8.row.col").find("multiply-add"), std::string::npos);
}

}  // namespace
