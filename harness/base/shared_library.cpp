// Libraries that are opened when they are asked for.
#include "harness/base/shared_library.hpp"

#include <dlfcn.h>

#include "harness/base/check.hpp"

namespace zp {
namespace {

void* opened(const std::string& name) { return dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); }

void* required(void* found, const std::string& asker) {
  if (found == nullptr) fail(Exit::unavailable, asker + ": " + dlerror());
  return found;
}

}  // namespace

SharedLibrary::SharedLibrary(const std::string& name, const std::string& asker)
    : asker_(asker), handle_(required(opened(name), asker)) {}

std::optional<SharedLibrary> SharedLibrary::if_here(const std::string& name) {
  void* const handle = opened(name);
  if (handle == nullptr) return std::nullopt;
  return SharedLibrary(handle);
}

void* SharedLibrary::address(const char* name) const { return required(address_if_here(name), asker_); }

void* SharedLibrary::address_if_here(const char* name) const { return dlsym(handle_, name); }

}  // namespace zp
