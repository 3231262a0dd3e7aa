// Whatever ends a collective that is under way ends all of them.
#include "harness/transport/stream_watch.hpp"

#include <exception>

namespace zp::transport {
namespace {

// Where it stands: at the first of its steps that is not over.
std::string place_of(const UnderWay& one) {
  // All of a step's messages are one to NCCL: it does not say which of them is missing.
  for (size_t i = 0; i < one.steps.size(); ++i) {
    if (one.steps[i].ended->done()) continue;
    return ", step " + std::to_string(i + 1) + " of " + std::to_string(one.steps.size()) + ": " +
           one.steps[i].text();
  }
  return one.steps.empty() ? "" : ", after its last step";
}

}  // namespace

bool StreamWatch::see_ended() {
  bool any = false;
  for (; !under_way_.empty() && under_way_.front().ended != nullptr && under_way_.front().ended->done();
       any = true)
    under_way_.pop_front();
  return any;
}

void StreamWatch::hear_carrier() {
  if (under_way_.empty()) return;
  try {
    carrier_.check();
  } catch (const Error& error) {
    abandon(named(error, under_way_.front().caption));
  }
}

void StreamWatch::abandon(const Error& reason) {
  if (!failure_) failure_ = std::make_unique<Error>(reason);
  under_way_.clear();
  carrier_.abort(*failure_);
}

void StreamWatch::begin() {
  if (std::uncaught_exceptions() > 0 && !under_way_.empty()) {
    abandon(Error(Exit::internal,
                  "a collective was in flight when an error passed: " + text_of(under_way_.front().caption)));
    return;
  }
  patience_.restart();
}

void StreamWatch::look() {
  if (see_ended()) patience_.restart();
  hear_carrier();
  if (under_way_.empty()) return patience_.pause();
  const UnderWay& first = under_way_.front();
  try {
    control_.check();
  } catch (const Error& error) {
    return abandon(error);
  }
  // What comes before it is work of this rank alone.
  if (!first.begun->done()) patience_.restart();
  if (patience_.expired()) {
    return abandon(Error(Exit::timeout, "rank " + std::to_string(carrier_.rank()) + " waited " +
                                            seconds_text(timeout_s_) + " in " + title_of(first.caption) +
                                            place_of(first)));
  }
  patience_.pause();
}

std::string StreamWatch::title_of(const Caption& caption) const {
  return (native_ ? "native " : "") + text_of(caption);
}

Error StreamWatch::named(const Error& error, const Caption& caption) const {
  if (error.code() != Exit::cuda && error.code() != Exit::timeout) return error;
  return {error.code(),
          "rank " + std::to_string(carrier_.rank()) + ": " + error.what() + " in " + title_of(caption)};
}

}  // namespace zp::transport
