// Golden files that were changed: no digit can be, whether the run uses it or not, and whatever else came to
// stand in the file ends in one line, even where its checksums were made to hold.
#include <cctype>
#include <regex>
#include <utility>

#include "correctness/suite/golden_lab.hpp"
#include "harness/base/check.hpp"
#include "harness/suite/golden_text.hpp"

namespace zp {
namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;  // text, and what is said of it

// One that judges one order of additions and one step, by a file that has two of each.
class HalfUsed : public Golden {
 protected:
  static constexpr const char* kRun =
      "ZP verify --model layers=1,width=8,heads=1,positions=8,vocabulary=32 --recipe bf16 --ranks 2 "
      "--micro-batches 6 ";

  HalfUsed() {
    const Outcome written = shell(kRun + ("--stages ddp,zero2 --steps 2 --write-golden " + file("two.json")));
    EXPECT_EQ(written.code, 0) << written.err;
    two_ = text_of(file("two.json"));
    const size_t first = two_.find("\"arithmetic\"");
    EXPECT_LT(first, two_.rfind("\"arithmetic\"")) << "stages do not share a reference";
  }

  Outcome half_judged(const std::string& text) {
    std::ofstream(file("two.json")) << text;
    return shell(kRun + ("--stages zero2 --steps 1 --golden " + file("two.json")));
  }

  // For every byte of the file, whether it stands in the hash of a reference.
  std::vector<bool> in_hashes() const {
    std::vector<bool> marks(two_.size());
    const auto begin = two_.begin() + static_cast<std::ptrdiff_t>(two_.find("\"references\""));
    const auto end = two_.begin() + static_cast<std::ptrdiff_t>(two_.find("\"hashes_checksum\""));
    const std::regex hash("\"[0-9a-f]{32}\"");
    for (auto at = std::sregex_iterator(begin, end, hash); at != std::sregex_iterator(); ++at) {
      for (auto digit = (*at)[0].first + 1; digit != (*at)[0].second - 1; ++digit)
        marks[static_cast<size_t>(digit - two_.begin())] = true;
    }
    return marks;
  }

  static char another(char digit) { return digit == '9' ? '0' : static_cast<char>(digit + 1); }
  static bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

  std::string two_;
};

TEST_F(HalfUsed, TheSealTellsAHashFromEverythingElseAtEveryDigit) {
  const std::vector<bool> in_hash = in_hashes();
  EXPECT_EQ(check_seal("two.json", two_), Hashes::as_written);
  std::string text = two_;
  int changed = 0, damaged = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_digit(text[i])) continue;
    text[i] = another(two_[i]);
    try {
      EXPECT_EQ(check_seal("two.json", text), Hashes::changed) << "byte " << i;
      EXPECT_TRUE(in_hash[i]) << "byte " << i;
      ++changed;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::usage);
      EXPECT_FALSE(in_hash[i]) << "byte " << i;
      ++damaged;
    }
    text[i] = two_[i];
  }
  EXPECT_GT(changed, 1000);
  EXPECT_GT(damaged, 100);
}

TEST_F(HalfUsed, NoChangedDigitPassesARunThatDoesNotUseIt) {
  const std::vector<bool> in_hash = in_hashes();
  size_t changed = 0, damaged = 0;
  for (size_t i = 0; i < two_.size(); ++i) {
    if (!is_digit(two_[i])) continue;
    // A run each: of many digits, some.
    if (in_hash[i] ? changed++ % 97 != 0 : damaged++ % 17 != 0) continue;
    std::string text = two_;
    text[i] = another(text[i]);
    const Outcome bad = half_judged(text);
    EXPECT_EQ(bad.code, in_hash[i] ? 7 : 6) << "byte " << i << "\n" << bad.err << bad.out;
    EXPECT_EQ(lines_in(bad.err), 1) << bad.err;
    const bool says = bad.err.find("a hash in it was changed after it was written") != std::string::npos;
    EXPECT_EQ(says, in_hash[i]) << bad.err;
  }
  EXPECT_GT(changed, 1000U);
  EXPECT_GT(damaged, 100U);
  EXPECT_EQ(half_judged(two_).code, 0);
}

TEST_F(HalfUsed, ReadsTheReferencesThatTheRunDoesNotUse) {
  std::string text = two_;
  text.replace(text.find("\"loss\": \"0x"), 11, "\"loss\": \"0y");
  const Outcome bad = half_judged(sealed(text.substr(0, text.find(",\n \"hashes_checksum\"")) + "\n}"));
  EXPECT_EQ(bad.code, 6) << bad.out;
  EXPECT_NE(bad.err.find("must be 0x and 16 hexadecimal digits"), std::string::npos) << bad.err;
}

class Damaged : public Golden {
 protected:
  // As its writer would have sealed it.
  static std::string resealed(const std::string& text) {
    return sealed(text.substr(0, text.find(",\n \"hashes_checksum\"")) + "\n}");
  }

  // Before the text's first `at` after `begin`.
  std::string with_before(const std::string& at, const std::string& added, size_t begin = 0) {
    return with(at, added + at, begin);
  }

  static std::string nested(const std::string& opens, const std::string& closes) {
    constexpr int kDeep = 200'000;
    std::string text;
    for (int i = 0; i < kDeep; ++i) text += opens;
    text += "1";
    for (int i = 0; i < kDeep; ++i) text += closes;
    return text;
  }
};

