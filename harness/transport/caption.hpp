// What a person is told about a collective, and about how long it was waited for.
#pragma once

#include <cstdint>
#include <string>

#include "harness/transport/transport.hpp"

namespace zp::transport {

struct Caption {
  Operation operation;
  int64_t sequence;
  Label label;
  bool bucket = false;  // of a part of every slice
};

inline std::string text_of(const Caption& caption) {
  std::string text = std::string(name_of(caption.operation)) + " number " + std::to_string(caption.sequence) +
                     " (" + std::string(name_of(caption.label.purpose)) + ")";
  if (!caption.label.name.empty()) text += " of " + caption.label.name;
  if (caption.label.tensor >= 0) text += " [tensor " + std::to_string(caption.label.tensor) + "]";
  return text;
}

inline std::string seconds_text(double s) {
  std::string text = std::to_string(s);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

}  // namespace zp::transport
