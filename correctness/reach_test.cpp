// What a strategy can reach. The ledger sees memory acquired from the device, messages on the link and calls
// of the kernel table; nothing else may hold numbers or compute in harness/strategy. Held by reading its
// source: which headers it includes, and words that would get memory or work past the rig.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

// ---- The rules, as data

// Nothing here allocates, copies or computes on arrays but <algorithm>, which works on what is at hand.
const std::set<std::string>& headers() {
  static const std::set<std::string> list{
      "<algorithm>",
      "<cmath>",
      "<cstdint>",
      "<functional>",
      "<memory>",
      "<utility>",
      "<vector>",
      "harness/base/type.hpp",
      "harness/device/device.hpp",
      "harness/device/host_access.hpp",
      "harness/layout/fold.hpp",
      "harness/layout/layout.hpp",
      "harness/layout/training.hpp",
      "harness/layout/uses.hpp",
      "harness/model/model.hpp",  // the key of a tensor's first values
      "harness/strategy/state.hpp",
      "harness/strategy/strategy.hpp",
      "harness/transport/transport.hpp",
      "kernels/hash.hpp",
      "kernels/kernels.hpp",
      "kernels/norm.hpp",  // exact sums of the gradient norm
  };
  return list;
}

struct Word {
  std::regex pattern;
  std::string why;
};

const std::vector<Word>& words() {
  static const std::string number =
      R"((const\s+)?(std::)?(u?int\d*(_\w+)?|byte|size_t|float|double|bf16|char|unsigned|long|short|bool)\b)";
  static const std::vector<Word> list{
      {std::regex(R"(\b(vector|array|basic_string|initializer_list|span|pair|tuple)\s*<\s*)" + number),
       "numbers outside a buffer"},
      {std::regex(R"(\bstring\b(?!_view))"), "memory outside a buffer"},
      {std::regex(R"(\bnew\b|\b(m|c|re|aligned_)alloc\b|\balloca\b|\ballocator\b)"),
       "memory outside a buffer"},
      {std::regex(R"(\bmake_(unique|shared)\w*\s*<[^>]*\[)"), "memory outside a buffer"},
      {std::regex(R"(\b)" + number + R"(\s+\w+\s*\[)"), "numbers outside a buffer"},
      {std::regex(R"(\b(static|thread_local)\b(?!_))"), "state outside the strategy"},
      {std::regex(R"((\.|->)(template\s+)?(read|write)\s*<)"), "a raw pointer into a buffer"},
      {std::regex(R"(\braw\s*\(|(\.|->)\s*data\b)"), "a raw pointer into a buffer"},
      {std::regex(R"(\bHost(View|Bytes)\b|\bwrite_from_host\b)"), "a buffer's numbers on the host"},
      {std::regex(R"((\.|->)(far|far_memory|copy)\b|(^|[^:.\w])(zp::)?copy\s*\()"), "bytes past the rig"},
      {std::regex(R"(\b(reinterpret|const)_cast\b|_cast<[^<>]*\*>)"), "a raw pointer"},
      {std::regex(R"(\bmem(cpy|move|set)\b)"), "work beside the kernel table"},
      {std::regex(R"(\bkernels::\w+\s*\()"), "work beside the kernel table"},
      {std::regex(R"((\.|->)(allocate|release)\s*\()"), "memory past its buffer"},
  };
  return list;
}

// The gradient norm writes this rank's exact sum, six integers, and reads all ranks'.
struct Exception {
  std::string file, text;
};

const std::vector<Exception>& exceptions() {
  static const std::vector<Exception> list{
      {"state.cpp", "write_from_host<int64_t>("},
      {"state.cpp", "HostView<int64_t>"},
      {"state.cpp", "std::array<int64_t, 6> limbs{}"},
  };
  return list;
}

// ---- Reading

struct File {
  std::string name, text;
};

using Violations = std::vector<std::string>;

// The text of each exception goes once; a second one stays.
Violations against_reach(const File& file) {
  std::string text = std::regex_replace(file.text, std::regex("//[^\n]*"), "");
  for (const Exception& exception : exceptions()) {
    if (exception.file != file.name) continue;
    const size_t at = text.find(exception.text);
    if (at != std::string::npos) text.erase(at, exception.text.size());
  }
  Violations found;
  std::istringstream in(text);
  static const std::regex include(R"re(^\s*#\s*include\s*(?:"([^"]+)"|(<[^>]+>)).*)re");
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string where = file.name + ":" + std::to_string(number) + ": ";
    std::smatch match;
    if (std::regex_match(line, match, include)) {
      const std::string target = match[1].str() + match[2].str();
      if (!headers().contains(target)) found.push_back(where + "includes " + target);
      continue;
    }
    for (const Word& word : words()) {
      if (std::regex_search(line, word.pattern)) found.push_back(where + word.why + ": " + line);
    }
  }
  return found;
}

