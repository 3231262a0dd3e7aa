// A list of lines, behind a lock that the thread sanitizer does not see. See barriers.hpp.
#include "correctness/cuda_emulator/barriers.hpp"

#include <cstring>
#include <vector>

#include "correctness/cuda_emulator/lock.hpp"

namespace zp::emulated {

namespace {

constinit bool watching = false;
constinit Site left_out{"", 0};
constinit Spin met_lock;

// Never destroyed: streams may outlive main.
std::vector<Site>& met() {
  static std::vector<Site>* const sites = new std::vector<Site>;
  return *sites;
}

const char* name_of(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

bool same(const Site& a, const Site& b) {
  return a.line == b.line && std::strcmp(name_of(a.file), name_of(b.file)) == 0;
}

}  // namespace

void watch_barriers(const char* file, int line) {
  left_out = {file, line};
  watching = true;
}

int barriers_met() { return static_cast<int>(met().size()); }
Site barrier_met(int number) { return met()[number]; }

bool barrier_left_out(Site site) {
  if (!watching) return false;
  if (same(site, left_out)) return true;
  const Held held(met_lock);
  for (const Site& known : met()) {
    if (same(known, site)) return false;
  }
  met().push_back(site);
  return false;
}

}  // namespace zp::emulated
