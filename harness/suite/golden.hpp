// Golden files (design 3.8): what a reference left, step by step, so that bits are judged by a file where no
// reference was run. results/schema.md documents every field.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record.hpp"
#include "harness/suite/golden_text.hpp"
#include "harness/trainer/reference.hpp"

namespace zp {

struct Job;

// A file that is a golden file, before it is known whether it is one for the job.
struct GoldenFile {
  std::string path, text;
  std::string digest;  // of the text: ranks must have the same
  Hashes hashes = Hashes::as_written;
  int steps = 0, micro_batches = 0;
};

// Throws (usage) for what cannot be read, was cut off, has another schema, or was changed in anything but a
// hash since it was written.
GoldenFile open_golden(const std::string& path);

// The file's references, one for every distinct arithmetic of the job's stages, of as many steps as the job
// has. Throws (usage) naming the first field that differs, with the file's value and the job's: whatever
// fixes the arithmetic, and the layout where the bits belong to it (design 3.4); and for fields that are too
// many, too few or of another kind, in steps and references that the job does not need too.
std::vector<ReferenceRun> golden_references(const GoldenFile& file, const Job& job);

// `references`: of every distinct arithmetic of the job's stages. Throws (usage) where it cannot be written.
void write_golden(const std::string& path, Existing existing, const Job& job,
                  const std::vector<ReferenceRun>& references);

}  // namespace zp
