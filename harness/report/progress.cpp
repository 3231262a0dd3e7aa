// Progress line: carriage return, text, erase to the end of the line.
#include "harness/report/progress.hpp"

#include <unistd.h>

namespace zp {

Progress::Progress(Display display, std::FILE* stream)
    : stream_(stream),
      on_(display == Display::on || (display == Display::automatic && isatty(fileno(stream)) == 1)) {}

void Progress::show(const std::string& text) {
  if (!on_) return;
  std::fprintf(stream_, "\r%.79s\033[K", text.c_str());
  std::fflush(stream_);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stream_);
  std::fflush(stream_);
  shown_ = false;
}

}  // namespace zp
