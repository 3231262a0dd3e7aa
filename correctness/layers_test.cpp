// The layers of the project as data, and a reader that holds every file of the tree to them: who may include
// whom, which vendor header lives where, and the house rules that a compiler does not check. The rules are
// functions of a path and a text, so each of them is also seen to refuse a text made up here.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

// ---- The rules, as data

struct Layer {
  std::string_view folder;
  std::vector<std::string_view> never;  // stands above, and is hidden from this layer all the same
};

// From the top down: a layer includes itself and what stands above it, less what it must never see.
// Two witnesses: theory sees no strategy, and what it predicts (device … ledger) sees no theory.
const std::vector<Layer>& layers() {
  static const std::vector<Layer> list{
      {"harness/base", {}},
      {"harness/layout", {}},
      {"harness/theory", {}},
      {"harness/device", {"harness/theory"}},
      {"kernels", {"harness/theory"}},
      {"harness/transport", {"harness/theory"}},
      {"harness/model", {"harness/theory", "harness/transport"}},
      {"harness/strategy", {"harness/theory"}},
      {"harness/ledger", {"harness/theory", "harness/strategy"}},
      {"harness/trainer", {}},
      {"harness/claim", {"harness/strategy"}},
      {"harness/measure", {}},
      {"harness/report", {"harness/strategy"}},
      {"harness/suite", {}},
  };
  return list;
}

// A header that only some files may include, and how many of them at most (0: any number).
struct Quarantine {
  std::string header;  // regular expressions over the whole text
  std::string files;
  size_t limit = 0;
};

const std::vector<Quarantine>& quarantines() {
  static const std::vector<Quarantine> list{
      {R"(mpi\.h)",
       R"(harness/transport/mpi[a-z_]*\.cpp|correctness/transport/.*|bench/collectives_bench\.cpp|)"
       R"(correctness/cuda_emulator/nccl_processes\.cpp)",
       0},
      {R"(nccl\.h)", R"(harness/transport/nccl[a-z_]*\.(cpp|hpp)|correctness/cuda_emulator/.*)", 0},
      {R"((cuda|cublas|nvrtc).*\.(h|hpp|cuh))",
       R"(harness/(device/cuda_|measure/).*|kernels/cuda/.*|correctness/(kernels/cuda|cuda_emulator)/.*|)"
       R"(bench/cuda/.*)",
       0},
      {R"(CLI/.*)", R"(harness/suite/.*\.cpp)", 1},
      {R"(nlohmann/.*)", R"(harness/(report|suite)/.*\.cpp)", 4},
      {R"(fmt/.*)", R"(.*\.(cpp|cu))", 0},
      {R"(iostream|print)", R"(harness/(report|suite)/.*|correctness/.*|bench/.*)", 0},
      {R"(cassert|assert\.h)", "nothing may", 0},
  };
  return list;
}

constexpr size_t kMostLines = 400;
constexpr size_t kMostColumns = 110;

// ---- Reading

struct File {
  std::string path;  // from the root of the project, with '/'
  std::string text;
};

struct Include {
  std::string target;
  bool quoted = false;
  size_t line = 0;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<Include> includes_of(const File& file) {
  static const std::regex pattern(R"(^\s*#\s*include\s*(["<])([^">]+)[">].*)");
  std::vector<Include> found;
  size_t number = 0;
  for (const std::string& line : lines_of(file.text)) {
    ++number;
    std::smatch match;
    if (std::regex_match(line, match, pattern)) found.push_back({match[2], match[1] == "\"", number});
  }
  return found;
}

// The layer that a path lies in; the number of layers where it lies in none.
size_t layer_of(const std::string& path) {
  const auto& list = layers();
  const auto at = std::find_if(list.begin(), list.end(), [&](const Layer& layer) {
    return path.starts_with(std::string(layer.folder) + "/");
  });
  return static_cast<size_t>(at - list.begin());
}

bool is_source(const std::string& path) {
  static const std::set<std::string> suffixes{".cpp", ".hpp", ".cu", ".cuh"};
  return suffixes.contains(std::filesystem::path(path).extension().string());
}

