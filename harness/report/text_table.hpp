// Plain text in columns, and paragraphs, no wider than 100 columns.
#pragma once

#include <string>
#include <vector>

namespace zp {

inline constexpr size_t kTextWidth = 100;

// The first column is left-aligned, the others right-aligned; columns are as wide as their content.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  // As many cells as the header has.
  void add(std::vector<std::string> cells);
  size_t width() const;
  // Header, a rule, rows; each ends with a newline.
  std::string text() const;

 private:
  std::vector<size_t> widths() const;
  std::vector<std::vector<std::string>> rows_;
};

// `text` broken at spaces into lines of at most kTextWidth; the first begins with `head`, the others are
// indented as far. Words longer than a line are cut.
std::string paragraph(const std::string& head, const std::string& text);

// "1,234,567"
std::string with_commas(int64_t number);
// `number`/1e9 with at most `decimals` digits after the point, without trailing zeros: whole bytes are exact
// with nine.
std::string in_gb(double number, int decimals = 9);

}  // namespace zp
