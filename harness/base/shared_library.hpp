// Libraries that are opened when they are asked for, so that everything else runs where they are not. One
// stays open until the process ends: what was found in it is used until then.
#pragma once

#include <optional>
#include <string>

namespace zp {

class SharedLibrary {
 public:
  // As the system's loader finds that file name. `asker` begins what is said where it is not here, or lacks
  // what find() asks for. Throws Error(unavailable), with the loader's own words, as find() does.
  SharedLibrary(const std::string& name, const std::string& asker);
  // Nothing where it is not here.
  static std::optional<SharedLibrary> if_here(const std::string& name);

  template <class Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(address(name));
  }
  // Null where it lacks it.
  template <class Function>
  Function* find_if_here(const char* name) const {
    return reinterpret_cast<Function*>(address_if_here(name));
  }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* address(const char* name) const;
  void* address_if_here(const char* name) const;

  std::string asker_;
  void* handle_;
};

}  // namespace zp
