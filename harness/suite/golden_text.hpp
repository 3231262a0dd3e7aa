// Golden files as text: what may be read as one at all. Two checksums seal a file, so that every changed byte
// is noticed: in a hash it refutes bits, anywhere else it is damage. Nothing here knows what the fields mean.
#pragma once

#include <string>
#include <string_view>

namespace zp {

constexpr std::string_view kGoldenSchema = "zeroproof/golden/2";

// Throws (usage): one line with the file's name and why it is not taken.
[[noreturn]] void refuse_golden(const std::string& path, const std::string& why);

// The whole file. Throws (usage) for what cannot be read, and, before more than both ends of it are, for what
// has no such beginning and end: another schema, no golden file, one that was cut off.
std::string read_golden_text(const std::string& path);

// A JSON object as text, one field a line, with its seal behind the last field.
std::string sealed(const std::string& json);

enum class Hashes { as_written, changed };
// Throws (usage) where the text is not sealed, or anything but hashes was changed after it was.
Hashes check_seal(const std::string& path, std::string_view text);

// Whether these are the 32 digits of a hash.
bool is_hash(std::string_view text);

std::string digest_of(std::string_view text);

}  // namespace zp