std::vector<File> strategies() {
  std::vector<File> files;
  for (const auto& entry : std::filesystem::directory_iterator(ZP_ROOT "/harness/strategy")) {
    const std::string suffix = entry.path().extension().string();
    if (suffix != ".cpp" && suffix != ".hpp") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    files.push_back({entry.path().filename().string(), text.str()});
  }
  return files;
}

std::string listed(const Violations& violations) {
  std::string text;
  for (const std::string& violation : violations) text += violation + "\n";
  return text;
}

// ---- The tree keeps the rules

TEST(Reach, OfStrategiesIsTheRig) {
  const std::vector<File> files = strategies();
  EXPECT_GE(files.size(), 7U);
  for (const File& file : files) EXPECT_EQ(listed(against_reach(file)), "");
}

TEST(Reach, MakesNoExceptionThatNobodyNeeds) {
  for (const Exception& exception : exceptions()) {
    bool used = false;
    for (const File& file : strategies()) {
      used = used || (file.name == exception.file && file.text.find(exception.text) != std::string::npos);
    }
    EXPECT_TRUE(used) << exception.text;
  }
}

// ---- The rules refuse what they should

class Beside : public ::testing::TestWithParam<std::string> {};

TEST_P(Beside, TheRigIsRefused) {
  const Violations found = against_reach({"zero9.cpp", "// x\n" + GetParam() + "\n"});
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(found.front().starts_with("zero9.cpp:2: ")) << found.front();
}

INSTANTIATE_TEST_SUITE_P(
    Reach, Beside,
    ::testing::Values("std::vector<float> grads_;", "std::vector<bf16> kept_;", "std::vector< double > x;",
                      "std::vector<const int32_t> x;", "std::array<float, 64> block{};", "float block[64];",
                      "std::vector<std::byte> x;", "std::vector<uint8_t> x;", "std::string kept_;",
                      "auto* x = new Buffer;", "void* x = malloc(8);", "auto x = std::aligned_alloc(64, 8);",
                      "auto x = std::make_unique<float[]>(8);", "auto x = std::make_shared<float[]>(8);",
                      "static Buffer kept;", "thread_local int seen = 0;", "float* x = view.write<float>();",
                      "const HostView<float> x(view);", "const HostBytes x(view);",
                      "write_from_host<float>(view, x);", "copy(a, b, nullptr);", "rig.device.far_memory();",
                      "const auto* x = grads.all().read<bf16>();", "void* x = view.raw();",
                      "void* x = view.storage()->data;", "auto* x = reinterpret_cast<float*>(y);",
                      "auto* x = static_cast<float*>(y);", "std::memcpy(a, b, 4);",
                      "kernels::adamw_element(x, y);", "device.allocate(category, bytes);", "#include <map>",
                      "#include <cstdlib>", "#include \"kernels/adamw.hpp\"",
                      "#include \"harness/model/data.hpp\""));

TEST(Reach, AllowsWhatTheRigGives) {
  const File file{"zero9.cpp",
                  "#include <vector>\n// a new vector<float> in words\nstd::vector<Buffer> buffers_;\n"
                  "Buffer x = rig.device.acquire(Category::grads, Type::f32, {5});\n"
                  "rig.kernels.run(kernels::Fold{.inputs = {a, b}, .out = a, .divisor = 2.0F});\n"
                  "const auto divisor = static_cast<float>(batches);\n"};
  EXPECT_EQ(listed(against_reach(file)), "");
}

TEST(Reach, HasEachExceptionOnceAndInItsFile) {
  const std::string once = "write_from_host<int64_t>(slot, mine.limbs());\n";
  EXPECT_EQ(listed(against_reach({"state.cpp", once})), "");
  EXPECT_EQ(against_reach({"state.cpp", once + once}).size(), 1U);
  EXPECT_EQ(against_reach({"exchange.cpp", once}).size(), 1U);
}

}  // namespace
