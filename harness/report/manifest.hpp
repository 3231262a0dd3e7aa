// The manifest of a dump: what its files hold (results/dump.md). Written with the records, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/layout/layout.hpp"
#include "harness/report/result.hpp"

namespace zp {

// One array of a dump. Names that are empty, and numbers below zero, are null in the manifest.
struct DumpedArray {
  std::string file = {};  // from the dump's folder
  std::string stage = {}, kind = {}, tensor = {}, type = {};
  int step = -1, micro_batch = -1, rank = 0;
  int64_t first = -1;  // element of the tensor that the array begins with
  std::vector<int64_t> shape = {};
};

template <class A>
void archive(A& a, DumpedArray& d) {
  a(d.file, d.stage, d.kind, d.tensor, d.type, d.step, d.micro_batch, d.rank, d.first, d.shape);
}

struct DumpManifest {
  RunSettings settings;
  std::vector<std::string> stages;  // asked for, in their order: those that have no arrays yet too
  int64_t positions = 0;            // rows of the position table
  std::vector<UnitSpec> units;
  std::vector<DumpedArray> arrays;
};

// Throws (usage) where the file cannot be written.
void write_manifest(const std::string& path, const DumpManifest& manifest);

}  // namespace zp
