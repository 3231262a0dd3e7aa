// Plain text in columns, and paragraphs.
#include "harness/report/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "harness/base/check.hpp"

namespace zp {

namespace {

// Characters, not bytes: names may hold UTF-8.
size_t columns_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

// Bytes of the first `columns` characters.
size_t bytes_of(const std::string& text, size_t columns) {
  size_t at = 0;
  for (size_t seen = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xc0U) != 0x80U && seen++ == columns) break;
  }
  return at;
}

}  // namespace

void TextTable::add(std::vector<std::string> cells) {
  require(cells.size() == rows_.front().size(), "a row has a cell for every column");
  rows_.push_back(std::move(cells));
}

std::vector<size_t> TextTable::widths() const {
  std::vector<size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], columns_of(row[c]));
  }
  return widths;
}

size_t TextTable::width() const {
  size_t sum = 0;
  for (const size_t width : widths()) sum += width + 1;
  return sum - 1;
}

std::string TextTable::text() const {
  const std::vector<size_t> widths = this->widths();
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - columns_of(row[c]), ' ');
      line += c == 0 ? row[c] + space : " " + space + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (&row == &rows_.front()) text += std::string(width(), '-') + "\n";
  }
  return text;
}

std::string paragraph(const std::string& head, const std::string& text) {
  const std::string indent(columns_of(head), ' ');
  const size_t room = kTextWidth - indent.size();
  std::string lines, line, rest = text;
  const auto end_line = [&] {
    lines += (lines.empty() ? head : indent) + line + "\n";
    line.clear();
  };
  while (!rest.empty()) {
    const size_t space = std::min(rest.find(' '), rest.size());
    std::string word = rest.substr(0, space);
    rest.erase(0, space + 1);
    if (!line.empty() && columns_of(line) + 1 + columns_of(word) > room) end_line();
    while (columns_of(word) > room) {
      line = word.substr(0, bytes_of(word, room));
      word.erase(0, line.size());
      end_line();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty() || lines.empty()) end_line();
  return lines;
}

std::string with_commas(int64_t number) {
  std::string text = fmt::format("{}", number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<size_t>(at), 1, ',');
  }
  return text;
}

std::string in_gb(double number, int decimals) {
  std::string text = fmt::format("{:.{}f}", number / 1e9, decimals);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace zp
