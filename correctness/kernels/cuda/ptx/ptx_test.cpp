// What nvcc makes of the kernels keeps the arithmetic contract, for every target that machine code is made
// for: nothing approximate, nothing flushed, every rounding named, no float atomics, no tensor cores. Each
// rule is also seen to refuse a control that breaks it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
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

// What stands at the place of an instruction, each once: words with a dot in them, such as fma.rn.f32.
std::set<std::string> instructions_of(const std::string& ptx) {
  std::set<std::string> found;
  std::istringstream in(ptx);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line.substr(0, line.find("//")));
    for (std::string word; words >> word;) {
      if (std::isalpha(static_cast<unsigned char>(word.front())) != 0 && word.find('.') != std::string::npos)
        found.insert(word);
    }
  }
  return found;
}

// Instructions that break a rule, a line each.
std::string against_contract(const std::string& ptx) {
  std::string found;
  for (const std::string& instruction : instructions_of(ptx)) {
    for (const Rule& rule : rules()) {
      if (std::regex_search(instruction, rule.forbidden)) found += instruction + ": " + rule.why + "\n";
    }
  }
  return found;
}

size_t count_of(const std::string& ptx, const std::string& pattern) {
  const std::regex wanted(pattern);
  return static_cast<size_t>(
      std::distance(std::sregex_iterator(ptx.begin(), ptx.end(), wanted), std::sregex_iterator()));
}

// The text that follows `mark`, of letters, digits and '_', wherever it stands.
std::set<std::string> names_after(const std::string& text, const std::string& mark) {
  std::set<std::string> names;
  for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) {
    at += mark.size();
    size_t end = at;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
      ++end;
    names.insert(text.substr(at, end - at));
  }
  return names;
}

// By target, such as 80, what the kernels' objects hold for it: in every object a text, up to a byte of zero.
std::map<std::string, std::string> ptx_of_kernels() {
  std::map<std::string, std::string> of_target;
  const std::string objects = read(ZP_KERNELS_CUDA);
  const std::string begin = "\n.version ";
  for (size_t at = 0; (at = objects.find(begin, at)) != std::string::npos; ++at) {
    const std::string ptx = objects.substr(at, objects.find('\0', at) - at);
    const std::set<std::string> targets = names_after(ptx, "\n.target sm_");
    EXPECT_EQ(targets.size(), 1U);
    of_target[*targets.begin()] += ptx;
  }
  return of_target;
}

std::set<std::string> wanted_targets() {
  std::set<std::string> targets;
  std::istringstream in(ZP_TARGETS);
  for (std::string target; std::getline(in, target, ':');) targets.insert(target);
  return targets;
}

// Names of functions behind __global__, launch bounds or not.
std::set<std::string> kernels_in_sources() {
  const std::regex kernel(R"(__global__ void\s+(?:__launch_bounds__\([^{;]*?\)\s+)?(\w+)\()");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ZP_KERNELS)) {
    if (entry.path().extension() != ".cu" && entry.path().extension() != ".cuh") continue;
    const std::string text = read(entry.path());
    size_t found = 0;
    for (std::sregex_iterator match(text.begin(), text.end(), kernel), end; match != end; ++match, ++found)
      names.insert((*match)[1]);
    EXPECT_EQ(found, count_of(text, "__global__")) << entry.path();
  }
  return names;
}

TEST(Ptx, IsThereForEveryKernelAndTarget) {
  const std::map<std::string, std::string> ptx = ptx_of_kernels();
  std::set<std::string> targets;
  for (const auto& [target, text] : ptx) targets.insert(target);
  EXPECT_EQ(targets, wanted_targets());
  const std::set<std::string> kernels = kernels_in_sources();
  EXPECT_FALSE(kernels.empty());
  for (const auto& [target, text] : ptx) {
    const std::set<std::string> entries = names_after(text, ".entry ");
    EXPECT_EQ(entries, names_after(ptx.begin()->second, ".entry ")) << target;
    for (const std::string& kernel : kernels) {
      const std::string mangled = std::to_string(kernel.size()) + kernel;
      EXPECT_TRUE(
          std::any_of(entries.begin(), entries.end(),
                      [&](const std::string& entry) { return entry.find(mangled) != std::string::npos; }))
          << kernel << " for " << target;
    }
  }
}

TEST(Ptx, KeepsTheArithmeticContractForEveryTarget) {
  for (const auto& [target, text] : ptx_of_kernels()) {
    EXPECT_GT(instructions_of(text).count("fma.rn.f32"), 0U) << target;
    EXPECT_EQ(against_contract(text), "") << target;
  }
}

TEST(Ptx, FusesOnlyWhatIsWrittenFused) {
  const std::string ptx = read(ZP_PTX_ARITHMETIC);
  EXPECT_EQ(count_of(ptx, R"(\bfma\.)"), 0U);
  for (const char* one : {R"(\bmul\.rn\.f32\b)", R"(\badd\.rn\.f32\b)", R"(\bmul\.rn\.f64\b)",
                          R"(\badd\.rn\.f64\b)", R"(\bdiv\.rn\.f32\b)", R"(\bsqrt\.rn\.f32\b)"}) {
    EXPECT_EQ(count_of(ptx, one), 1U) << one;
  }
  EXPECT_EQ(against_contract(ptx), "");
  EXPECT_EQ(count_of(read(ZP_PTX_ARITHMETIC_FUSED), R"(\bfma\.rn\.f(32|64)\b)"), 2U)
      << "the flag is what forbids it";
}

TEST(Ptx, IsRefusedWhereItBreaksARule) {
  const std::string fast = against_contract(read(ZP_PTX_ARITHMETIC_FAST));
  EXPECT_NE(fast.find("approximate"), std::string::npos) << fast;
  EXPECT_NE(fast.find("flushes"), std::string::npos) << fast;
  const std::string forbidden = against_contract(read(ZP_PTX_FORBIDDEN));
  EXPECT_NE(forbidden.find("approximate"), std::string::npos) << forbidden;
  EXPECT_NE(forbidden.find("adds floats in no order"), std::string::npos) << forbidden;
  EXPECT_NE(against_contract("\tmul.f32 \t%f3, %f1, %f2;").find("no rounding"), std::string::npos);
  EXPECT_NE(against_contract("\tadd.rz.f32 \t%f3, %f1, %f2;").find("nearest"), std::string::npos);
  EXPECT_NE(against_contract("\tmma.sync.aligned.m16n8k8.row.col").find("multiply-add"), std::string::npos);
}

}  // namespace
