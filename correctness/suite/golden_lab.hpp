// A golden file of a small run to spoil, and runs that are judged by what became of it.
#pragma once

#include <string>

#include "correctness/suite/executable.hpp"

namespace zp {

// Two steps of four micro-batches, on a model whose sums no layout changes.
constexpr const char* kSynthetic = "ZP verify --model synthetic --micro-batches 4 --stages zero1,zero2 ";

class Golden : public Executable {
 protected:
  Golden() {
    const Outcome written = shell(kSynthetic + ("--ranks 2 --steps 2 --write-golden " + file("golden.json")));
    EXPECT_EQ(written.code, 0) << written.err;
    EXPECT_NE(written.out.find("golden.json written\n"), std::string::npos) << written.out;
    text_ = text_of(file("golden.json"));
  }

  // A run judged by the file with `text` in it.
  Outcome judged(const std::string& text, const std::string& options = "--ranks 2") {
    std::ofstream(file("golden.json")) << text;
    return shell(kSynthetic + options + " --golden " + file("golden.json"));
  }

  // The text with its first `from` after `begin` replaced.
  std::string with(const std::string& from, const std::string& to, size_t begin = 0) {
    std::string text = text_;
    const size_t at = text.find(from, begin);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  }

  // The text with a digit changed of the first hash below `key` in step `step`.
  std::string with_other_hash(const std::string& key, int step) {
    size_t at = text_.find("\"references\"");
    for (int i = 0; i <= step; ++i) at = text_.find("\"" + key + "\"", at + 1);
    EXPECT_NE(at, std::string::npos) << key;
    const auto digit = [](char c) { return std::string("0123456789abcdef").find(c) != std::string::npos; };
    const auto hash = [&] { return std::all_of(&text_[at + 1], &text_[at + 33], digit); };
    for (at = text_.find('"', at + key.size() + 2); !hash(); at = text_.find('"', at + 1)) {
    }
    std::string text = text_;
    text[at + 20] = text[at + 20] == '7' ? '8' : '7';
    return text;
  }

  // Refused before anything is trained, in one line that names the file and says this.
  static void expect_refused(const Outcome& bad, const std::string& says) {
    EXPECT_EQ(bad.code, 6) << says << bad.out;
    EXPECT_EQ(bad.out, "");
    EXPECT_EQ(lines_in(bad.err), 1) << bad.err;
    EXPECT_NE(bad.err.find("golden.json: "), std::string::npos) << bad.err;
    EXPECT_NE(bad.err.find(says), std::string::npos) << says << "\n" << bad.err;
  }

  std::string text_;
};

}  // namespace zp
