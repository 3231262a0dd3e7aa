// What every table of a run has in common: paragraphs above and below it. Used within this folder.
#pragma once

#include <string>

#include "harness/report/result.hpp"

namespace zp {

// What ran, and where. `steps`: how many, in words.
std::string header_text(const RunSettings& settings, const std::string& steps);
// The hashes of the stages that were not refuted, and of the references: one line for every distinct hash,
// with who ended on it; and where it holds.
std::string hashes_text(const RunResult& run);
// Where ranks have a device's memory: what the device says of it, beside what the ledger's buffers take.
std::string device_memory_text(const RunResult& run);
// Of every refuted claim.
std::string evidence_text(const RunResult& run);
// How many claims were proved, and the exit code.
std::string outcome_text(const RunResult& run);

// 32 digits, or that there are none.
std::string hash_text(const HashSum& hash);
// With `decimals`, fewer where the number is long already.
std::string short_number(double number, int decimals);

}  // namespace zp
