// What NCCL says of how it works here: chosen lines of its own log, as it wrote them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/transport/carrier.hpp"

namespace zp {

// Has NCCL, which must not have been opened yet, write its log into memory of this process; unless its log
// was asked for by the environment: then it goes where it was to go. Called once, before there are other
// threads.
void ask_nccl_for_words(CarrierLog log);

// The subsystems of NCCL that write there, as its variable names them. Empty where the log goes elsewhere.
std::string nccl_log();

// The lines so far that name channels, connections, NVLS, or algorithm and protocol of a collective; each
// once, without host and process. None where the log goes elsewhere.
std::vector<std::string> nccl_words();

// The same of any log.
std::vector<std::string> words_in(std::string_view log);

}  // namespace zp