// Characters, not bytes: comments hold superscripts and arrows.
size_t columns_of(const std::string& line) {
  const auto starts_character = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
  return static_cast<size_t>(std::count_if(line.begin(), line.end(), starts_character));
}

using Violations = std::vector<std::string>;

std::string at(const File& file, size_t line, const std::string& what) {
  return file.path + ":" + std::to_string(line) + ": " + what;
}

// ---- The rules, as functions

// What a product file includes of the project stands above it and is not hidden from it.
Violations against_layers(const File& file) {
  Violations found;
  const size_t own = layer_of(file.path);
  if (own == layers().size()) return {at(file, 1, "lies in no layer")};
  const Layer& layer = layers()[own];
  for (const Include& include : includes_of(file)) {
    if (!include.quoted) continue;
    const size_t other = layer_of(include.target);
    if (other == layers().size()) {
      found.push_back(
          at(file, include.line, include.target + " is no path from the root of the project into a layer"));
    } else if (other > own) {
      found.push_back(at(file, include.line, include.target + " stands below " + std::string(layer.folder)));
    } else if (std::find(layer.never.begin(), layer.never.end(), layers()[other].folder) !=
               layer.never.end()) {
      found.push_back(
          at(file, include.line, std::string(layer.folder) + " must never see " + include.target));
    }
  }
  return found;
}

// Quarantined headers stay where they may be, in as few files as they may be.
Violations against_quarantine(const std::vector<File>& files) {
  Violations found;
  for (const Quarantine& rule : quarantines()) {
    const std::regex header(rule.header);
    const std::regex allowed(rule.files);
    std::set<std::string> users;
    for (const File& file : files) {
      for (const Include& include : includes_of(file)) {
        if (!std::regex_match(include.target, header)) continue;
        users.insert(file.path);
        if (!std::regex_match(file.path, allowed)) {
          found.push_back(at(file, include.line, "<" + include.target + "> is for " + rule.files + " only"));
        }
      }
    }
    if (rule.limit == 0 || users.size() <= rule.limit) continue;
    std::string names;
    for (const std::string& user : users) names += " " + user;
    found.push_back(rule.header + " is for " + std::to_string(rule.limit) + " file only, not for" + names);
  }
  return found;
}

// Size, width and a first line that says what the file is.
Violations against_form(const File& file) {
  Violations found;
  const std::vector<std::string> lines = lines_of(file.text);
  if (lines.empty() || !lines.front().starts_with("//")) {
    found.push_back(at(file, 1, "a source file opens with a comment that says what it is"));
  }
  if (lines.size() > kMostLines) {
    found.push_back(at(file, lines.size(), "more than " + std::to_string(kMostLines) + " lines"));
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (columns_of(lines[i]) > kMostColumns) {
      found.push_back(at(file, i + 1, "more than " + std::to_string(kMostColumns) + " columns"));
    }
  }
  return found;
}

// The tree speaks of itself alone: no place of one machine, nothing left for later. (The brackets keep these
// words out of this file.)
Violations against_outside(const File& file) {
  static const std::regex place("(^|[^A-Za-z0-9_./-])/(w[o]rk|h[o]me|r[o]ot|f[a]rm|t[m]p)/[A-Za-z0-9]");
  static const std::regex later("\\b(T[O]DO|F[I]XME|X[X]X)\\b");
  Violations found;
  size_t number = 0;
  for (const std::string& line : lines_of(file.text)) {
    ++number;
    if (std::regex_search(line, place)) found.push_back(at(file, number, "a path of one machine: " + line));
    if (std::regex_search(line, later)) found.push_back(at(file, number, "left for later: " + line));
  }
  return found;
}

// ---- The tree

File read(const std::filesystem::path& root, const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return {std::filesystem::relative(path, root).generic_string(), text.str()};
}

