// The model that a user asked for: a preset, shapes of one's own or a file that describes a GPT-2, and what
// is tied, frozen or put together in it.
#pragma once

#include <string>

#include "harness/model/model.hpp"
#include "harness/suite/typed.hpp"

namespace zp {

// --model (`otherwise`, where it was not given), --tied, --unit-blocks, --freeze. Throws (usage).
ModelConfig model_of(const Typed& typed, const std::string& otherwise);

// The config.json of a Hugging Face GPT-2. Throws (usage) for a file that is no such description, lacks a
// field or describes another architecture than GPT-2's.
ModelConfig model_from_file(const std::string& path);

// Whether a data file holds tokens, by its name (.bin), and not text.
bool is_token_file(const std::string& path);

}  // namespace zp
