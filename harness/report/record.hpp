// Records: one JSON object a line, `schema` first. results/schema.md documents every field. A record of a run
// cannot be built without its verdicts.
#pragma once

#include <string>
#include <vector>

#include "harness/report/bench.hpp"
#include "harness/report/plan.hpp"
#include "harness/report/result.hpp"

namespace zp {

class Record {
 public:
  // The run: what was asked for, where it ran, how it ended. Throws (internal) for a run without a stage.
  explicit Record(const RunResult& run);
  // One stage. Throws (internal) unless it has its verdict of each claim, in the order of kClaims.
  Record(const RunResult& run, const StageResult& stage);
  // The same of one that was timed.
  Record(const BenchResult& bench, const StageResult& stage);
  const std::string& line() const { return line_; }

 private:
  std::string line_;
};

enum class Existing { refuse, overwrite };

// Throws (usage) unless `path`, which `option` names, can be written: before any work, and without touching
// it.
void check_writable(const std::string& path, Existing existing, const std::string& option = "--out");
// The whole file. Throws as check_writable does, and where it cannot take the text.
void write_file(const std::string& path, Existing existing, const std::string& text,
                const std::string& option = "--out");

// The run's record, then one per stage. Throw (usage) where the file cannot be written, or exists and is to
// be refused.
void write_records(const std::string& path, Existing existing, const RunResult& run);
void write_records(const std::string& path, Existing existing, const BenchResult& bench);
// One record: a plan measured nothing, and says so.
void write_records(const std::string& path, Existing existing, const PlanResult& plan);

}  // namespace zp
