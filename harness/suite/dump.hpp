// verify --dump: the numbers of every stage as NumPy reads them, for others to recompute (results/dump.md).
// Each rank writes what it computed or answers for; rank 0 also writes the manifest.
#pragma once

#include <string>
#include <vector>

#include "harness/layout/layout.hpp"
#include "harness/report/manifest.hpp"
#include "harness/trainer/observer.hpp"
#include "harness/transport/transport.hpp"

namespace zp {

// Throws (usage) unless `folder` is empty, or can be made in a folder that is there: before any work, and
// without touching it.
void check_dump_folder(const std::string& folder);
// Makes it, and writes a file there to see that it can. Throws (usage) where it cannot.
void make_dump_folder(const std::string& folder);

// One stage on one rank.
class Dump final : public Observer {
 public:
  Dump(std::string folder, std::string stage, int rank, const Layout& layout)
      : folder_(std::move(folder)), stage_(std::move(stage)), rank_(rank), layout_(layout) {}

  void state(int step, const StateRun& run) override;
  void gradient(int step, int number, int unit, const View& whole) override;
  void micro_batch(int step, int number, const MicroBatch& tokens, float loss) override;
  void totals(int step, double loss, double norm) override;

  // What all ranks wrote, in rank order; empty but on rank 0. Collective.
  std::vector<DumpedArray> collect(Control& control) const;

 private:
  struct Contents;
  void write(DumpedArray array, const Contents& contents);

  const std::string folder_, stage_;
  const int rank_;
  const Layout layout_;
  std::vector<DumpedArray> written_;
};

}  // namespace zp
