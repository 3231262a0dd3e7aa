// Data: a file's bytes, a seeded corpus, which tokens a micro-batch holds, and one clear line for what cannot
// be used.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "harness/base/check.hpp"
#include "harness/model/data.hpp"

namespace zp::test {
namespace {

// A file that goes away with its test.
class TestFile {
 public:
  explicit TestFile(const std::string& bytes)
      : path_(std::filesystem::path(testing::TempDir()) /
              (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".bin")) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TestFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// The line that opening fails with; it must name the file and be usage.
std::string refusal(const std::string& path, int64_t sequence) {
  try {
    Corpus::from_file(path, sequence);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::usage);
    const std::string line = error.what();
    EXPECT_NE(line.find(path), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    return line;
  }
  ADD_FAILURE() << path << " was taken";
  return {};
}

void expect_says(const std::string& line, const std::string& words) {
  EXPECT_NE(line.find(words), std::string::npos) << line;
}

TEST(Corpus, RefusesAMissingFileAFolderAndAnEmptyFile) {
  expect_says(refusal("/no/such/file", 4), "No such file");
  expect_says(refusal(std::filesystem::temp_directory_path().string(), 4), "is a folder");
  const TestFile empty("");
  expect_says(refusal(empty.path(), 4), "is empty");
}

// A token file of llm.c.
std::string token_file(const std::vector<uint32_t>& header, const std::vector<uint16_t>& tokens) {
  std::string bytes(1024, '\0');
  for (size_t i = 0; i < header.size(); ++i) {
    for (size_t byte = 0; byte < 4; ++byte) bytes[4 * i + byte] = static_cast<char>(header[i] >> (8 * byte));
  }
  for (const uint16_t token : tokens) {
    bytes += static_cast<char>(token & 0xff);
    bytes += static_cast<char>(token >> 8);
  }
  return bytes;
}

TEST(TokenFile, GivesItsTokens) {
  const TestFile file(token_file({20240520, 1, 5}, {50256, 3, 258, 0, 50255}));
  const Corpus corpus = Corpus::from_token_file(file.path(), 4, 50257);
  EXPECT_EQ(corpus.length(), 5);
  const MicroBatch batch = corpus.micro_batch(1, 0, 0, 1, 4);
  EXPECT_EQ(batch.inputs, (std::vector<int32_t>{50256, 3, 258, 0}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{3, 258, 0, 50255}));
}

TEST(TokenFile, IsRefusedInOneLineWhereItIsNone) {
  const auto refused = [](const std::string& bytes, const std::string& words) {
    const TestFile file(bytes);
    try {
      Corpus::from_token_file(file.path(), 2, 300);
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      const std::string line = error.what();
      EXPECT_EQ(error.code(), Exit::usage);
      expect_says(line, file.path());
      expect_says(line, words);
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    }
  };
  const std::vector<uint16_t> tokens{1, 2, 299};
  refused(token_file({20240521, 1, 3}, tokens), "begins with 20240521, not 20240520");
  refused(token_file({20240520, 2, 3}, tokens), "is of version 2, not 1");
  refused(token_file({20240520, 1, 4}, tokens), "announces 4 tokens and holds 3; it is cut off");
  refused(token_file({20240520, 1, 2}, tokens), "announces 2 tokens and holds 3");
  refused(token_file({20240520, 1, 3}, tokens) + "x", "announces 3 tokens");
  refused(token_file({20240520, 1, 3}, {1, 2, 300}), "token 2 is 300, outside the model's vocabulary of 300");
  refused(token_file({20240520, 1, 2}, {1, 2}), "needs as many and the token that follows");
  refused(std::string(1023, '\0'), "holds 1023 bytes, less than a header");
}

TEST(Corpus, RefusesAFileWithoutASequenceAndItsNextToken) {
  const TestFile file("abcde");
  expect_says(refusal(file.path(), 5),
              "holds 5 tokens; a micro-batch of 5 needs as many and the token that follows");
  expect_says(refusal(file.path(), INT64_MAX), "holds 5 tokens");
  expect_says(refusal(file.path(), 0), "at least 1");
  const Corpus just_enough = Corpus::from_file(file.path(), 4);
  const MicroBatch only = just_enough.micro_batch(1, 2, 3, 2, 4);
  EXPECT_EQ(only.inputs, (std::vector<int32_t>{'a', 'b', 'c', 'd', 'a', 'b', 'c', 'd'}));
  EXPECT_EQ(only.targets, (std::vector<int32_t>{'b', 'c', 'd', 'e', 'b', 'c', 'd', 'e'}));
  EXPECT_THROW(just_enough.micro_batch(1, 2, 3, 1, 5), Error);
}

TEST(Corpus, TakesEveryByteAsItIs) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(255 - i));
  const TestFile file(bytes);
  const MicroBatch all = Corpus::from_file(file.path(), 255).micro_batch(1, 0, 0, 1, 255);
  for (int i = 0; i < 255; ++i) {
    EXPECT_EQ(all.inputs[static_cast<size_t>(i)], 255 - i);
    EXPECT_EQ(all.targets[static_cast<size_t>(i)], 254 - i);
  }
}

TEST(Corpus, DrawsMicroBatchesFromStepAndNumberAlone) {
  const Corpus corpus = Corpus::synthetic(3, 1000000, 256);
  std::set<std::vector<int32_t>> different;
  for (int step = 0; step < 5; ++step) {
    for (int number = 0; number < 24; ++number) {
      different.insert(corpus.micro_batch(1, step, number, 1, 16).inputs);
    }
  }
  EXPECT_EQ(different.size(), 5U * 24U);
  EXPECT_NE(corpus.micro_batch(1, 2, 3, 1, 16).inputs, corpus.micro_batch(1, 3, 2, 1, 16).inputs);
  EXPECT_NE(corpus.micro_batch(1, 2, 3, 1, 16).inputs, corpus.micro_batch(2, 2, 3, 1, 16).inputs);
  // Whoever asks again, in whatever order, gets the same; a larger batch begins with the smaller one.
  const MicroBatch again = Corpus::synthetic(3, 1000000, 256).micro_batch(1, 4, 9, 3, 16);
  const MicroBatch single = corpus.micro_batch(1, 4, 9, 1, 16);
  EXPECT_EQ(corpus.micro_batch(1, 4, 9, 3, 16).targets, again.targets);
  EXPECT_TRUE(std::equal(single.inputs.begin(), single.inputs.end(), again.inputs.begin()));
  EXPECT_FALSE(std::equal(single.inputs.begin(), single.inputs.end(), again.inputs.begin() + 16));
}

TEST(Corpus, TargetsAreTheTokensThatFollow) {
  const Corpus corpus = Corpus::synthetic(8, 400, 50);
  const MicroBatch tokens = corpus.micro_batch(1, 0, 0, 4, 31);
  ASSERT_EQ(tokens.inputs.size(), 4U * 31U);
  for (size_t i = 0; i < tokens.inputs.size(); ++i) {
    if (i % 31 == 30) continue;
    EXPECT_EQ(tokens.targets[i], tokens.inputs[i + 1]) << i;
  }
}

TEST(Corpus, ReachesItsFirstAndLastToken) {
  const Corpus corpus = Corpus::synthetic(8, 20, 1000000);
  std::set<int32_t> seen;
  for (int number = 0; number < 400; ++number) {
    const MicroBatch tokens = corpus.micro_batch(1, 0, number, 1, 16);
    seen.insert(tokens.inputs.begin(), tokens.inputs.end());
    seen.insert(tokens.targets.begin(), tokens.targets.end());
  }
  // 4 starts: each is missed with chance (3/4)^400.
  const Corpus whole = Corpus::synthetic(8, 20, 1000000);
  const MicroBatch all = whole.micro_batch(1, 0, 0, 1, 19);
  for (const int32_t token : all.inputs) EXPECT_TRUE(seen.count(token));
  EXPECT_TRUE(seen.count(all.targets.back()));
}

TEST(Corpus, HashesItsTokens) {
  const TestFile file("some text, some more text");
  const Corpus corpus = Corpus::from_file(file.path(), 4);
  EXPECT_EQ(corpus.hash(), Corpus::from_file(file.path(), 9).hash());
  std::ofstream(file.path(), std::ios::binary) << "some text, some more tex!";
  EXPECT_NE(corpus.hash(), Corpus::from_file(file.path(), 4).hash());
  EXPECT_NE(Corpus::synthetic(1, 100, 256).hash(), Corpus::synthetic(2, 100, 256).hash());
  EXPECT_EQ(Corpus::synthetic(1, 100, 256).hash(), Corpus::synthetic(1, 100, 256).hash());
}

TEST(Corpus, SyntheticTextIsLearnableAndInItsVocabulary) {
  const int64_t vocabulary = 256, length = 20000;
  const Corpus corpus = Corpus::synthetic(4, length, vocabulary);
  EXPECT_EQ(corpus.length(), length);
  const MicroBatch all = corpus.micro_batch(1, 0, 0, 1, length - 1);
  std::set<std::pair<int32_t, int32_t>> pairs;
  for (size_t i = 0; i < all.inputs.size(); ++i) {
    ASSERT_TRUE(all.inputs[i] >= 0 && all.inputs[i] < vocabulary);
    pairs.insert({all.inputs[i], all.targets[i]});
  }
  // At most four favourites of each token and one surprise in 16; independent tokens would make about 17,000
  // pairs.
  EXPECT_LT(pairs.size(), 4U * 256U + 20000U / 16U + 300U);
  EXPECT_THROW(Corpus::synthetic(1, 100, 1), Error);
  EXPECT_THROW(Corpus::synthetic(1, 1, 256), Error);
}

}  // namespace
}  // namespace zp::test