TEST_F(Damaged, IsRefusedInOneLine) {
  const size_t loss = text_.find("\"loss\"") + 12;
  std::string other_loss = text_;
  other_loss[loss] = other_loss[loss] == '1' ? '2' : '1';
  const std::string cut = "was cut off", none = "is no golden file", changed = "is damaged: its checksum";
  for (const auto& [text, says] : Changes{
           {text_.substr(0, text_.size() / 2), cut},
           {text_.substr(0, text_.size() - 3), cut},
           {text_.substr(0, text_.size() - 1), cut},
           {text_ + "\n", cut},
           {"", none},
           {"{}", none},
           {"[1, 2]", none},
           {"NaN", none},
           {"[" + text_ + "]", none},
           {"\xef\xbb\xbf" + text_, none},
           {nested("[", "]"), none},
           {nested("{\"a\":", "}"), none},
           {with("zeroproof/golden/2", std::string(100'000, '2')), none},
           {with("golden/2", "golden/1"),
            "schema is \"zeroproof/golden/1\" in the file; this version reads \"zeroproof/golden/2\""},
           {with("repro-1", "repro-0"), changed},
           {with("\"steps\": 2", "\"steps\": 3"), changed},
           {with("\"seed\": 1", "\"seed\":  1"), changed},
           {with("\"frozen\": []", "\"frozen\": " + nested("[", "]")), changed},
           {other_loss, changed},
           {with("\"loss\"", "\"lost\""), changed},
           {with("\"checksum\": \"", "\"checksum\": \"a"), cut},
       }) {
    expect_refused(judged(text), says);
  }
}

TEST_F(Damaged, IsRefusedByItsEndsHoweverLongItIs) {
  constexpr uintmax_t kLong = uintmax_t{1} << 30;
  fs::resize_file(file("golden.json"), kLong);
  const std::string judging = std::string(kSynthetic) + "--ranks 2 --golden " + file("golden.json");
  expect_refused(shell(judging), "was cut off");
  fs::resize_file(file("golden.json"), 0);
  fs::resize_file(file("golden.json"), kLong);
  expect_refused(shell(judging), "is no golden file");
}

TEST_F(Damaged, IsRefusedForFieldsThatNoFileHasThoughItsChecksumsHold) {
  const std::string one = "\"colour\": 1,\n";
  const size_t second_step = text_.find("\"loss\"", text_.find("\"loss\"") + 1);
  for (const auto& [text, says] : Changes{
           {with_before("\"steps\": 2", one + " "), "has the field \"colour\""},
           {with_before("\"seed\": 1", one + "  "), "has the field \"colour\""},
           {with_before("\"layers\"", one + "   "), "has the field \"model.colour\""},
           {with_before("\"ranks\"", one + "  "), "has the field \"layout.colour\""},
           {with_before("\"arithmetic\"", one + "   "), "has the field \"references.colour\""},
           {with_before("\"reduction\"", one + "    "), "has the field \"arithmetic.colour\""},
           {with_before("\"loss\"", one + "     ", second_step), "has the field \"steps.colour\""},
           {with("\"masters\": {\n", "\"masters\": {\n      " + one, second_step),
            "has the field \"masters.colour\""},
           {with_before("\"seed\": 1", "\"\\n\": 1,\n  "), "has the field \"\\n\""},
           {with("\"loss\"", "\"lost\"", second_step), "lacks the field loss"},
           {with("\"seed\": 1", "\"sead\": 1"), "lacks the field seed"},
           {with("\"steps\": 2", "\"stops\": 2"), "lacks the field steps"},
           {with_before("\"seed\": 1", "\"seed\": 1,\n  "), "a field is there twice"},
       }) {
    expect_refused(judged(resealed(text), "--ranks 2 --steps 1"), says);
  }
}

TEST_F(Damaged, IsRefusedForValuesThatNoFileHasThoughItsChecksumsHold) {
  const std::string deep = "is nested more than 6 deep", steps = "must be a whole number from 1 to 1000000";
  const size_t second_step = text_.find("\"loss\"", text_.find("\"loss\"") + 1);
  const auto seed = [&](const std::string& value) { return with("\"seed\": 1", "\"seed\": " + value); };
  const auto count = [&](const std::string& value) { return with("\"steps\": 2", "\"steps\": " + value); };
  for (const auto& [text, says] : Changes{
           {with("\"frozen\": []", "\"frozen\": " + nested("[", "]")), deep},
           {with("\"frozen\": []", "\"frozen\": " + nested("{\"a\":", "}")), deep},
           {with("repro-1", "repro-0"), "contract is \"repro-0\" in the file and \"repro-1\" in this run"},
           {with("repro-1", "repro-\xff"), "is no JSON"},
           {seed("NaN"), "is no JSON"},
           {seed("1e999"), "a number in it is out of range"},
           {seed("1.00"), "a number in a form that is never written"},
           {seed("99999999999999999999"), "a number in a form that is never written"},
           {seed("1.0"), "seed is 1.0 in the file and 1 in this run"},
           {seed("18446744073709551615"), "seed is 18446744073709551615 in the file and 1 in this run"},
           {seed("null"), "seed is null in the file"},
           {count("0"), steps},
           {count("-1"), steps},
           {count("1000001"), steps},
           {count("18446744073709551615"), steps},
           {count("2.0"), steps},
           {count("\"2\""), steps},
           {count("3"), "steps must be a list of 3"},
           {with("\"micro_batches\": [", "\"micro_batches\": [\n      1,", second_step),
            "micro_batches must be a list of 4"},
           {with("\"references\": [", "\"references\": [\n  7,"), "lacks the field arithmetic"},
           {with("\"loss\": \"0x", "\"loss\": \"0y", second_step), "must be 0x and 16 hexadecimal digits"},
           {with("\"hash\": \"", "\"hash\": \"0", second_step), "must be 32 hexadecimal digits"},
       }) {
    expect_refused(judged(resealed(text), "--ranks 2 --steps 1"), says);
  }
  EXPECT_EQ(judged(resealed(text_)).code, 0);
}

}  // namespace
}  // namespace zp