std::vector<File> read_tree(const std::filesystem::path& root) {
  static const std::array folders{"harness", "kernels", "correctness", "bench",
                                  "scripts", "cmake",   ".ci",         "results"};
  static const std::set<std::string> suffixes{".cpp", ".hpp", ".cu",  ".cuh",   ".py",
                                              ".sh",  ".md",  ".txt", ".cmake", ""};
  std::vector<File> files;
  for (const char* folder : folders) {
    if (!std::filesystem::exists(root / folder)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !suffixes.contains(entry.path().extension().string())) continue;
      files.push_back(read(root, entry.path()));
    }
  }
  for (const char* name : {"CMakeLists.txt", "CMakePresets.json", "README.md"}) {
    if (std::filesystem::exists(root / name)) files.push_back(read(root, root / name));
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.path < b.path; });
  return files;
}

const std::vector<File>& tree() {
  static const std::vector<File> files = read_tree(ZP_ROOT);
  return files;
}

std::vector<File> sources(const std::string& pattern) {
  std::vector<File> files;
  for (const File& file : tree()) {
    if (is_source(file.path) && std::regex_search(file.path, std::regex(pattern))) files.push_back(file);
  }
  return files;
}

std::string listed(const Violations& violations) {
  std::string text;
  for (const std::string& violation : violations) text += violation + "\n";
  return text;
}

template <class Rule>
std::string each(const std::vector<File>& files, Rule rule) {
  std::string text;
  for (const File& file : files) text += listed(rule(file));
  return text;
}

// ---- The tree keeps the rules

TEST(Tree, IsRead) {
  std::map<size_t, int> files_in;
  for (const File& file : sources("^(harness|kernels)/")) ++files_in[layer_of(file.path)];
  for (size_t i = 0; i < layers().size(); ++i) {
    EXPECT_GT(files_in[i], 0) << "no source file in " << layers()[i].folder;
  }
}

TEST(Tree, IncludesOnlyWhatStandsAbove) {
  EXPECT_EQ(each(sources("^(harness|kernels)/"), against_layers), "");
}

TEST(Tree, IncludesFilesThatExist) {
  std::string missing;
  for (const File& file : sources("")) {
    for (const Include& include : includes_of(file)) {
      if (include.quoted && !std::filesystem::exists(std::filesystem::path(ZP_ROOT) / include.target)) {
        missing += at(file, include.line, include.target) + "\n";
      }
    }
  }
  EXPECT_EQ(missing, "") << "paths are written from the root of the project";
}

TEST(Tree, KeepsVendorHeadersInTheirFiles) { EXPECT_EQ(listed(against_quarantine(sources(""))), ""); }

TEST(Tree, OpensFilesWithACommentAndKeepsThemSmall) { EXPECT_EQ(each(sources(""), against_form), ""); }

TEST(Tree, SpeaksOfItselfAlone) { EXPECT_EQ(each(tree(), against_outside), ""); }

// ---- The rules refuse what they should

struct Refused {
  std::string name, path, include, says;
};

class LayerRule : public ::testing::TestWithParam<Refused> {};

TEST_P(LayerRule, RefusesTheInclude) {
  const auto& [name, path, include, says] = GetParam();
  const Violations found = against_layers({path, "// x\n #  include  \"" + include + "\"  // y\n"});
  ASSERT_EQ(found.size(), 1U) << listed(found);
  EXPECT_NE(found.front().find(path + ":2: "), std::string::npos) << found.front();
  EXPECT_NE(found.front().find(says), std::string::npos) << found.front();
}

const std::vector<Refused>& refused() {
  static const std::vector<Refused> list{
      {"strategy_of_theory", "harness/strategy/zero9.cpp", "harness/theory/stage.hpp", "never see"},
      {"strategy_of_ledger", "harness/strategy/zero9.cpp", "harness/ledger/evidence.hpp", "below"},
      {"theory_of_strategy", "harness/theory/t.hpp", "harness/strategy/strategy.hpp", "below"},
      {"theory_of_model", "harness/theory/t.hpp", "harness/model/model.hpp", "below"},
      {"claim_of_strategy", "harness/claim/c.cpp", "harness/strategy/strategy.hpp", "never see"},
      {"model_of_transport", "harness/model/m.cpp", "harness/transport/transport.hpp", "never see"},
      {"device_of_transport", "harness/device/d.cpp", "harness/transport/transport.hpp", "below"},
      {"kernels_of_model", "kernels/k.cpp", "harness/model/model.hpp", "below"},
      {"relative_path", "harness/base/b.cpp", "check.hpp", "no path from the root"},
  };
  return list;
}

