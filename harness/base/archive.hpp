// Plain data to a string of bytes and back, for the control link between ranks of one job on like machines. A
// type takes part by listing its members once:  template <class A> void archive(A& a, Thing& t) { a(t.x,
// t.y); }
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/base/check.hpp"

namespace zp {

class Writer {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      archive(*this, const_cast<T&>(value));  // archive() only reads when given a Writer
    }
  }
  void put(const std::string& text) {
    put(text.size());
    bytes_.append(text);
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put(list.size());
    for (const T& item : list) put(item);
  }
  template <class K, class V>
  void put(const std::map<K, V>& map) {
    put(map.size());
    for (const auto& [key, value] : map) {
      put(key);
      put(value);
    }
  }

  template <class T>
  void put(const std::optional<T>& maybe) {
    put(maybe.has_value());
    if (maybe) put(*maybe);
  }

  std::string bytes_;
};

// Throws (internal) where the bytes end too early.
class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  template <class T>
  void get(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      require(at_ + sizeof value <= bytes_.size(), "an archive holds all that is read from it");
      std::memcpy(&value, bytes_.data() + at_, sizeof value);
      at_ += sizeof value;
    } else {
      archive(*this, value);
    }
  }
  void get(std::string& text) {
    const size_t size = get_size();
    require(at_ + size <= bytes_.size(), "an archive holds all that is read from it");
    text.assign(bytes_, at_, size);
    at_ += size;
  }
  template <class T>
  void get(std::vector<T>& list) {
    list.resize(get_size());
    for (T& item : list) get(item);
  }
  template <class K, class V>
  void get(std::map<K, V>& map) {
    map.clear();
    for (size_t i = get_size(); i > 0; --i) {
      K key{};
      get(key);
      get(map[key]);
    }
  }
  template <class T>
  void get(std::optional<T>& maybe) {
    bool there = false;
    get(there);
    maybe.reset();
    if (there) get(maybe.emplace());
  }
  size_t get_size() {
    size_t size = 0;
    get(size);
    require(size <= bytes_.size(), "an archive holds all that is read from it");
    return size;
  }

  const std::string& bytes_;
  size_t at_ = 0;
};

template <class T>
std::string to_bytes(const T& value) {
  Writer writer;
  writer(value);
  return writer.take();
}

template <class T>
T from_bytes(const std::string& bytes) {
  Reader reader(bytes);
  T value{};
  reader(value);
  require(reader.at_end(), "an archive is read to its end");
  return value;
}

}  // namespace zp
