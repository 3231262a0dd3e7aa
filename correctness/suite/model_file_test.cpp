// A model from the config.json of a Hugging Face GPT-2: every field arrives where it belongs, and what is no
// GPT-2's is refused in one line.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/suite/command_line.hpp"

namespace zp {
namespace {

// A file that goes away with its test.
class JsonFile {
 public:
  explicit JsonFile(const std::string& text)
      : path_((std::filesystem::path(testing::TempDir()) / "zp_config.json").string()) {
    std::ofstream(path_) << text;
  }
  ~JsonFile() { std::filesystem::remove(path_); }
  ModelConfig model() const {
    return std::get<VerifyOptions>(parse_command_line({"verify", "--model", path_}, {})).model;
  }

 private:
  std::string path_;
};

const std::string kConfig =
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 48, "n_head": 3, "n_positions": 64, "vocab_size": 300)";

TEST(ModelFile, IsTheConfigOfAGpt2) {
  const ModelConfig model = JsonFile(kConfig + R"(, "activation_function": "gelu_new", "n_inner": null,
      "layer_norm_epsilon": 1e-05, "attn_pdrop": 0.1, "n_ctx": 64})")
                                .model();
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.width, 48);
  EXPECT_EQ(model.heads, 3);
  EXPECT_EQ(model.positions, 64);
  EXPECT_EQ(model.vocabulary, 300);
  EXPECT_TRUE(model.tied) << "GPT-2 is, where nothing else is said";
  EXPECT_FALSE(JsonFile(kConfig + R"(, "tie_word_embeddings": false})").model().tied);
}

TEST(ModelFile, IsRefusedInOneLineWhereItIsNoGpt2s) {
  const auto refused = [](const std::string& text, const std::string& words) {
    try {
      JsonFile(text).model();
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      const std::string line = error.what();
      EXPECT_EQ(error.code(), Exit::usage) << line;
      EXPECT_NE(line.find(words), std::string::npos) << line;
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    }
  };
  refused("{", "is no JSON object");
  refused("[1]", "is no JSON object");
  refused("{}", "lacks the field model_type");
  refused(R"({"model_type": "llama"})", R"(model_type is "llama"; GPT-2 has "gpt2")");
  refused(R"({"model_type": "gpt2", "n_layer": 2})", "lacks the field n_embd");
  refused(R"({"model_type": "gpt2", "n_layer": "2"})", R"(n_layer is "2"; it must be a whole number)");
  for (const char* layers : {"0", "-1", "16777217", "18446744073709551615"})
    refused(R"({"model_type": "gpt2", "n_layer": )" + std::string(layers) + "}", "from 1 to 16777216");
  refused(kConfig + R"(, "activation_function": "relu"})",
          R"(activation_function is "relu"; GPT-2 has "gelu_new")");
  refused(kConfig + R"(, "n_inner": 100})", "n_inner is 100; GPT-2 has 192");
  refused(kConfig + R"(, "layer_norm_epsilon": 1e-6})", "layer_norm_epsilon is 1e-06");
  refused(kConfig + R"(, "tie_word_embeddings": 1})", "must be true or false");
  refused(
      R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 50, "n_head": 3, "n_positions": 6, "vocab_size": 9})",
      "3 heads do not divide width 50");
}

}  // namespace
}  // namespace zp