INSTANTIATE_TEST_SUITE_P(Of, LayerRule, ::testing::ValuesIn(refused()),
                         [](const auto& info) { return info.param.name; });

TEST(LayerRuleItself, AllowsWhatStandsAboveAndOwnFiles) {
  const File file{"harness/claim/c.cpp",
                  "// x\n#include \"harness/claim/verdict.hpp\"\n#include "
                  "\"harness/theory/stage.hpp\"\n#include <vector>\n"};
  EXPECT_EQ(listed(against_layers(file)), "");
}

TEST(LayerRuleItself, RefusesAFolderOutsideTheList) {
  EXPECT_EQ(against_layers({"harness/helpers/h.cpp", "// x\n"}).size(), 1U);
}

TEST(Quarantine, RefusesAVendorHeaderElsewhere) {
  const Violations found =
      against_quarantine({{"harness/strategy/ddp.cpp", "// x\n#include <mpi.h>\n"},
                          {"harness/transport/mpi_link.cpp", "// x\n#include <mpi.h>\n"},
                          {"harness/trainer/step.cpp", "// x\n#include <cuda_runtime.h>\n"},
                          {"kernels/cuda/gemm.cu", "// x\n#include <cuda_bf16.h>\n"},
                          {"harness/device/cuda_check.hpp", "// x\n#include <cuda_runtime_api.h>\n"},
                          {"harness/ledger/l.hpp", "// x\n#include <fmt/format.h>\n"}});
  EXPECT_EQ(found.size(), 3U) << listed(found);
  EXPECT_NE(listed(found).find("harness/strategy/ddp.cpp:2: <mpi.h>"), std::string::npos) << listed(found);
}

TEST(Quarantine, RefusesASecondFileWithAHeavyHeader) {
  const Violations found = against_quarantine({{"harness/suite/a.cpp", "// x\n#include <CLI/CLI.hpp>\n"},
                                               {"harness/suite/b.cpp", "// x\n#include <CLI/CLI.hpp>\n"}});
  ASSERT_EQ(found.size(), 1U) << listed(found);
  EXPECT_NE(found.front().find("b.cpp"), std::string::npos) << found.front();
}

TEST(Form, RefusesLongFilesWideLinesAndSilentOpenings) {
  std::string many = "// x\n";
  for (size_t i = 0; i < kMostLines; ++i) many += "\n";
  EXPECT_EQ(against_form({"a.cpp", many}).size(), 1U);
  EXPECT_EQ(against_form({"a.cpp", "// " + std::string(kMostColumns, 'x') + "\n"}).size(), 1U);
  EXPECT_EQ(against_form({"a.cpp", "#pragma once\n"}).size(), 1U);
  std::string arrows = "//";
  for (size_t i = 2; i < kMostColumns; ++i) arrows += "→";
  EXPECT_EQ(listed(against_form({"a.cpp", arrows + "\n"})), "") << "a character of three bytes is one column";
}

TEST(Outside, RefusesAPlaceOfOneMachineAndWorkLeftForLater) {
  const std::string slash = "/", words = "TO";
  EXPECT_EQ(against_outside({"a.cpp", "// see " + slash + "home/someone/notes\n"}).size(), 1U);
  EXPECT_EQ(against_outside({"a.cpp", "// " + words + "DO: later\n"}).size(), 1U);
  EXPECT_EQ(
      listed(against_outside({"a.cpp", "// /usr/share/x, and" + slash + "work" + slash + "a in progress\n"})),
      "");
}

}  // namespace
